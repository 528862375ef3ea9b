import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { configHash, freeName, listRuns, lockFolder, openRun, readManifest, writeWhole } from "./run-folder.ts";

const folder = () => mkdtempSync(join(tmpdir(), "run-"));
const open = (dir: string) =>
  openRun({
    dir,
    recipe: "sft",
    config: { model: "m" },
    command: "trestle sft",
    seed: 1,
    versions: { torch: "2" },
    data: { "data/x.json": "ab" },
  });

describe("a run's folder", () => {
  test("holds config and manifest; a second run in it is refused, while it runs and after", () => {
    const dir = join(folder(), "a");
    const run = open(dir);
    expect(() => open(dir)).toThrow(new RegExp(`in use by process ${process.pid}`));
    run.update({ status: "completed", finished: "now", details: { steps: 2 } });
    run.close();
    expect(readManifest(dir)).toMatchObject({
      recipe: "sft",
      name: "a",
      status: "completed",
      seed: 1,
      command: "trestle sft",
      config_sha256: configHash({ model: "m" }),
      data: { "data/x.json": "ab" },
      details: { steps: 2 },
    });
    expect(readManifest(dir)!.versions).toMatchObject({ torch: "2", node: process.versions.node });
    expect(JSON.parse(readFileSync(join(dir, "config.json"), "utf8"))).toEqual({ model: "m" });
    expect(existsSync(join(dir, "lock"))).toBe(false);
    expect(() => open(dir)).toThrow(/already holds a run/);
    expect(existsSync(join(dir, "lock"))).toBe(false);
  });

  test("names and lists", () => {
    const runs = folder();
    expect(freeName(runs, "sft")).toBe("sft");
    open(join(runs, "sft")).close();
    expect(freeName(runs, "sft")).toBe("sft-2");
    expect(listRuns(runs).map(({ manifest }) => manifest.name)).toEqual(["sft"]);
    expect(listRuns(join(runs, "nowhere"))).toEqual([]);
  });
});

test.each([["{"], ["null"], ["[]"], ["{}"], ['{"recipe": "sft", "status": "completed"}']])(
  "a manifest that is %s is none, and no other run is hidden by it",
  (text) => {
    const runs = folder();
    for (const name of ["broken", "good"]) open(join(runs, name)).close();
    writeFileSync(join(runs, "broken", "manifest.json"), text);
    expect(readManifest(join(runs, "broken"))).toBeNull();
    expect(listRuns(runs).map(({ manifest }) => manifest.name)).toEqual(["good"]);
    expect(() => open(join(runs, "broken"))).toThrow(/already holds a run/);
  },
);

describe("the lock", () => {
  const lockOf = (dir: string, holder: object) => writeFileSync(join(dir, "lock"), JSON.stringify(holder));

  test("of a process that was killed is taken over", async () => {
    const dir = folder();
    const script = `import { lockFolder } from ${JSON.stringify(join(import.meta.dirname, "run-folder.ts"))};
      lockFolder(${JSON.stringify(dir)}); process.stdout.write("held"); setInterval(() => {}, 1000);`;
    const child = spawn(process.execPath, ["--import", "tsx", "--input-type=module", "-e", script], { stdio: "pipe" });
    await new Promise((resolve) => child.stdout.once("data", resolve));
    expect(() => lockFolder(dir)).toThrow(new RegExp(`in use by process ${child.pid}`));
    child.kill("SIGKILL");
    await new Promise((resolve) => child.once("exit", resolve));
    const unlock = lockFolder(dir);
    expect(() => lockFolder(dir)).toThrow(new RegExp(`in use by process ${process.pid}`));
    unlock();
    expect(readdirSync(dir)).toEqual([]);
  });

  test("whose process id is used again by another process is taken over", () => {
    const dir = folder();
    lockOf(dir, { pid: process.pid, host: hostname(), process_start: "1" });
    if (existsSync("/proc/self/stat")) lockFolder(dir)();
    else expect(() => lockFolder(dir)).toThrow(/in use/);
  });

  test.runIf(existsSync("/proc/self/stat"))(
    "of a process that ended and that nobody waits for is taken over",
    async () => {
      const dir = folder();
      // The shell's child ends at once, and the program that takes the shell's place never asks for its exit code.
      const parent = spawn("sh", ["-c", "sleep 0 & echo $!; exec sleep 30"], { stdio: ["ignore", "pipe", "ignore"] });
      const pid = Number(await new Promise((resolve) => parent.stdout.once("data", resolve)));
      const stat = () => readFileSync(`/proc/${pid}/stat`, "utf8");
      while (!stat().includes(") Z ")) await new Promise((resolve) => setTimeout(resolve, 10));
      lockOf(dir, { pid, host: hostname(), process_start: null });
      lockFolder(dir)();
      parent.kill();
    },
  );

  test("that was cut off while it was written is taken over", () => {
    const dir = folder();
    writeFileSync(join(dir, "lock"), '{"pid": 1');
    lockFolder(dir)();
    expect(readdirSync(dir)).toEqual([]);
  });

  test("of another machine is not judged from here: the message says what to do", () => {
    const dir = folder();
    lockOf(dir, { pid: 1, host: "elsewhere", process_start: null });
    expect(() => lockFolder(dir)).toThrow(/process 1 on elsewhere.*if it is gone, remove .*lock/);
  });
});

test("a whole file replaces the old one, with nothing left beside it", () => {
  const dir = folder();
  writeWhole(join(dir, "deep", "a.json"), "1");
  writeWhole(join(dir, "deep", "a.json"), "2");
  expect(readFileSync(join(dir, "deep", "a.json"), "utf8")).toBe("2");
  expect(readdirSync(join(dir, "deep"))).toEqual(["a.json"]);
  expect(() => writeWhole(join(dir, "deep"), "3")).toThrow(`${join(dir, "deep")}: it is a folder; expected a file.`);
  expect(readdirSync(dir)).toEqual(["deep"]);
});

test("a config's hash does not hang on the order of its keys", () => {
  expect(configHash({ a: 1, b: { c: [1, 2], d: null } })).toBe(configHash({ b: { d: null, c: [1, 2] }, a: 1 }));
  expect(configHash({ a: 1 })).not.toBe(configHash({ a: 2 }));
});
