import { createUserSimulator, type UserOptions, type UserSimulator } from "./users/index.ts";

// One user simulator for all episodes under the same options: it holds connections and the limits on requests. It lets
// connections go once nobody has needed it for a while, since nothing tells an environment that a run is over; the limits
// stay, and a later episode connects anew.

const IDLE_MS = 1_000;

interface Lease {
  simulator: UserSimulator;
  episodes: number;
  closing: NodeJS.Timeout | null;
}

const byOptions = new WeakMap<UserOptions, Lease>();
const bySimulator = new WeakMap<UserSimulator, { options: UserOptions; lease: Lease }>();

/** @throws UserError for an endpoint that is not set, or options that contradict each other */
export function borrowSimulator(options: UserOptions): UserSimulator {
  let lease = byOptions.get(options);
  if (!lease) {
    lease = { simulator: createUserSimulator(options), episodes: 0, closing: null };
    byOptions.set(options, lease);
    bySimulator.set(lease.simulator, { options, lease });
  }
  lease.episodes++;
  if (lease.closing) clearTimeout(lease.closing);
  lease.closing = null;
  return lease.simulator;
}

/** Once for each `borrowSimulator`. A simulator that was not borrowed is its owner's to close. */
export function returnSimulator(simulator: UserSimulator): void {
  const known = bySimulator.get(simulator);
  if (!known) return;
  const { options, lease } = known;
  lease.episodes--;
  if (lease.episodes > 0) return;
  lease.closing = setTimeout(() => {
    if (simulator.strategy === "human") byOptions.delete(options); // its input is not to be had twice
    simulator.close();
  }, IDLE_MS);
  lease.closing.unref();
}
