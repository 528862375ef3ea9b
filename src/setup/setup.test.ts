import { execFileSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { UserError } from "../core/errors.ts";
import { installedSetup, runSetup } from "./setup.ts";

// A project whose one requirement is a wheel made on the spot: real venvs, real pip, no network.
let root: string;
let said: string[];
const env = {
  PATH: process.env.PATH,
  HOME: process.env.HOME,
  PIP_NO_INDEX: "1",
  PIP_EXTRA_INDEX_URL: "none",
  PIP_FIND_LINKS: "",
};
const setup = (options = {}) => {
  said = [];
  return runSetup({ root, env, say: (line) => said.push(line), ...options });
};
const requirements = (text: string) => writeFileSync(join(root, "requirements.txt"), text);
const installed = () =>
  execFileSync(join(root, ".venv", "bin", "python"), ["-c", "import tiny_wheel; print(tiny_wheel.version)"], {
    encoding: "utf8",
  }).trim();

beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), "trestle-"));
  const wheels = join(root, "wheels");
  mkdirSync(wheels);
  env.PIP_FIND_LINKS = wheels;
  for (const version of ["1.0", "2.0"]) execFileSync("python3", ["-c", makeWheel, wheels, version]);
  requirements("tiny_wheel==1.0\n");
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

const makeWheel = `
import sys, zipfile
folder, version = sys.argv[1:]
info = f"tiny_wheel-{version}.dist-info"
files = {
    "tiny_wheel.py": f"version = {version!r}\\n",
    f"{info}/METADATA": f"Metadata-Version: 2.1\\nName: tiny-wheel\\nVersion: {version}\\n",
    f"{info}/WHEEL": "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
}
record = "".join(f"{name},,\\n" for name in files) + f"{info}/RECORD,,\\n"
with zipfile.ZipFile(f"{folder}/tiny_wheel-{version}-py3-none-any.whl", "w") as wheel:
    for name, text in {**files, f"{info}/RECORD": record}.items():
        wheel.writestr(name, text)
`;

// One story, in order: each test goes on from the state the one before it left.

test("a fresh project gets its environment, told in plain lines", async () => {
  expect(await installedSetup(root)).toBeNull();
  const result = await setup();
  expect(result).toMatchObject({ changed: true, python: join(root, ".venv", "bin", "python") });
  expect(installed()).toBe("1.0");
  expect(said[0]).toMatch(/^\[1\/2\] Making \.venv with Python 3\.\d+\.\d+ \(python3, python3 on the PATH\)\.$/);
  expect(said.join("\n")).toContain("Installing collected packages: tiny");
  expect(said.at(-1)).toMatch(/^\.venv is ready/);
});

test("a second time nothing is done, not even pip is started", async () => {
  const result = await setup({ env: { ...env, PIP_FIND_LINKS: "/nonexistent" } });
  expect(result.changed).toBe(false);
  expect(said).toEqual([expect.stringMatching(/^\.venv is up to date \(Python 3/)]);
});

test("changed requirements are installed into the same environment", async () => {
  writeFileSync(join(root, ".venv", "kept"), "");
  requirements("tiny_wheel==2.0\n");
  expect((await setup()).changed).toBe(true);
  expect(installed()).toBe("2.0");
  expect(existsSync(join(root, ".venv", "kept"))).toBe(true);
});

test("what pip cannot find is a UserError with pip's words; the environment stays as it was", async () => {
  requirements("tiny_wheel==3.0\n");
  const error = await setup().catch((error: unknown) => error);
  expect(error).toBeInstanceOf(UserError);
  expect(String(error)).toMatch(/No matching distribution found for tiny_wheel==3\.0[\s\S]*run: trestle setup$/);
  expect(installed()).toBe("2.0");
  requirements("tiny_wheel==2.0\n");
  expect((await setup()).changed).toBe(true); // the stamp was taken away before pip began
  expect(existsSync(join(root, ".venv", "kept"))).toBe(true);
});

test("a set-up that was cut off while packages were put in place starts anew, also from the active .venv itself", async () => {
  unlinkSync(join(root, ".venv", "trestle-setup.json"));
  writeFileSync(join(root, ".venv", "trestle-pip.log"), "2026-01-01 Installing collected packages: tiny-wheel\n");
  const site = execFileSync(
    join(root, ".venv", "bin", "python"),
    ["-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
    { encoding: "utf8" },
  ).trim();
  rmSync(join(site, "tiny_wheel.py")); // pip itself would call this installed
  expect((await setup({ env: { ...env, VIRTUAL_ENV: join(root, ".venv") } })).changed).toBe(true);
  expect(said[0]).toMatch(/the base of VIRTUAL_ENV.*, anew: the last set-up was interrupted/);
  expect(installed()).toBe("2.0");
  expect(existsSync(join(root, ".venv", "kept"))).toBe(false);
});

test("an environment whose Python is gone is made anew", async () => {
  const python = join(root, ".venv", "bin", "python");
  unlinkSync(python);
  symlinkSync("/nonexistent/python3", python);
  expect((await setup()).changed).toBe(true);
  expect(said[0]).toContain("anew in place of the old one");
  expect(installed()).toBe("2.0");
});

test("two at the same time: the second waits, and then has nothing to do", async () => {
  unlinkSync(join(root, ".venv", "trestle-setup.json"));
  const results = await Promise.all([setup(), setup()]);
  expect(results.map((result) => result.changed).sort()).toEqual([false, true]);
});

test("a lock whose process is gone does not hold anybody up", async () => {
  unlinkSync(join(root, ".venv", "trestle-setup.json"));
  writeFileSync(join(root, "node_modules", ".trestle-setup.lock"), "999999999");
  expect((await setup()).changed).toBe(true);
  expect(existsSync(join(root, "node_modules", ".trestle-setup.lock"))).toBe(false);
});

test("an interpreter that comes before .venv is mentioned", async () => {
  await setup({ env: { ...env, TRESTLE_PYTHON: "python3" } });
  expect(said.at(-1)).toBe("Note: training uses python3 (TRESTLE_PYTHON), which comes before .venv.");
});

test("a Python that is not there, by flag and by variable", async () => {
  await expect(setup({ python: "/nonexistent" })).rejects.toThrow("--python: /nonexistent does not exist.");
  unlinkSync(join(root, ".venv", "bin", "python"));
  await expect(setup({ env: { ...env, TRESTLE_PYTHON: "/nonexistent" } })).rejects.toThrow(
    "TRESTLE_PYTHON: /nonexistent does not exist.",
  );
  expect(readFileSync(join(root, "requirements.txt"), "utf8")).toContain("2.0");
});
