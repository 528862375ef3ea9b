import { createInterface, type Interface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { withoutThinking } from "../thinking.ts";
import { STOP_TOKEN, type UserContext, type UserSimulator, UserSimulatorError, type UserTurn } from "./types.ts";

// A person as the user: reads a line from stdin for each turn. Source: spec section 6.1.

export interface HumanState {
  kind: "human";
}

export interface HumanOptions {
  input: Readable;
  output: Writable;
}

const STATE: HumanState = { kind: "human" };

/** One dialogue at a time: a second one waits until the first has its line. */
export function humanUser({ input, output }: HumanOptions): UserSimulator<HumanState> {
  let lines: Interface | null = null;
  /** Lines that came before anybody asked for them, and who asks for lines that have not come yet. */
  const ready: string[] = [];
  const waiting: ((line: string | null) => void)[] = [];
  let over = false;

  function open(): void {
    if (lines) return;
    lines = createInterface({ input, terminal: false });
    lines.on("line", (line) => {
      const next = waiting.shift();
      if (next) next(line);
      else ready.push(line);
    });
    lines.on("close", () => {
      over = true;
      for (const next of waiting.splice(0)) next(null);
    });
  }

  /** The next line; null: the input is over. */
  function read(signal: AbortSignal): Promise<string | null> {
    const line = ready.shift();
    if (line !== undefined || over) return Promise.resolve(line ?? null);
    return new Promise((resolve, reject) => {
      const settle = (answer: string | null) => {
        signal.removeEventListener("abort", onAbort);
        resolve(answer);
      };
      const onAbort = () => {
        waiting.splice(waiting.indexOf(settle), 1);
        reject(new UserSimulatorError("the run was stopped"));
      };
      if (signal.aborted) return reject(new UserSimulatorError("the run was stopped"));
      signal.addEventListener("abort", onAbort, { once: true });
      waiting.push(settle);
    });
  }

  async function ask(text: string, { signal }: UserContext): Promise<UserTurn<HumanState>> {
    open();
    output.write(`${text}\n`);
    for (;;) {
      output.write("you> ");
      const line = await read(signal);
      if (line === null) return { state: STATE, text: STOP_TOKEN };
      if (line.trim() !== "") return { state: STATE, text: line.trim() };
    }
  }

  return {
    strategy: "human",
    reset: (task, context) =>
      ask(`Your part:\n${task.instruction}\n\nEnd the dialogue with ${STOP_TOKEN}, or by closing the input.`, context),
    step: (_task, _state, agent_text, _probe, context) =>
      ask(`agent> ${withoutThinking(agent_text) || "(nothing)"}`, context),
    cost: () => 0,
    close: () => lines?.close(),
  };
}
