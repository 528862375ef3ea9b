import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { DEFAULT_SNAPSHOT } from "../options.ts";
import { loadSnapshot, parseSnapshot } from "../snapshot.ts";
import { FAULTS, type FakeArxiv, type FaultKind, startArxiv } from "./fixtures/arxiv-server.ts";
import { halfWritten, startBuild } from "./fixtures/build.ts";
import { fakeClock } from "./fixtures/fake-clock.ts";
import { BuildStopped } from "./http.ts";

// Every fault at every request of a build: it goes through in the end, or it stops with a reason and goes on later, and
// never is there a snapshot that is not whole.

const world = loadSnapshot(DEFAULT_SNAPSHOT);
const folder = mkdtempSync(join(tmpdir(), "builder-faults-"));
let server: FakeArxiv;
let builds = 0;
let clean: { text: string; requests: number };

/** A build of two pools of two pages each; the last of them by relevance. */
const settings = () => ({
  base_url: server.url,
  aspects: ["CV"],
  keyword_queries: ["all:large language model"],
  max_results: 2,
  page_size: 1,
  pin_references: false,
  content_workers: 1, // so that a request's number says what it is
});

const newOutput = (): string => join(folder, `${++builds}`, "snapshot.json");

beforeAll(async () => {
  server = await startArxiv(world);
  const output = newOutput();
  await startBuild(output, settings());
  clean = { text: readFileSync(output, "utf8"), requests: server.requests.length };
});
beforeEach(() => {
  server.requests.length = 0;
  server.fault = () => null;
});
afterAll(async () => {
  await server.close();
  rmSync(folder, { recursive: true });
}, 60_000); // thousands of files

test("the build that is tried has requests of each kind", () => {
  expect(clean.requests).toBe(8); // two pools of two pages, four papers
});

describe.each(FAULTS)("%s", (kind) => {
  // A silence takes real time, all else none.
  const patience = kind === "stall" ? { timeout_s: 0.2, skip_prefetch: true } : { timeout_s: 20 };

  test("once, at any request: the same snapshot, byte for byte", async () => {
    for (let position = 0; position < clean.requests; position++) {
      server.requests.length = 0;
      server.fault = (index) => (index === position ? kind : null);
      const output = newOutput();
      await startBuild(output, { ...settings(), ...patience });
      expect([position, readFileSync(output, "utf8") === clean.text]).toEqual([position, true]);
      expect(server.requests.length).toBeGreaterThan(clean.requests);
      expect(halfWritten(dirname(output))).toEqual([]);
    }
  });

  test("from any request on: it stops with a reason, leaves nothing half done, and goes on", async () => {
    for (let position = 0; position < clean.requests; position++) {
      const output = newOutput();
      server.requests.length = 0;
      server.fault = (index) => (index >= position ? kind : null);
      const error: unknown = await startBuild(output, { ...settings(), ...patience, retries: 1 }).catch(
        (error: unknown) => error,
      );
      expect(error).toBeInstanceOf(BuildStopped);
      expect((error as Error).message).toMatch(
        /^(?:newest of cs\.CV|search 'all:large language model'|PDF of 2608\.\d{5}v\d).*\(2 tries.*\n.*Nothing was written to/,
      );
      expect(existsSync(output)).toBe(false);
      expect(halfWritten(dirname(output))).toEqual([]);

      server.fault = () => null;
      server.requests.length = 0;
      await startBuild(output, settings());
      expect([position, readFileSync(output, "utf8") === clean.text]).toEqual([position, true]);
      // What came before is not asked for again: whole pools, whole PDFs.
      const whole = position < 2 ? 0 : position < 4 ? 2 : position;
      expect(server.requests.length).toBe(clean.requests - whole);
    }
  });
});

test("many faults at random: it goes through, and the requests are the clean build's and the faulty ones", async () => {
  for (let seed = 1; seed <= 5; seed++) {
    server.requests.length = 0;
    let faulty = 0;
    const kinds = FAULTS.filter((kind): kind is FaultKind => kind !== "stall");
    server.fault = (index) => {
      const roll = (index * 2654435761 + seed * 40503) % 97;
      if (roll >= 45) return null;
      faulty++;
      return kinds[roll % kinds.length]!;
    };
    const output = newOutput();
    await startBuild(output, { ...settings(), retries: 20 });
    expect(readFileSync(output, "utf8")).toBe(clean.text);
    expect(faulty).toBeGreaterThan(2);
    expect(server.requests.length).toBe(clean.requests + faulty);
  }
});

test("AX-03: a 429 is waited out as long as it asks, and holds the PDFs of all workers", async () => {
  server.fault = (index) => (index === 4 ? "429" : null);
  server.retry_after = "40";
  const output = newOutput();
  const clock = fakeClock();
  const start_ms = clock.now_ms();
  await startBuild(output, { ...settings(), content_workers: 4 }, { clock });
  expect(clock.now_ms() - start_ms).toBeGreaterThanOrEqual(4 * 3000 + 40_000 + 4 * 3000 - 3000);
  expect(readFileSync(output, "utf8")).toBe(clean.text);
  server.retry_after = "7";
});

describe("a process that is killed", () => {
  const cli = join(import.meta.dirname, "../../../cli.ts");
  const run = (output: string) =>
    promisify(execFile)(process.execPath, [
      "--import",
      "tsx",
      cli,
      "data",
      "arxiv",
      "snapshot-build",
      ...flags(output),
    ]);
  const flags = (output: string): string[] => [
    ...["--output", output, "--base-url", server.url, "--interval-s", "0", "--aspects", "CV", "--json"],
    ...["--keyword-queries", "all:large language model", "--max-results", "2", "--page-size", "1"],
    ...["--no-pin-references", "--content-workers", "2"],
  ];

  test("at any request goes on to the same snapshot; in between there is none", async () => {
    const plain = newOutput();
    const { stdout } = await run(plain);
    expect(JSON.parse(stdout)).toMatchObject({ output: plain, papers: 4, problems: [] });
    const same = (path: string) => ({
      ...parseSnapshot(JSON.parse(readFileSync(path, "utf8")), path),
      created_at: "",
      sha256: "",
    });

    const output = newOutput();
    for (const position of [0, 3, 2, 2]) {
      server.requests.length = 0;
      const running = run(output);
      server.fault = (index) => {
        if (index === position) running.child.kill("SIGKILL");
        return index >= position ? "stall" : null;
      };
      await expect(running).rejects.toMatchObject({ signal: "SIGKILL" });
      expect(existsSync(output)).toBe(false);
    }
    server.fault = () => null;
    const { stderr } = await run(output);
    expect(stderr).toMatch(/goes on with the build of/);
    expect(same(output)).toEqual(same(plain));
    expect(halfWritten(dirname(output))).toEqual([]);
  });

  test("two at once do not share a folder", async () => {
    const output = newOutput();
    server.fault = (index) => (index === 0 ? "stall" : null);
    server.requests.length = 0;
    const first = run(output);
    await expect.poll(() => server.requests.length, { timeout: 20_000 }).toBe(1);
    await expect(run(output)).rejects.toMatchObject({ code: 2, stderr: expect.stringMatching(/is in use by process/) });
    first.child.kill("SIGKILL");
    await expect(first).rejects.toMatchObject({ signal: "SIGKILL" });
  });
});
