import { setMaxListeners } from "node:events";
import { constants } from "node:os";

/** How a play without Python is ended from outside. */
export interface Stop {
  /** "SIGINT", "SIGTERM": start no more episodes; null: go on. */
  readonly asked: NodeJS.Signals | null;
  /** Aborted: what is under way ends too. */
  readonly signal: AbortSignal;
  abort(): void;
  /** Gives the signals back to whoever else listens. */
  close(): void;
}

/** tsx and npm pass on a Ctrl-C that the terminal has already sent us. Within this time it is the same one. */
const SAME_SIGNAL_MS = 1_000;

/**
 * Listens for Ctrl-C. The first one ends the episodes under way; where they are `dear`, it lets them be played to their
 * end, and the second one ends them. One more ends the process.
 */
export function listenForStop({ dear, tell }: { dear: boolean; tell: (text: string) => void }): Stop {
  const controller = new AbortController();
  setMaxListeners(0, controller.signal); // every episode and every request listens
  let asked: NodeJS.Signals | null = null;
  let asked_ms = Number.NEGATIVE_INFINITY;

  function onSignal(name: NodeJS.Signals): void {
    if (performance.now() - asked_ms < SAME_SIGNAL_MS) return;
    asked_ms = performance.now();
    if (controller.signal.aborted) process.exit(128 + constants.signals[name]);
    if (asked !== null || !dear) controller.abort(name);
    else tell(`${name}: no more episodes begin; those under way are played to their end. Once more: they end at once.`);
    asked ??= name;
  }
  process.on("SIGINT", onSignal).on("SIGTERM", onSignal);

  return {
    get asked() {
      return asked;
    },
    signal: controller.signal,
    abort: () => controller.abort(),
    close: () => void process.off("SIGINT", onSignal).off("SIGTERM", onSignal),
  };
}
