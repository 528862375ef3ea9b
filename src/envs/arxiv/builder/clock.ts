/** Time as the builder sees it, so that a test need not wait. */
export interface Clock {
  /** Milliseconds since 1970. */
  now_ms(): number;
  sleep(ms: number): Promise<void>;
}

export const systemClock: Clock = {
  now_ms: () => Date.now(),
  sleep: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
};

/** `YYYY-MM-DD HH:MM:SS` in UTC, as all times of a snapshot. */
export function timeText(ms: number): string {
  return new Date(ms).toISOString().slice(0, 19).replace("T", " ");
}
