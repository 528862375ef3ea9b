import type { Clock } from "./clock.ts";

/** Keeps a distance between the starts of requests, whoever makes them. */
export interface Pacer {
  /** Resolves when the next request may start; one caller at a time. */
  turn(): Promise<void>;
  /** Nothing starts for so long from now: the server asked for it. */
  hold(ms: number): void;
}

export function createPacer(clock: Clock, interval_ms: number): Pacer {
  let free_at_ms = Number.NEGATIVE_INFINITY;
  let queue = Promise.resolve();
  return {
    turn() {
      const mine = queue.then(async () => {
        // Again after each sleep: a hold may have come meanwhile, and timers may fire a little early.
        for (let now = clock.now_ms(); now < free_at_ms; now = clock.now_ms()) await clock.sleep(free_at_ms - now);
        free_at_ms = clock.now_ms() + interval_ms;
      });
      queue = mine;
      return mine;
    },
    hold(ms) {
      free_at_ms = Math.max(free_at_ms, clock.now_ms() + ms);
    },
  };
}
