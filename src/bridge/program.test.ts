// Whole programs around one Python: what signals, exit codes and stdout are to the person who started them.
// Each is a Node process of its own (fixtures/program.ts) with a real Python under it.

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa, type Options } from "execa";
import { afterAll, describe, expect, test, vi } from "vitest";
import { alive } from "./fixtures/processes.ts";
import { projectRoot } from "./interpreter.ts";

const program = join(import.meta.dirname, "fixtures", "program.ts");
const folder = mkdtempSync(join(tmpdir(), "trestle-"));
afterAll(() => rmSync(folder, { recursive: true }));

function start(plan: object, command = [process.execPath, "--import", "tsx"], env: Record<string, string> = {}) {
  const options = { cwd: projectRoot, env, reject: false, stdin: "ignore", timeout: 50_000 } satisfies Options;
  const child = execa(command[0]!, [...command.slice(1), program, JSON.stringify(plan)], options);
  let stderr = "";
  child.stderr.on("data", (chunk) => {
    stderr += chunk;
  });
  let answered_ms = Number.NaN;
  child.stdout.once("data", () => {
    answered_ms = performance.now();
  });
  return {
    child,
    stderr: () => stderr,
    /** Since its first character on stdout. */
    sinceAnswer_ms: () => performance.now() - answered_ms,
    /** The first group of `pattern`, once it is printed. */
    said: (pattern: RegExp) =>
      vi.waitFor(() => pattern.exec(stderr)?.[1] ?? expect.fail(`not printed: ${pattern}; but: ${stderr}`), {
        timeout: 30_000,
        interval: 20,
      }),
  };
}

const gone = (pid: number, limit_ms: number) =>
  vi.waitFor(() => expect(alive(pid)).toBe(false), { timeout: limit_ms, interval: 20 });

describe("BR-18: Python is gone within 5 s of Node", () => {
  test.each<NodeJS.Signals>(["SIGKILL", "SIGINT", "SIGTERM"])("%s, in the middle of a call of 60 s", async (signal) => {
    const { child, said } = start({ entry: "stub:sleep", request: { seconds: 60 } });
    const python = Number(await said(/python (\d+)/));
    await said(/(sleeping)/);
    child.kill(signal);
    await gone(python, 5_000);
    const { exitCode } = await child;
    if (signal !== "SIGKILL") expect(exitCode).toBe(4); // `call` threw Stopped, which the program reports
  });

  test("kill -9 of the tsx that started Node", async () => {
    const tsx = join(projectRoot, "node_modules", ".bin", "tsx");
    const { child, said } = start({ entry: "stub:sleep", request: { seconds: 60 } }, [tsx]);
    const python = Number(await said(/python (\d+)/));
    await said(/(sleeping)/);
    child.kill("SIGKILL");
    await gone(python, 5_000);
  });
});

describe("a training is asked to stop", () => {
  test.each<NodeJS.Signals>(["SIGINT", "SIGTERM"])(
    "%s: it saves, the call returns, the program ends by itself",
    async (signal) => {
      const checkpoint = join(folder, signal);
      const { child, said } = start({ entry: "stub:train", request: { steps: 1000, checkpoint, asks: true } });
      const python = Number(await said(/python (\d+)/));
      await said(/(asked step {"step":1})/); // it has looked at the flag once
      child.kill(signal);
      child.kill(signal); // as tsx and npm pass on what the terminal has sent already
      const { exitCode, stdout } = await child;
      expect(JSON.parse(stdout)).toMatchObject({ result: { stopped_at: expect.any(Number) }, stop_reason: signal });
      expect(exitCode).toBe(0);
      expect(readFileSync(checkpoint, "utf8")).toMatch(/^\d+$/);
      expect(alive(python)).toBe(false);
    },
  );

  test("a second time: both end at once", async () => {
    const request = { steps: 1000, step_s: 30, checkpoint: join(folder, "never"), polls_first: true };
    const { child, said } = start({ entry: "stub:train", request });
    const python = Number(await said(/python (\d+)/));
    await said(/(polled)/);
    child.kill("SIGINT");
    await said(/(SIGINT: 'stub:train' is asked to save and stop)/);
    await new Promise((resolve) => setTimeout(resolve, 1_200));
    expect(alive(python)).toBe(true);
    child.kill("SIGINT");
    const { exitCode } = await child;
    expect(exitCode).toBe(130);
    await gone(python, 1_000);
  });

  test("while no call runs, the first ends both", async () => {
    const { child, said } = start({ end: "idle" });
    const python = Number(await said(/python (\d+)/));
    child.kill("SIGINT");
    expect((await child).exitCode).toBe(130);
    await gone(python, 1_000);
  });
});

describe("BR-17: a program ends by itself", () => {
  test.each([
    ["that closes Python", "close", 0],
    ["that just returns", "return", 0],
    ["that throws", "throw", 1],
  ])("%s, within 2 s of its result", async (_label, end, code) => {
    const { child, said, sinceAnswer_ms } = start({ entry: "stub:echo", request: {}, end });
    const python = Number(await said(/python (\d+)/));
    const { exitCode } = await child;
    expect(sinceAnswer_ms()).toBeLessThan(2_000);
    expect(exitCode).toBe(code);
    await gone(python, 1_000);
  });

  test("whose Python died: it exits non-zero, naming the code", async () => {
    const { child, stderr } = start({ entry: "stub:os_exit", request: { code: 7 } });
    expect((await child).exitCode).toBe(4);
    expect(stderr()).toMatch(/PythonDied: Python ended with exit code 7 while 'stub:os_exit' ran\. .*\nlast words/);
  });
});

test("BR-25: whatever Python prints, our stdout is the one JSON document", async () => {
  const { child, stderr } = start({ entry: "stub:print_storm", request: { lines: 2_000 } }, undefined, { DEBUG: "*" });
  const { stdout, exitCode } = await child;
  expect(JSON.parse(stdout)).toEqual({ result: { printed: 2_000 }, stop_reason: null });
  expect(exitCode).toBe(0);
  expect(stderr()).toContain("straight to descriptor 1");
  expect(stderr()).toContain("from a grandchild");
});

describe("BR-21: a wrong interpreter is one line that names the variable and the path", () => {
  test.each([
    ["TRESTLE_PYTHON", { TRESTLE_PYTHON: "/nonexistent/python" }, undefined],
    ["PYTHON_BIN", { TRESTLE_PYTHON: "", PYTHON_BIN: "/nonexistent/python" }, undefined],
    ["--python", {}, "/nonexistent/python"],
  ])("%s", async (name, env, python) => {
    const { child } = start({ entry: "stub:echo", python }, undefined, env as Record<string, string>);
    const { exitCode, stderr, stdout } = await child;
    expect(stderr).toBe(
      `UserError: ${name}: /nonexistent/python does not exist. Correct it, or leave it out to use the project's .venv.`,
    );
    expect(stdout).toBe("");
    expect(exitCode).toBe(4);
  });
});
