import { type EventEmitter, setMaxListeners } from "node:events";

/** How a play without Python is ended from outside. */
export interface Stop {
  /** "SIGINT", "SIGTERM": start no more episodes; null: go on. */
  readonly asked: string | null;
  /** Aborted at the second one, or by `abort`: what is under way ends too. */
  readonly signal: AbortSignal;
  abort(): void;
  /** Gives the signals back to whoever else listens. */
  close(): void;
}

/** tsx and npm pass on a Ctrl-C that the terminal has already sent us. Within this time it is the same one. */
const SAME_SIGNAL_MS = 1_000;

/**
 * Listens for Ctrl-C: after the first, episodes under way are played to their end; the second ends them where they are,
 * as invalid; the third ends the process.
 */
export function listenForStop(tell: (text: string) => void, signals: EventEmitter = process): Stop {
  const controller = new AbortController();
  setMaxListeners(0, controller.signal); // every episode and every request listens
  let asked: string | null = null;
  let asked_ms = Number.NEGATIVE_INFINITY;

  function onSignal(name: string): void {
    if (performance.now() - asked_ms < SAME_SIGNAL_MS) return;
    asked_ms = performance.now();
    if (asked === null) {
      asked = name;
      tell(`${name}: no more episodes are started; those under way are played to their end. Once more: stop at once.`);
      return;
    }
    controller.abort();
    close();
  }
  function close(): void {
    signals.off("SIGINT", onSignal);
    signals.off("SIGTERM", onSignal);
  }
  signals.on("SIGINT", onSignal);
  signals.on("SIGTERM", onSignal);

  return {
    get asked() {
      return asked;
    },
    signal: controller.signal,
    abort: () => controller.abort(),
    close,
  };
}
