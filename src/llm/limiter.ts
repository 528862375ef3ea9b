/** How much an endpoint may be asked. null: no limit. */
export interface Limits {
  /** Requests under way at a time. */
  in_flight: number;
  /** Requests begun within any 60 s. */
  requests_per_minute: number | null;
  /** Tokens told by answers within any 60 s. No request begins beyond it; those under way may still go over. */
  tokens_per_minute: number | null;
}

export interface Limiter {
  /** Waits for a place, first come, first served. @throws the signal's reason once it is aborted */
  enter(signal?: AbortSignal): Promise<void>;
  /** Gives the place back, with the tokens that the request took. */
  leave(tokens: number): void;
  /** Nobody enters for so long, milliseconds: the endpoint asked for it. */
  pause(ms: number): void;
}

const MINUTE_MS = 60_000;

/**
 * Until the first request is back, it is the only one: a wrong key or address is then told once, not by all that were
 * under way.
 */
export function createLimiter({ in_flight, requests_per_minute, tokens_per_minute }: Limits): Limiter {
  let running = 0;
  let most = 1;
  let paused_until = 0;
  let begun: number[] = [];
  let spent: { at: number; tokens: number }[] = [];
  let last: Promise<void> = Promise.resolve();
  let wake = () => {};

  /** Milliseconds until a request may begin by the limits that time lifts. */
  function waiting(now: number): number {
    let until = paused_until;
    if (requests_per_minute !== null) {
      begun = begun.filter((at) => at > now - MINUTE_MS);
      const oldest = begun[begun.length - requests_per_minute];
      if (oldest !== undefined) until = Math.max(until, oldest + MINUTE_MS);
    }
    if (tokens_per_minute !== null) {
      spent = spent.filter(({ at }) => at > now - MINUTE_MS);
      let left = spent.reduce((sum, { tokens }) => sum + tokens, 0);
      for (const { at, tokens } of spent) {
        if (left < tokens_per_minute) break;
        until = Math.max(until, at + MINUTE_MS);
        left -= tokens;
      }
    }
    return Math.max(0, until - now);
  }

  async function place(signal?: AbortSignal): Promise<void> {
    for (;;) {
      signal?.throwIfAborted();
      const ms = waiting(performance.now());
      if (ms === 0 && running < most) return;
      await new Promise<void>((resolve, reject) => {
        // A whole millisecond more: timers may fire a fraction early.
        const timer = ms > 0 ? setTimeout(settle, Math.min(ms + 1, MINUTE_MS)) : undefined;
        function settle(): void {
          clearTimeout(timer);
          signal?.removeEventListener("abort", onAbort);
          resolve();
        }
        function onAbort(): void {
          clearTimeout(timer);
          reject(signal!.reason);
        }
        signal?.addEventListener("abort", onAbort, { once: true });
        wake = settle;
      });
    }
  }

  return {
    async enter(signal) {
      const before = last;
      let next = () => {};
      last = new Promise<void>((resolve) => {
        next = resolve;
      });
      try {
        await before;
        await place(signal);
        running++;
        if (requests_per_minute !== null) begun.push(performance.now());
      } finally {
        next();
      }
    },
    leave(tokens) {
      running--;
      most = in_flight;
      if (tokens_per_minute !== null && tokens > 0) spent.push({ at: performance.now(), tokens });
      wake();
    },
    pause(ms) {
      paused_until = Math.max(paused_until, performance.now() + ms);
    },
  };
}
