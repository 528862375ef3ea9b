import { openJsonLines } from "./trajectory-log.ts";

export interface MetricsLog {
  /** Appends one point of the curves. */
  write(step: number, metrics: Record<string, number>): void;
  /** As of a log of trajectories. */
  sync(): number;
  close(): void;
}

/** `metrics.jsonl` of a run: {step, time, …}, a point a line; NaN and infinity as {"$float": "NaN"}, as on the bridge. */
export function openMetrics(path: string): MetricsLog {
  const lines = openJsonLines<Record<string, unknown>>(path);
  return {
    write: (step, metrics) => lines.write({ step, time: new Date().toISOString(), ...metrics }),
    sync: lines.sync,
    close: lines.close,
  };
}

export interface Progress {
  /** A line that stays. */
  line(text: string): void;
  /** Where a long piece of work is: on a terminal a line that is written over, elsewhere at most one line in 10 s. */
  status(text: string): void;
  /** Ends the line that is written over. */
  end(): void;
}

const PLAIN_INTERVAL_MS = 10_000;

/** Progress for the person watching, always on stderr: stdout belongs to results. */
export function createProgress(stream: NodeJS.WriteStream = process.stderr): Progress {
  let written = false;
  let lastPlain = Number.NEGATIVE_INFINITY;
  function end(): void {
    if (written) stream.write("\n");
    written = false;
  }
  return {
    line(text) {
      if (written) stream.write("\r\x1b[2K");
      written = false;
      stream.write(`${text}\n`);
    },
    status(text) {
      if (stream.isTTY) {
        stream.write(`\r\x1b[2K${text.slice(0, Math.max(20, (stream.columns || 80) - 1))}`);
        written = true;
        return;
      }
      if (performance.now() - lastPlain < PLAIN_INTERVAL_MS) return;
      lastPlain = performance.now();
      stream.write(`${text}\n`);
    },
    end,
  };
}

const BAR_WIDTH = 20;

/** How far a piece of work is: "[#####·····] 12 of 24 episodes, 0:35 left". `began_ms` is a reading of performance.now(). */
export function progressBar(done: number, total: number, what: string, began_ms: number): string {
  const filled = Math.floor((BAR_WIDTH * done) / total);
  const left_s = done === 0 ? 0 : Math.round(((performance.now() - began_ms) / 1000 / done) * (total - done));
  const left = `${Math.floor(left_s / 60)}:${String(left_s % 60).padStart(2, "0")} left`;
  return `[${"#".repeat(filled)}${"·".repeat(BAR_WIDTH - filled)}] ${done} of ${total} ${what}, ${left}`;
}

/** A training point in a line: "step 20 · reward 0.41 · loss 0.013". Names that are not there are left out. */
export function summarizePoint(step: number, metrics: Record<string, number>, names: readonly string[]): string {
  const shown = names.flatMap((name) => {
    const value = metrics[name];
    return value === undefined ? [] : [`${name.split("/").at(-1)} ${shortNumber(value)}`];
  });
  return [`step ${step}`, ...shown].join(" · ");
}

export function shortNumber(value: number): string {
  if (!Number.isFinite(value)) return String(value);
  if (value !== 0 && Math.abs(value) < 0.001) return value.toExponential(1);
  return String(Number(value.toPrecision(Math.abs(value) >= 1000 ? 4 : 3)));
}
