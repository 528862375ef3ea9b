import { createHash } from "node:crypto";
import dns from "node:dns";
import * as fs from "node:fs";
import * as net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { createRandom } from "../../core/random.ts";
import { arxiv, arxivSpec } from "./env.ts";
import { arxivOptions } from "./options.ts";
import { writeSnapshot } from "./snapshot-generator.ts";

// What a rollout may leave behind: nothing. It opens no connection, writes no file, and the state it began with is as
// it was. So there is nothing to restore between rollouts, and no file of the user's that restoring could delete.

vi.mock("node:fs", async (load) => {
  const real = await load<typeof import("node:fs")>();
  const guarded = Object.entries(real).map(([name, member]) => {
    const writes =
      typeof member === "function" &&
      /^(write|append|mk|rm|un|re(name|allyn)|cop|cp|trunc|ch|l?utimes|sym|link|open|createW)/.test(name);
    return [name, writes ? vi.fn(member as () => unknown) : member];
  });
  const module = Object.fromEntries(guarded) as typeof real;
  return { ...module, default: module };
});

const before = process.cwd();
let folder: string;

beforeAll(() => {
  folder = fs.mkdtempSync(join(tmpdir(), "arxiv-sandbox-"));
  process.chdir(folder);
  for (const name of ["pdf", "translated", "figures", "output"]) fs.mkdirSync(join(folder, name));
  fs.writeFileSync(join(folder, "pdf/2608.14539v1.pdf"), Buffer.alloc(3_000_000, 7)); // where a download would go
  fs.writeFileSync(join(folder, "translated/2608.14539v1-mono.pdf"), "kept");
  fs.writeFileSync(join(folder, "output/papers.json"), "kept");
});

afterAll(() => {
  process.chdir(before);
  fs.rmSync(folder, { recursive: true });
});

function files(): Record<string, string> {
  const names = fs.readdirSync(folder, { recursive: true, encoding: "utf8" }).sort();
  return Object.fromEntries(
    names.map((name) => {
      const path = join(folder, name);
      const stat = fs.statSync(path);
      const content = stat.isFile() ? createHash("sha256").update(fs.readFileSync(path)).digest("hex") : "folder";
      return [name, `${content} ${stat.size} ${stat.mtimeMs}`];
    }),
  );
}

test("the guard sees what the family's modules write", () => {
  const write = vi.mocked(fs.writeFileSync).mockClear();
  writeSnapshot("snapshot.json");
  expect(write).toHaveBeenCalledOnce();
  fs.rmSync(join(folder, "snapshot.json"), { force: true });
});

test("all tasks: no connection is opened, no file is written, files of over 2 MB included", async () => {
  const denied = vi.fn(() => {
    throw new Error("the network is denied");
  });
  vi.spyOn(net.Socket.prototype, "connect").mockImplementation(denied);
  vi.spyOn(dns, "lookup").mockImplementation(denied as unknown as typeof dns.lookup);
  vi.stubGlobal("fetch", denied);

  const found = files();
  const writers = Object.values(fs).filter((member) => vi.isMockFunction(member));
  expect(writers.length).toBeGreaterThan(20);
  for (const writer of writers) writer.mockClear();

  let played = 0;
  for (const split of ["all", "smoke"]) {
    const tasks = await arxiv.load(split);
    for (const policy of arxiv.policies) {
      for (const task_id of tasks.ids) {
        const episode = await tasks.start(task_id, { seed: 1 });
        for (const reply of tasks.replies(policy, task_id, createRandom(1))) await episode.reply(reply);
        expect((await episode.finish()).ended_by).toMatch(/terminated|truncated/);
        played++;
      }
    }
  }
  expect(played).toBeGreaterThan(400);
  expect(writers.filter((writer) => writer.mock.calls.length > 0)).toEqual([]);
  expect(denied).not.toHaveBeenCalled();
  expect(files()).toEqual(found);
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

test("the state that a rollout began with is the same value afterwards, so keeping it is a capture", async () => {
  const options = arxivOptions.parse({});
  const { tasks } = await arxivSpec.load("all", options);
  const context = { options, random: createRandom(1), trial: 0, signal: new AbortController().signal };
  for (const task of tasks) {
    const { state: captured } = await arxivSpec.reset(task, context);
    const copy = structuredClone({ ...captured, snapshot: captured.snapshot.sha256 });
    let state = captured;
    for (const reply of arxivSpec.policies.gold(task, createRandom(1), options)) {
      ({ state } = await arxivSpec.step(state, reply, context, task));
    }
    expect({ ...captured, snapshot: captured.snapshot.sha256 }).toEqual(copy);
    const { state: fresh } = await arxivSpec.reset(task, { ...context, random: createRandom(1) });
    expect({ ...fresh, session_id: "" }).toEqual({ ...captured, session_id: "" });
  }
});
