import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import { type FakeArxiv, startArxiv } from "./envs/arxiv/builder/fixtures/arxiv-server.ts";
import { DEFAULT_SNAPSHOT } from "./envs/arxiv/options.ts";
import { loadSnapshot, type Snapshot } from "./envs/arxiv/snapshot.ts";
import { runCommand } from "./fixtures/run-command.ts";

const folder = mkdtempSync(join(tmpdir(), "data-snapshot-"));
const world = loadSnapshot(DEFAULT_SNAPSHOT);
let server: FakeArxiv;

beforeAll(async () => {
  server = await startArxiv(world);
});
afterAll(async () => {
  await server.close();
  rmSync(folder, { recursive: true });
});
afterEach(() => {
  server.fault = () => null;
  vi.unstubAllEnvs();
});

const run = (...argv: string[]) => runCommand("data", "arxiv", ...argv);

const build = (output: string, ...argv: string[]) =>
  run(
    "snapshot-build",
    "--output",
    output,
    "--base-url",
    server.url,
    "--interval-s",
    "0",
    "--max-results",
    "2",
    ...argv,
  );

/** Papers and one pool of a snapshot as the reference records them. */
function reference({ papers, pools }: Snapshot): Record<string, unknown> {
  const result = pools.recent.AI!.map((id) => papers[id]);
  return { get_recently_submitted_cs_papers: { a: { args: { aspect: "AI" }, result } } };
}

test("snapshot-build: a snapshot that plays, its report, and what happened on stderr", async () => {
  const output = join(folder, "built/snapshot.json");
  const flags = [
    "--aspects",
    "cs.ai",
    "--keyword-queries",
    "all:large language model",
    "--no-pin-references",
    "--json",
  ];
  const { code, stdout, stderr } = await build(output, ...flags);
  expect([code, JSON.parse(stdout)]).toMatchObject([0, { output, papers: 3, without_pdf: [], problems: [] }]);
  expect(stderr).toContain("newest of cs.AI: 2 papers");
  expect(loadSnapshot(output).pools.recent).toEqual({ AI: world.pools.recent.AI!.slice(0, 2) });
  const again = await build(output, ...flags);
  expect([again.code, again.stderr]).toEqual([2, `${output} is there already. Name another --output.\n`]);
});

test("a build that is stopped exits with 1, says why and what to do; nothing is written", async () => {
  const output = join(folder, "stopped/snapshot.json");
  server.fault = () => "500";
  const { code, stdout, stderr } = await build(output, "--retries", "0");
  expect([code, stdout]).toEqual([1, ""]);
  expect(stderr).toMatch(
    /^newest of cs\.\*, from 0: HTTP 500 \(1 try, http.*\)\.\nNothing was written to .*the same command goes on/,
  );
  expect(existsSync(output)).toBe(false);
  expect(existsSync(`${output}.build/lock`)).toBe(false);
});

test("ARXIV_TIMEOUT_S is the time-out where no flag says another", async () => {
  vi.stubEnv("ARXIV_TIMEOUT_S", "0.05");
  server.fault = () => "stall";
  const silent = await build(join(folder, "a/snapshot.json"), "--retries", "0");
  expect(silent.stderr).toContain("nothing came for 0.05 s");
  const flag = await build(join(folder, "b/snapshot.json"), "--retries", "0", "--timeout-s", "0.1");
  expect(flag.stderr).toContain("nothing came for 0.1 s");
  vi.stubEnv("ARXIV_TIMEOUT_S", "soon");
  expect((await build(join(folder, "c/snapshot.json"))).stderr).toMatch(/ARXIV_TIMEOUT_S is 'soon'; expected a number/);
});

