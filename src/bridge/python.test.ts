import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { UserError } from "../core/errors.ts";
import { alive } from "./fixtures/processes.ts";
import {
  DeadlineError,
  type Python,
  PythonDied,
  PythonError,
  type StartOptions,
  Stopped,
  startPython,
} from "./python.ts";

const start = (options: StartOptions = {}) =>
  startPython({ python_path: [join(import.meta.dirname, "fixtures")], stderr: "pipe", ...options });

async function rejection(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    (value) => expect.fail(`resolved with ${JSON.stringify(value)}`),
    (error: unknown) => error,
  );
}

describe("one Python, many calls", () => {
  let python: Python;
  beforeAll(async () => {
    python = await start({ env: { STUB_VALUE: "set" } });
  });
  afterAll(() => python.close());

  test("data goes there and back", async () => {
    const request = { a: [1, 2.5, "ü🙂\n\u0000", null, true], b: { c: {} }, big: 2 ** 53 - 1 };
    expect(await python.call("stub:echo", request)).toEqual(request);
  });

  test("BR-05: NaN and the infinities cross in both directions, and Node lives on", async () => {
    const values = [0.5, Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
    expect(await python.call("stub:numbers", { values })).toEqual({
      values: [1, Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY],
      seen: ["0.5", "nan", "inf", "-inf"],
    });
  });

  test("BR-06, BR-10: an answer's list is a list, row by row, and NaN in it is not None", async () => {
    const answer = async () => ({ reward: [0, Number.NaN], kind: typeof [] });
    const { answers } = await python.call<{ answers: unknown[] }>("stub:ask", { ops: [["finish", {}]] }, { answer });
    expect(answers).toEqual([{ reward: [0, Number.NaN], kind: "object" }]);
  });

  test.each([
    ["stub:too_big", /^TypeError: stub:too_big\.rows\[0\]\.id|rows\[0\]\.id is 1152921504606846976, beyond 2\^53/],
    ["stub:a_set", /rows is a set; only None/],
  ])("a result that cannot cross is an error with its path: %s", async (entry, message) => {
    const error = await rejection(python.call(entry, {}));
    expect(error).toBeInstanceOf(PythonError);
    expect(error).toMatchObject({ type: "TypeError", message: expect.stringMatching(message) });
  });

  test("a request that cannot cross is refused before it leaves", async () => {
    await expect(python.call("stub:echo", { rows: [{ at: new Date(0) }] })).rejects.toThrow(
      /^stub:echo\.request\.rows\[0\]\.at is a Date/,
    );
  });

  test("BR-19: a Python exception keeps type, text and traceback, without colours", async () => {
    const error = (await rejection(python.call("stub:fail", {}))) as PythonError;
    expect(error).toBeInstanceOf(PythonError);
    expect(error.message).toBe("ValueError: bad value ü");
    expect(error.type).toBe("ValueError");
    expect(error.traceback).toMatch(/stub\.py", line \d+, in fail/);
    expect(error.traceback + error.message).not.toContain("\u001b");
  });

  test("BR-23: half an emoji is replaced on the way, in both directions, and counted", async () => {
    const before = python.stats().replaced_surrogates;
    expect(await python.call("stub:surrogate", { text: "a\ud83dz" })).toEqual({
      seen: ["0x61", "0xfffd", "0x7a"],
      text: "b\ufffdz",
    });
    expect(python.stats().replaced_surrogates - before).toBe(2);
  });

  test.each([
    ["20 MB of text with quotes, accents and newlines", 'Ein "später" Satz.\n\\'.repeat(1_000_000), []],
    ["a list of a million integers", "", Array.from({ length: 1_000_000 }, (_, index) => index)],
  ])("BR-26: %s, there and back within 5 s", async (_label, text, ids: number[]) => {
    const started = performance.now();
    const result = await python.call<{ text: string; ids: number[]; sum: number }>("stub:big", { text, ids });
    const took_ms = performance.now() - started;
    expect(result.text === text).toBe(true);
    expect(result.ids.length === ids.length && result.ids.every((id, index) => id === index)).toBe(true);
    expect(result.sum).toBe(ids.length === 0 ? 0 : 499_999_500_000);
    expect(took_ms).toBeLessThan(5_000);
  });

  test.each([
    ["throws", () => Promise.reject(new RangeError("no such task")), "no such task"],
    [
      "throws at once",
      () => {
        throw new UserError("unknown option");
      },
      "unknown option",
    ],
    ["throws no Error", () => Promise.reject("just text"), "just text"],
    ["returns nothing", () => Promise.resolve(undefined), "The answer to 'fails' is undefined; expected an object."],
    ["returns null", () => Promise.resolve(null), "The answer to 'fails' is null; expected an object."],
    ["returns a list", () => Promise.resolve([1]), "The answer to 'fails' is a list; expected an object."],
    ["returns a number", () => Promise.resolve(3), "The answer to 'fails' is a number; expected an object."],
    [
      "returns what cannot cross",
      () => Promise.resolve({ rows: [new Map()] }),
      "answer to 'fails'.result.rows[0] is a Map; only plain objects, lists, texts and numbers cross to Python.",
    ],
  ])("an answer that %s: Python hears why, and the caller gets the very error", async (_label, fails, text) => {
    const answer = async (op: string) => (op === "fails" ? fails() : { fine: true });
    const error = await rejection(python.call("stub:ask", { ops: [["fails", {}]] }, { answer }));
    expect(error instanceof Error ? error.message : error).toBe(text);
    expect(await python.call("stub:swallow", {}, { answer })).toEqual({
      caught: `HostError: ${text}`,
      next: { fine: true },
    });
  });

  test("a question that nobody answers ends the call, and says so", async () => {
    await expect(python.call("stub:ask", { ops: [["start", {}]] })).rejects.toThrow(
      "'stub:ask' asked 'start', but its caller answers no questions.",
    );
  });

  test("an answer cannot call Python, which is waiting for it", async () => {
    const answer = () => python.call("stub:echo", {});
    await expect(python.call("stub:ask", { ops: [["x", {}]] }, { answer })).rejects.toThrow(
      "'stub:echo' was called from within an answer to Python",
    );
  });

  test("calls take turns", async () => {
    const results = Promise.all([1, 2, 3].map((n) => python.call("stub:echo", { n })));
    expect(await results).toEqual([{ n: 1 }, { n: 2 }, { n: 3 }]);
  });

  test("BR-04: past its deadline a call says that the work may go on; the next one's clock starts when it is served", async () => {
    const started = performance.now();
    const slow = python.call("stub:sleep", { seconds: 1 }, { deadline_ms: 150 });
    const next = python.call("stub:echo", { n: 1 }, { deadline_ms: 700 });
    const error = await rejection(slow);
    expect(error).toBeInstanceOf(DeadlineError);
    expect(String(error)).toMatch(/'stub:sleep' did not return within 150 ms. Its work may still be running/);
    expect(performance.now() - started).toBeLessThan(900);
    expect(await next).toEqual({ n: 1 });
    expect(performance.now() - started).toBeGreaterThan(950);
  });

  test("past its deadline a call gets no more answers, so it ends at its next question", async () => {
    const answer = vi.fn(async () => new Promise((resolve) => setTimeout(resolve, 300, {})));
    const call = python.call("stub:many_asks", { count: 1000 }, { answer, deadline_ms: 100 });
    expect(await rejection(call)).toBeInstanceOf(DeadlineError);
    expect(await python.call("stub:echo", { n: 1 })).toEqual({ n: 1 });
    expect(answer).toHaveBeenCalledTimes(1);
  });

  test("an aborted signal: a call that still waits is not made", async () => {
    const abort = AbortSignal.abort();
    expect(await rejection(python.call("stub:echo", {}, { signal: abort }))).toBeInstanceOf(Stopped);
  });

  test("BR-13: what a thread logs is delivered with the main thread's next question; it may not ask itself", async () => {
    const asked: [string, unknown][] = [];
    const answer = async (op: string, payload: unknown) => {
      asked.push([op, payload]);
      return {};
    };
    const { refused } = await python.call<{ refused: string[] }>("stub:log_from_thread", {}, { answer });
    expect(asked).toEqual([
      ["log", { step: 1, metrics: { loss: Number.NaN } }],
      ["note", { text: "from a thread" }],
      ["main", {}],
    ]);
    expect(refused).toEqual([
      expect.stringMatching(/host\.ask\('step'\) from thread 'worker': only the main thread may ask/),
    ]);
  });

  test("BR-13: a thread that logs after the call returned is refused in its own thread; later calls answer", async () => {
    await python.call("stub:log_after_return", {}, { answer: async () => ({}) });
    expect(await python.call("stub:echo", { n: 1 })).toEqual({ n: 1 });
    await python.call("stub:sleep", { seconds: 0.5 });
    expect(await python.call("stub:late_errors", {})).toEqual({
      errors: [expect.stringMatching(/^HostError: 'log' from thread .* the call it belongs to is over\./)],
    });
  });

  test("Python's children cannot find our channel; our modules come first, pythonia's folder is not searched", async () => {
    const found = await python.call<{ channel: unknown; path: string[]; value: string }>("stub:environment", {});
    expect(found).toMatchObject({ channel: null, value: "set" });
    expect(found.path[0]).toMatch(/fixtures$/);
    expect(found.path.join()).not.toContain("pythonia");
  });

  test("a missing package: one line that names it, the interpreter and what to do", async () => {
    const error = await rejection(python.call("stub:missing_package", {}));
    expect(error).toBeInstanceOf(UserError);
    expect(String(error)).toMatch(
      /needs the Python package 'a_package_that_nobody_has', which .*python.* does not have. Install it with: .*pip install/,
    );
  });

  test.each(["nowhere", "nowhere:run"])("an entry that does not exist: %s", async (entry) => {
    await expect(python.call(entry, {})).rejects.toThrow(/^Python has no module '(trainers\.)?nowhere'\.$/);
  });

  test("the bridge's share of a call is measured without the answers' own work", async () => {
    const before = python.stats();
    const answer = async () => new Promise((resolve) => setTimeout(resolve, 5, {}));
    const seen = await python.call<{ crossing_ms: number; handler_ms: number }>(
      "stub:many_asks",
      { count: 40 },
      { answer },
    );
    const after = python.stats();
    expect(after.callbacks - before.callbacks).toBe(40);
    expect(after.handler_ms - before.handler_ms).toBeGreaterThan(150);
    expect(after.crossing_ms - before.crossing_ms).toBeLessThan(after.handler_ms - before.handler_ms);
    expect(after.crossing_ms - before.crossing_ms).toBeCloseTo(seen.crossing_ms, 0);
    expect(after.chars_to_python).toBeGreaterThan(before.chars_to_python);
  });
});

describe("BR-01: pythonia's own deadline touches no call", () => {
  test.each(["200", ""])("REQ_TIMEOUT=%j", async (value) => {
    vi.stubEnv("REQ_TIMEOUT", value);
    vi.stubEnv("DEBUG", "*"); // would print everything that crosses to our stdout
    const python = await start();
    expect(process.env.REQ_TIMEOUT).toBe(value);
    vi.unstubAllEnvs();
    expect(await python.call("stub:sleep", { seconds: 0.6 })).toEqual({ slept: 0.6 });
    await python.close();
  });
});

describe("BR-16: Python dies", () => {
  const deaths: [string, string, object, object][] = [
    [
      "os._exit",
      "stub:os_exit",
      { code: 7 },
      { code: 7, signal: null, last_lines: expect.stringContaining("last words") },
    ],
    [
      "sys.exit",
      "stub:sys_exit",
      { code: 3 },
      { code: 3, signal: null, last_lines: expect.stringContaining("SystemExit: 3") },
    ],
    ["kill -9 on itself", "stub:kill_self", {}, { code: null, signal: "SIGKILL" }],
    [
      "a segfault",
      "stub:segfault",
      {},
      { code: null, signal: "SIGSEGV", last_lines: expect.stringContaining("stub.py") },
    ],
  ];
  test.each(deaths)(
    "by %s: what waits is rejected within 1 s with the last lines",
    async (_label, entry, request, expected) => {
      const python = await start();
      const started = performance.now();
      const call = python.call(entry, request);
      const waiting = python.call("stub:echo", {});
      const error = await rejection(call);
      expect(performance.now() - started).toBeLessThan(1_000);
      expect(error).toBeInstanceOf(PythonDied);
      expect(error).toMatchObject(expected);
      expect(String(error)).toContain(`while '${entry}' ran`);
      expect(await rejection(waiting)).toBeInstanceOf(PythonDied);
      expect(await rejection(python.call("stub:echo", {}))).toBeInstanceOf(PythonDied);
      await python.close();
    },
  );

  test("kill -9 from outside while a call waits", async () => {
    const python = await start();
    const call = python.call("stub:sleep", { seconds: 60 });
    await new Promise((resolve) => setTimeout(resolve, 100));
    const started = performance.now();
    process.kill(python.info.pid, "SIGKILL");
    expect(await rejection(call)).toMatchObject({ name: "PythonDied", signal: "SIGKILL" });
    expect(performance.now() - started).toBeLessThan(1_000);
  });

  test("kill -9, and a call in the same moment", async () => {
    const python = await start();
    process.kill(python.info.pid, "SIGKILL");
    expect(await rejection(python.call("stub:echo", {}))).toBeInstanceOf(PythonDied);
    await python.close();
  });

  test("a SIGTERM from outside while no call runs ends it", async () => {
    const python = await start();
    process.kill(python.info.pid, "SIGTERM");
    await vi.waitFor(() => expect(alive(python.info.pid)).toBe(false), 2_000);
    expect(await rejection(python.call("stub:echo", {}))).toMatchObject({ name: "PythonDied" });
  });

  test("while it starts: the start is rejected with what it printed", async () => {
    const error = await rejection(start({ env: { PYTHONHOME: "/nonexistent" } }));
    expect(error).toBeInstanceOf(PythonDied);
    expect(String(error)).toMatch(/Python ended with exit code 1\. Its last lines:[\s\S]*encodings/);
  });

  test("kill -9 while an answer is being made: the call is rejected at once, the late answer goes nowhere", async () => {
    const python = await start();
    let answered = false;
    const answer = async () => {
      process.kill(python.info.pid, "SIGKILL");
      await new Promise((resolve) => setTimeout(resolve, 700));
      answered = true;
      return {};
    };
    const started = performance.now();
    expect(await rejection(python.call("stub:ask", { ops: [["x", {}]] }, { answer }))).toBeInstanceOf(PythonDied);
    expect(answered).toBe(false);
    expect(performance.now() - started).toBeLessThan(1_000);
    await new Promise((resolve) => setTimeout(resolve, 800));
    expect(answered).toBe(true);
  });

  test("LN-04: with Python goes what it started", async () => {
    const python = await start();
    const { promise: told, resolve } = (() => {
      let resolve!: (pid: number) => void;
      return { promise: new Promise<number>((r) => (resolve = r)), resolve };
    })();
    const answer = async (_op: string, payload: unknown) => {
      resolve((payload as { pid: number }).pid);
      return {};
    };
    const call = rejection(python.call("stub:grandchild", {}, { answer }));
    const grandchild = await told;
    expect(alive(grandchild)).toBe(true);
    process.kill(python.info.pid, "SIGKILL");
    expect(await call).toBeInstanceOf(PythonDied);
    await vi.waitFor(() => expect(alive(grandchild)).toBe(false), 2_000);
  });
});

describe("stopping", () => {
  test("an entry that looks at stop_requested saves and returns; after that no call is made", async () => {
    const folder = mkdtempSync(join(tmpdir(), "trestle-"));
    const checkpoint = join(folder, "checkpoint");
    const python = await start();
    const abort = new AbortController();
    const asked = vi.fn(async () => {
      if (asked.mock.calls.length === 3) abort.abort();
      return {};
    });
    const request = { steps: 1000, asks: true, checkpoint };
    const result = await python.call("stub:train", request, { answer: asked, signal: abort.signal });
    expect(result).toEqual({ stopped_at: 2 });
    expect(readFileSync(checkpoint, "utf8")).toBe("2");
    expect(python.stopReason()).toBe("abort");
    expect(await rejection(python.call("stub:echo", {}))).toBeInstanceOf(Stopped);
    await python.close();
    rmSync(folder, { recursive: true });
  });

  test("the flag is set while Python asks nothing", async () => {
    const folder = mkdtempSync(join(tmpdir(), "trestle-"));
    const python = await start();
    const call = python.call<{ stopped_at: number }>("stub:train", { steps: 1000, checkpoint: join(folder, "c") });
    await new Promise((resolve) => setTimeout(resolve, 300));
    python.requestStop();
    expect((await call).stopped_at).toBeLessThan(100);
    await python.close();
    rmSync(folder, { recursive: true });
  });

  test("an entry that does not look at it is ended", async () => {
    const python = await start();
    const call = python.call("stub:sleep", { seconds: 60 });
    await new Promise((resolve) => setTimeout(resolve, 100));
    python.requestStop("SIGINT");
    const error = await rejection(call);
    expect(error).toBeInstanceOf(Stopped);
    expect(error).toMatchObject({ reason: "SIGINT", message: expect.stringMatching(/nothing to save/) });
  });

  test("close ends an idle Python, and a busy one too; its call is rejected", async () => {
    const idle = await start();
    await idle.close();
    expect(alive(idle.info.pid)).toBe(false);
    await idle.close();
    const busy = await start();
    const call = rejection(busy.call("stub:sleep", { seconds: 60 }));
    await new Promise((resolve) => setTimeout(resolve, 100));
    await busy.close();
    expect(await call).toMatchObject({ message: "Python was closed." });
    expect(alive(busy.info.pid)).toBe(false);
  });
});

test("what Python prints can go to a file", async () => {
  const folder = mkdtempSync(join(tmpdir(), "trestle-"));
  const file = join(folder, "python.log");
  const python = await start({ stderr: file });
  await python.call("stub:print_storm", { lines: 3 }, { answer: async () => ({}) });
  await python.close();
  const text = readFileSync(file, "utf8");
  for (const part of ["straight to descriptor 1", '{"r": 10000', " 2%", "from a grandchild"])
    expect(text).toContain(part);
  rmSync(folder, { recursive: true });
});
