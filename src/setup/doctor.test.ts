import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import {
  checkData,
  checkDevice,
  checkDisk,
  checkFeatures,
  checkNode,
  checkPackages,
  checkSqlite,
  formatCheck,
  runDoctor,
} from "./doctor.ts";

const venv = { path: ".venv/bin/python", why: "the project's .venv" };
const other = { path: "/opt/python", why: "VIRTUAL_ENV, the active virtual environment" };

test("LN-06: the whole of it, with a real Python: interpreter and why, versions, device, round trip", async () => {
  const seen: string[] = [];
  const { checks, ok } = await runDoctor({ onCheck: (check) => seen.push(check.name) });
  expect(ok).toBe(true);
  expect(seen).toEqual(checks.map((check) => check.name));
  const text = checks.map(formatCheck).join("\n");
  for (const name of ["torch", "transformers", "trl", "peft"])
    expect(text).toMatch(new RegExp(`^ok +${name} +\\d+\\.`, "m"));
  expect(text).toMatch(/^ok +python +3\.\d+\.\d+, .*python.* \(.+\)$/m);
  expect(text).toMatch(/^ok +bridge +an empty round trip takes \d+ µs$/m);
  expect(text).toMatch(/^ok +device +/m);
  expect(text).toMatch(/^ok +features +/m);
});

test("BR-21: a wrong interpreter is a failed check of one line, and the rest is still checked", async () => {
  const { checks, ok } = await runDoctor({ env: { PYTHON_BIN: "/nonexistent" } });
  expect(ok).toBe(false);
  expect(checks.find((check) => check.name === "python")).toMatchObject({
    status: "fail",
    text: expect.stringMatching(/^PYTHON_BIN: \/nonexistent does not exist\.[^\n]*$/),
  });
  expect(checks.map((check) => check.name)).toContain("disk");
});

test("versions outside the pins warn, a missing package fails, a build of the pinned version is fine", () => {
  const pins = { torch: "2.13.0", trl: "1.16.0", peft: "0.21.2" };
  const found = { torch: "2.13.0+cpu", trl: "1.17.0", peft: null };
  expect(checkPackages(pins, found, venv)).toEqual([
    { name: "torch", status: "ok", text: "2.13.0+cpu" },
    { name: "trl", status: "warn", text: "1.17.0; tested with 1.16.0", fix: "trestle setup --force" },
    { name: "peft", status: "fail", text: "not installed; expected 0.21.2", fix: "trestle setup --force" },
  ]);
  expect(checkPackages({ peft: "0.21.2" }, {}, other)[0]!.fix).toBe("/opt/python -m pip install peft==0.21.2");
});

test("features: what is missing fails, what cannot be seen warns, whatever the versions are", () => {
  const check = (problems: string[], warnings: string[] = []) => checkFeatures({ features: { problems, warnings } });
  expect(check([])).toMatchObject({ status: "ok" });
  expect(check(["TRL 0.28.0 lacks a thing."])).toMatchObject({ status: "fail", text: "TRL 0.28.0 lacks a thing." });
  expect(check([], ["TRL 2.0.0 may lack a thing."])).toMatchObject({ status: "warn", fix: "trestle setup --force" });
});

test.each([
  ["a GPU", { cuda_build: "13.0", devices: [{ name: "H1", memory_bytes: 80e9 }], threads: 8 }, true, "ok", "H1, 80 GB"],
  ["none", { cuda_build: null, devices: [], threads: 2 }, false, "ok", "CPU, 2 threads; no GPU"],
  [
    "one that a CPU build cannot use",
    { cuda_build: null, devices: [], threads: 2 },
    true,
    "warn",
    "torch is a CPU build",
  ],
  ["one that is hidden", { cuda_build: "13.0", devices: [], threads: 2 }, true, "warn", "torch sees no GPU"],
  [
    "a torch that does not load",
    { error: "OSError: libcudart.so" },
    false,
    "fail",
    "torch cannot be imported: OSError",
  ],
])("device: %s", (_label, torch, nvidia_driver, status, text) => {
  const check = checkDevice({ torch, nvidia_driver });
  expect(check).toMatchObject({ status, text: expect.stringContaining(text) });
  expect(check.fix === undefined).toBe(status === "ok");
});

test.each([
  [0.5e9, "fail"],
  [3e9, "warn"],
  [50e9, "ok"],
])("disk: %d bytes free is %s", (free, status) => {
  expect(checkDisk(tmpdir(), free).status).toBe(status);
});

test.each([
  ["18.20.0", "fail"],
  ["20.0.0", "ok"],
  ["24.1.0", "ok"],
])("node %s: %s", (version, status) => {
  expect(checkNode(version).status).toBe(status);
});

test("data: files that changed, are missing or cannot be read are named", () => {
  const root = mkdtempSync(join(tmpdir(), "trestle-"));
  expect(checkData(root)).toEqual([]);
  mkdirSync(join(root, "data", "arxiv"), { recursive: true });
  const hash = createHash("sha256").update("[]\n").digest("hex");
  const list = (text: string) => writeFileSync(join(root, "data", "SHA256SUMS"), text);
  writeFileSync(join(root, "data", "arxiv", "tasks.json"), "[]\n");
  list(`${hash}  arxiv/tasks.json\n`);
  expect(checkData(root)).toEqual([{ name: "data", status: "ok", text: "1 files are as published" }]);
  list(`${hash}  arxiv/tasks.json\n${hash}  arxiv/gone.json\nnonsense\n`);
  writeFileSync(join(root, "data", "arxiv", "tasks.json"), "[1]\n");
  expect(checkData(root)[0]).toMatchObject({
    status: "warn",
    text: "data/arxiv/tasks.json has changed; data/arxiv/gone.json is missing; a line of data/SHA256SUMS that cannot be read: nonsense",
  });
  rmSync(root, { recursive: true });
});

test("SQLite's package is tried, and a machine without it is told what it lacks", () => {
  expect(checkSqlite()).toEqual({ name: "sqlite", status: "ok", text: "better-sqlite3 loads" });
  const none = () => {
    throw new Error("Could not locate the bindings file.\nTried: …");
  };
  expect(checkSqlite(none)).toMatchObject({
    status: "warn",
    text: expect.stringMatching(/no search environment.*bindings file\.$/),
  });
});
