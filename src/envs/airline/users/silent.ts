import { STOP_TOKEN, type UserSimulator, type UserTask, type UserTurn } from "./types.ts";

// A user who says the whole instruction at once and leaves at the first answer. It asks no model and needs no script, so
// gold actions can be played on any task, a user's converted originals too. No agent should be measured with it.

export interface SilentState {
  kind: "silent";
}

const STATE: SilentState = { kind: "silent" };

export function openSilent({ instruction }: UserTask): UserTurn<SilentState> {
  // An instruction's own words must not end the dialogue.
  return { state: STATE, text: instruction.replaceAll(STOP_TOKEN, "") };
}

export function silentUser(): UserSimulator<SilentState> {
  return {
    strategy: "silent",
    reset: async (task) => openSilent(task),
    step: async () => ({ state: STATE, text: STOP_TOKEN }),
    cost: () => 0,
    close() {},
  };
}