test("snapshot-import: the reference's layout in ours, unless the tasks miss something", async () => {
  const [source, output] = [join(folder, "reference.json"), join(folder, "imported.json")];
  writeFileSync(source, JSON.stringify(reference(world)));
  const refused = await run("snapshot-import", source, "--output", output);
  expect(refused.code).toBe(2);
  expect(refused.stderr).toMatch(/can't carry the tasks\. \d+ problems:\n(?: {2}- .*\n)*Nothing was written/);
  expect(existsSync(output)).toBe(false);
  const { code, stdout } = await run("snapshot-import", source, "--output", output, "--allow-partial", "--json");
  expect([code, JSON.parse(stdout)]).toMatchObject([0, { output, papers: 26 }]);
  expect(loadSnapshot(output).pools.recent.AI).toEqual(world.pools.recent.AI);
  const dates = world.pools.recent.AI!.map((id) => world.papers[id]!.updated).sort();
  expect(loadSnapshot(output).created_at).toBe(dates.at(-1));
});

test("snapshot-diff: what differs, as text and as JSON", async () => {
  const output = join(folder, "built/snapshot.json");
  const same = await run("snapshot-diff", output, output);
  expect([same.code, same.stdout]).toEqual([0, "The snapshots hold the same.\n"]);
  const { code, stdout } = await run("snapshot-diff", DEFAULT_SNAPSHOT, output, "--json");
  expect([code, JSON.parse(stdout)]).toMatchObject([0, { before: DEFAULT_SNAPSHOT, after: output, equal: false }]);
});

test.each<[string[], RegExp]>([
  [["snapshot-build", "--interval-s", "1"], /--interval-s is 1; arXiv asks for at least 3 s/],
  [["snapshot-build", "--interval-s", "0", "--base-url", "https://arxiv.org/"], /at least 3 s/],
  [["snapshot-build", "--aspects", "AI,QQ"], /--aspects\.1 is 'QQ'; expected/],
  [["snapshot-build", "--aspects", "AI,cs.ai"], /names a field twice/],
  [["snapshot-build", "--keyword-queries", "all:"], /has no word to search for/],
  [["snapshot-build", "--keyword-queries", "all:x y,ALL:X  y"], /has a search twice/],
  [["snapshot-build", "--max-results", "0"], /--max-results is 0/],
  [["snapshot-build", "--base-url", "ftp://x"], /--base-url is 'ftp:\/\/x'; expected an address/],
  [["snapshot-build", "file.json"], /takes no files; got file\.json/],
  [["snapshot-build", "--seed", "3"], /takes neither --split nor --seed nor --check/],
  [["snapshot-import", "nowhere.json", "--output", "x.json"], /nowhere\.json: cannot read it/],
  [["snapshot-import", "a.json"], /takes one file/],
  [["snapshot-import", "a.json", "--output", "x.json", "--days", "3"], /--days is of data arxiv snapshot-build/],
  [["snapshot-diff", "a.json"], /takes two files/],
  [["snapshot-diff", DEFAULT_SNAPSHOT, "nowhere.json"], /nowhere\.json: cannot read the snapshot/],
  [["snapshot-diff", "a.json", "b.json", "--output", "c.json"], /takes no --output/],
  [["snapshot-copy"], /no action 'snapshot-copy'; expected one of snapshot, snapshot-build/],
  [["snapshot", "x.json"], /takes no files; got x\.json/],
  [["sft", "--days", "3"], /--days is of data arxiv snapshot-build; data arxiv sft does not take it/],
])("%j exits with 2 and says what was expected", async (argv, message) => {
  const { code, stdout, stderr } = await run(...argv);
  expect(stderr).toMatch(message);
  expect(stderr).not.toMatch(/\n {4}at /);
  expect([code, stdout]).toEqual([2, ""]);
});

test("the default file is not the one that comes with the project", async () => {
  const { DEFAULT_BUILD } = await import("./data-snapshot.ts");
  expect(DEFAULT_BUILD).not.toBe(DEFAULT_SNAPSHOT);
  expect(readFileSync(".gitignore", "utf8").split("\n")).toContain(`${DEFAULT_BUILD.split("/")[0]}/`);
});
