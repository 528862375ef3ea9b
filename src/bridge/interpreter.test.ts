import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { chooseInterpreter, findInterpreter, inspectInterpreter, projectRoot, venvPython } from "./interpreter.ts";

const folder = mkdtempSync(join(tmpdir(), "trestle-"));
afterAll(() => rmSync(folder, { recursive: true }));

const withVenv = join(folder, "with-venv");
mkdirSync(join(withVenv, ".venv", "bin"), { recursive: true });
writeFileSync(join(withVenv, ".venv", "bin", "python"), "");
const bare = join(folder, "bare");
mkdirSync(bare);

describe("the order of choice", () => {
  const all = { TRESTLE_PYTHON: "/t", PYTHON_BIN: "/p", VIRTUAL_ENV: "/v" };
  test.each([
    ["--python before all", { python: "/flag", root: withVenv, env: all }, "/flag", "--python"],
    ["TRESTLE_PYTHON", { root: withVenv, env: all }, "/t", "TRESTLE_PYTHON"],
    [
      "PYTHON_BIN, pythonia's own variable",
      { root: withVenv, env: { ...all, TRESTLE_PYTHON: "" } },
      "/p",
      "PYTHON_BIN",
    ],
    [
      "LN-06: an active virtual environment",
      { root: withVenv, env: { VIRTUAL_ENV: "/v" } },
      "/v/bin/python",
      "VIRTUAL_ENV",
    ],
    ["the project's .venv", { root: withVenv, env: { VIRTUAL_ENV: "" } }, venvPython(join(withVenv, ".venv")), ".venv"],
    ["python3", { root: bare, env: {} }, "python3", "python3 on the PATH"],
  ])("%s", (_label, options, path, why) => {
    const chosen = chooseInterpreter(options);
    expect(chosen.path).toBe(path);
    expect(chosen.why).toContain(why);
  });
});

test("LN-06: the active environment is the one that runs, by its link", async () => {
  const env = { VIRTUAL_ENV: join(projectRoot, ".venv") };
  const found = await findInterpreter({ root: bare, env });
  expect(found.path).toBe(join(projectRoot, ".venv", "bin", "python"));
  expect(found).toMatchObject({ venv: true, prefix: join(projectRoot, ".venv") });
  expect(found.version).toMatch(/^3\.\d+\.\d+$/);
});

function script(name: string, text: string, mode = 0o755): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  chmodSync(path, mode);
  return path;
}

describe("BR-21: what cannot run is one line that names where the path came from", () => {
  const dangling = join(folder, "dangling");
  symlinkSync(join(folder, "nowhere"), dangling);
  test.each([
    [
      "no such file",
      "TRESTLE_PYTHON",
      "/nonexistent/python",
      /^TRESTLE_PYTHON: \/nonexistent\/python does not exist\./,
    ],
    ["no such command", "PYTHON_BIN", "python9.99", /^PYTHON_BIN: python9\.99 is not on the PATH\./],
    ["a folder", "--python", folder, /^--python: .* may not be executed\./],
    ["a broken link", "the project's .venv", dangling, /does not exist\. Mend it with: trestle setup$/],
    ["another program", "--python", "/bin/echo", /^--python: \/bin\/echo is not a Python 3 interpreter\./],
    [
      "a program that fails",
      "--python",
      script("fails", "#!/bin/sh\necho oh no >&2; exit 1\n"),
      /does not work as a Python interpreter \(oh no\)/,
    ],
    [
      "Python 2.7",
      "--python",
      script("old", "#!/bin/sh\necho '[[2, 7, 18], \"/usr\", false]'\n"),
      /is Python 2\.7\.18; Trestle needs 3\.10 or newer/,
    ],
    [
      "Python 3.9",
      "--python",
      script("older", "#!/bin/sh\necho '[[3, 9, 1], \"/usr\", false]'\n"),
      /is Python 3\.9\.1; Trestle needs 3\.10 or newer/,
    ],
  ])("%s", async (_label, why, path, message) => {
    const error = await inspectInterpreter(path, why).catch((error: unknown) => error);
    expect(error).toMatchObject({ name: "UserError", message: expect.stringMatching(message) });
    expect(String(error)).not.toContain("\n");
  });
});
