import { Worker } from "node:worker_threads";
import { errorText } from "../../../core/errors.ts";
import { type PdfReading, UnreadablePdf } from "./pdf-reader.ts";

// PDFs come from strangers. They are read in a thread of their own, so that one which takes for ever, or all memory,
// costs itself and not the build.

export interface PdfReader {
  /** @throws UnreadablePdf, also where the time or the memory ran out */
  read(path: string): Promise<PdfReading>;
  close(): Promise<void>;
}

export interface ThreadLimits {
  timeout_ms: number;
  /** Of JavaScript objects; pixels come on top. */
  memory_mb: number;
}

interface Outcome {
  reading?: PdfReading;
  error?: string;
  /** The thread is of no use any more. */
  broken?: boolean;
}

/** Reads PDFs one after the other, in a thread that starts with the first one. */
export function createThreadReader({ timeout_ms, memory_mb }: ThreadLimits): PdfReader {
  let worker: Worker | null = null;

  function start(): Worker {
    const thread = new Worker(new URL("./pdf-thread.mjs", import.meta.url), {
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: memory_mb },
      stdout: true,
      stderr: true, // a PDF library's warnings are nobody's
    });
    // One that dies between two readings leaves nothing to tell.
    for (const event of ["error", "exit"]) {
      thread.on(event, () => {
        if (worker === thread) worker = null;
      });
    }
    thread.unref();
    return thread;
  }

  async function stop(): Promise<void> {
    const thread = worker;
    worker = null;
    await thread?.terminate();
  }

  return {
    async read(path) {
      worker ??= start();
      const outcome = await ask(worker, path, timeout_ms);
      if (outcome.broken) await stop();
      if (!outcome.reading) throw new UnreadablePdf(outcome.error ?? "the PDF can't be read");
      return outcome.reading;
    },
    close: stop,
  };
}

/** Sends a path and waits for what comes of it. */
async function ask(thread: Worker, path: string, timeout_ms: number): Promise<Outcome> {
  thread.ref();
  return new Promise((resolve) => {
    const finish = (outcome: Outcome): void => {
      clearTimeout(timer);
      thread.off("message", finish).off("error", onError).off("exit", onExit);
      thread.unref();
      resolve(outcome);
    };
    const broke = (error: string): void => finish({ error, broken: true });
    const onError = (error: unknown): void => broke(`reading it failed: ${errorText(error)}`);
    const onExit = (): void => broke("reading it ended the thread");
    const timer = setTimeout(() => broke(`reading it took longer than ${timeout_ms / 1000} s`), timeout_ms);
    thread.on("message", finish).on("error", onError).on("exit", onExit);
    thread.postMessage(path);
  });
}
