import { createHash } from "node:crypto";
import dns from "node:dns";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import * as net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { createRandom } from "../../../core/random.ts";
import { arxiv } from "../env.ts";
import { DEFAULT_SNAPSHOT } from "../options.ts";
import { loadSnapshot, type Snapshot } from "../snapshot.ts";
import { checkSnapshot, snapshotProblems } from "../snapshot-validator.ts";
import type { BuildReport } from "./build.ts";
import { type FakeArxiv, paperPdf, startArxiv } from "./fixtures/arxiv-server.ts";
import { startBuild } from "./fixtures/build.ts";
import { fakeClock } from "./fixtures/fake-clock.ts";
import { PINS } from "./pools.ts";

// A build against a server on this machine that holds the synthetic snapshot's papers, with PDFs made from their texts.

const world = loadSnapshot(DEFAULT_SNAPSHOT);
const folder = mkdtempSync(join(tmpdir(), "builder-"));
const servers: FakeArxiv[] = [];
let builds = 0;
const newOutput = (): string => join(folder, `${++builds}`, "snapshot.json");

async function serve(snapshot: Snapshot = world, now_ms?: () => number): Promise<FakeArxiv> {
  const server = await startArxiv(snapshot, now_ms);
  servers.push(server);
  return server;
}

/** The world with other pools. */
function withRecent(recent: Record<string, string[]>): Snapshot {
  return { ...world, pools: { ...world.pools, recent: { ...world.pools.recent, ...recent } } };
}

/** What a build of one small pool takes. */
const small = { aspects: ["CV"], keyword_queries: [], max_results: 3, pin_references: false };

afterAll(async () => {
  await Promise.all(servers.map((server) => server.close()));
  rmSync(folder, { recursive: true });
});

describe("the whole world", () => {
  const output = newOutput();
  const clock = fakeClock("2026-08-20T10:00:00Z");
  let server: FakeArxiv;
  let report: BuildReport;
  let built: Snapshot;

  beforeAll(async () => {
    server = await serve(world, clock.now_ms);
    report = await startBuild(output, { base_url: server.url }, { clock });
    built = loadSnapshot(output);
  });

  test("comes back as it is: papers, pools, sections, captions", () => {
    expect(report).toMatchObject({ papers: 109, without_pdf: [], problems: [], sha256: built.sha256 });
    expect(built.pools).toEqual(world.pools);
    expect(built.content).toEqual(world.content);
    const papers = Object.values(built.papers).map((paper) => ({ ...paper, links: paper.links.slice(0, 1) }));
    expect(papers).toEqual(papers.map(({ id }) => world.papers[id]));
    const captions = ({ figures }: Snapshot) =>
      Object.fromEntries(Object.entries(figures).map(([id, record]) => [id, record.figures.map((f) => f.caption)]));
    expect(captions(built)).toEqual(captions(world));
    expect(built.created_at).toBe("2026-08-20 10:00:00");
    checkSnapshot(built, output);
  });

  test("every figure lies beside it as a picture of the size that the record tells", () => {
    const figures = Object.values(built.figures).flatMap((record) => record.figures);
    expect(figures.length).toBe(report.figures);
    expect(figures.length).toBeGreaterThan(100);
    for (const { path, width, height } of figures) {
      const png = readFileSync(join(folder, "1", path));
      expect(png.subarray(1, 4).toString()).toBe("PNG");
      expect([png.readUInt32BE(16), png.readUInt32BE(20)]).toEqual([width, height]);
    }
  });

  test("the manifest has the settings and the hash of every PDF", () => {
    const manifest = JSON.parse(readFileSync(report.manifest, "utf8")) as {
      settings: { days: number };
      sha256: string;
      pdfs: Record<string, { sha256: string; size_bytes: number }>;
    };
    expect(manifest).toMatchObject({ sha256: built.sha256, settings: { days: 30, pin_references: true } });
    expect(Object.keys(manifest.pdfs).sort()).toEqual(Object.keys(world.papers).sort());
    const id = "2608.14528v1";
    const pdf = paperPdf(world, id);
    const hash = createHash("sha256").update(pdf).digest("hex");
    expect(manifest.pdfs[id]).toEqual({ sha256: hash, size_bytes: pdf.length });
  });

  test("requests: 3 s apart, whole days, each PDF once, with a name", () => {
    const api = server.requests.filter(({ path }) => path.startsWith("/api"));
    expect(api.length).toBe(10);
    for (const [index, { at_ms }] of api.slice(1).entries())
      expect(at_ms - api[index]!.at_ms).toBeGreaterThanOrEqual(3000);
    expect(new URLSearchParams(api[1]!.path.split("?")[1]).get("search_query")).toBe(
      "cat:cs.AI AND submittedDate:[202607210000 TO 202608202359]",
    );
    const pdfs = server.requests.filter(({ path }) => path.startsWith("/pdf")).map(({ path }) => path);
    expect(new Set(pdfs).size).toBe(109);
    expect(pdfs.length).toBe(109);
    // All went through one pacer: as many intervals as requests, whatever ran at once.
    expect(clock.now_ms() - Date.parse("2026-08-20T10:00:00Z")).toBeGreaterThanOrEqual(3000 * (10 + 109 - 1));
    expect(server.requests.every(({ user_agent }) => user_agent?.includes("trestle"))).toBe(true);
  });

  test("every gold task succeeds on it without the network, which is gone", async () => {
    await server.close(); // also what fetch still held open
    const denied = vi.fn(() => {
      throw new Error("the network is denied");
    });
    vi.spyOn(net.Socket.prototype, "connect").mockImplementation(denied);
    vi.spyOn(dns, "lookup").mockImplementation(denied as unknown as typeof dns.lookup);
    try {
      expect(() => net.connect(80, "127.0.0.1")).toThrow(/denied/); // the denial does deny
      expect(denied).toHaveBeenCalled();
      denied.mockClear();
      vi.stubGlobal("fetch", denied);
      const tasks = await arxiv.load("all", { snapshot: output });
      expect(tasks.ids.length).toBe(81);
      for (const task_id of tasks.ids) {
        const episode = await tasks.start(task_id, { seed: 1 });
        for (const reply of tasks.replies("gold", task_id, createRandom(1))) await episode.reply(reply);
        const trajectory = await episode.finish();
        expect([task_id, trajectory.success, trajectory.ended_by]).toEqual([task_id, true, "terminated"]);
      }
      expect(denied).not.toHaveBeenCalled();
    } finally {
      vi.restoreAllMocks();
      vi.unstubAllGlobals();
    }
  });

  test("a snapshot is not overwritten", async () => {
    const before = server.requests.length;
    await expect(startBuild(output, { base_url: server.url })).rejects.toThrow(/is there already.*another --output/);
    expect(server.requests.length).toBe(before);
  });
});

describe("anchors", () => {
  // A list that went on: the anchors are no longer among the newest.
  const rolled = withRecent({
    AI: world.pools.recent.AI!.filter((id) => !PINS.AI!.includes(id)),
    CV: [...world.pools.recent.CV!].reverse(),
  });

  test("are asked for by their ids and put first; the pool keeps its size", async () => {
    const server = await serve(rolled);
    const output = newOutput();
    await startBuild(output, { base_url: server.url, aspects: ["AI", "CV"], keyword_queries: [], allow_partial: true });
    const { recent } = loadSnapshot(output).pools;
    expect(recent.AI!.slice(0, 3)).toEqual(PINS.AI);
    expect(recent.CV!.slice(0, 3)).toEqual(PINS.CV);
    expect(recent.AI!.length).toBe(rolled.pools.recent.AI!.length);
    expect(new Set(recent.CV).size).toBe(recent.CV!.length);
    const asked = server.requests.filter(({ path }) => path.includes("id_list"));
    expect(asked.map(({ path }) => new URLSearchParams(path.split("?")[1]).get("id_list"))).toEqual([
      "2608.14530v1,2608.14528v1", // the third is in CV
    ]);
  });

  test("that arXiv does not have stop the build; without pins it goes through", async () => {
    const lost: Snapshot = {
      ...rolled,
      papers: Object.fromEntries(Object.entries(world.papers).filter(([id]) => id !== "2608.14528v1")),
    };
    const server = await serve(lost);
    const output = newOutput();
    const settings = { base_url: server.url, aspects: ["AI"], keyword_queries: [], max_results: 3 };
    await expect(startBuild(output, settings)).rejects.toThrow(
      /no paper 2608\.14528v1, which the tasks refer to\. --no-pin/,
    );
    expect(existsSync(output)).toBe(false);
    await startBuild(output, { ...settings, pin_references: false });
    expect(loadSnapshot(output).pools.recent.AI).toEqual(lost.pools.recent.AI!.slice(0, 3));
  });

  test("what the tasks miss is told before a PDF is asked for, and nothing is written", async () => {
    const server = await serve(rolled);
    const output = newOutput();
    const building = startBuild(output, { base_url: server.url, aspects: ["AI", "CV"], max_results: 20 });
    await expect(building).rejects.toThrow(/can't carry the tasks.*\n(?:- .*\n)*- pool RO has 0 papers, needs 25\n/);
    expect(server.requests.filter(({ path }) => path.startsWith("/pdf"))).toEqual([]);
    expect(existsSync(output)).toBe(false);
  });
});

describe("papers without a PDF", () => {
  let server: FakeArxiv;
  afterEach(() => server.withdrawn.clear());

  test("one that is withdrawn gives its abstract alone, and is named", async () => {
    server = await serve();
    const [first, second] = world.pools.recent.CV!;
    server.withdrawn.add(first!);
    const output = newOutput();
    const report = await startBuild(output, { ...small, base_url: server.url });
    expect(report.without_pdf).toEqual([{ id: first, reason: "arXiv has no PDF of it (HTTP 404)" }]);
    const built = loadSnapshot(output);
    expect(Object.keys(built.content[first!]!)).toEqual(["default", "abstract"]);
    expect(built.figures[first!]).toEqual({ count: 0, figures: [] });
    expect(built.summary[first!]!.structured!["60"]).toMatchObject({ sections_used: ["abstract"] });
    expect(built.content[second!]).toEqual(world.content[second!]);
  });

  test("one that is needed by the tasks stops the build at the end, with its place", async () => {
    server = await serve();
    server.withdrawn.add(world.pools.recent.CV![4]!);
    const output = newOutput();
    const building = startBuild(output, { base_url: server.url, content_max_ref: 5 });
    await expect(building).rejects.toThrow(/CV#5 has no section method/);
    expect(existsSync(output)).toBe(false);
  });

  test("larger than the limit, or broken", async () => {
    server = await serve();
    const output = newOutput();
    const limited = await startBuild(output, { ...small, base_url: server.url, max_pdf_mb: 0.001 });
    expect(limited.without_pdf.map(({ reason }) => reason)).toEqual(
      Array(3).fill(expect.stringMatching(/^the PDF has 0\.0 MB or more, the limit is 0\.0$/)),
    );
    const broken = {
      read: async () => {
        throw new (await import("./pdf-reader.ts")).UnreadablePdf("the PDF can't be read: locked");
      },
      close: async () => {},
    };
    const unread = await startBuild(newOutput(), { ...small, base_url: server.url }, { reader: broken });
    expect(unread.without_pdf.map(({ reason }) => reason)).toEqual(Array(3).fill("the PDF can't be read: locked"));
  });
});

describe("settings", () => {
  test("allow_partial writes what there is, and says what is missing", async () => {
    const server = await serve(withRecent({ RO: [] }));
    const output = newOutput();
    const settings = { ...small, aspects: ["RO", "CV"], base_url: server.url, retries: 1 };
    await expect(startBuild(output, settings)).rejects.toThrow(
      /newest of cs.RO, from 0: .*no paper was found \(2 tries/,
    );
    const report = await startBuild(output, { ...settings, allow_partial: true });
    expect(report.problems).toEqual([expect.stringMatching(/^newest of cs.RO, from 0: /)]);
    expect(Object.keys(loadSnapshot(output).pools.recent)).toEqual(["CV"]);
    const none = startBuild(newOutput(), { ...settings, aspects: ["RO"], allow_partial: true });
    await expect(none).rejects.toThrow(/^No paper was found\.\n- newest of cs.RO/);
  });

  test("content_max_ref: the first of each pool get texts, the others are listed alone", async () => {
    const server = await serve();
    const output = newOutput();
    await startBuild(output, { ...small, base_url: server.url, max_results: 5, content_max_ref: 2 });
    const built = loadSnapshot(output);
    expect(built.pools.recent.CV!.length).toBe(5);
    expect(Object.keys(built.content)).toEqual(world.pools.recent.CV!.slice(0, 2));
    expect(server.requests.filter(({ path }) => path.startsWith("/pdf")).length).toBe(2);
    expect(snapshotProblems(built)).toContain(`${built.pools.recent.CV![2]} has no content`);
  });

  test.each([
    ["no prefetch", { skip_prefetch: true }],
    ["no time for it", { prefetch_budget_s: 0 }],
    ["time for a part of it", { prefetch_budget_s: 4, content_workers: 1 }],
    ["many workers", { content_workers: 32 }],
  ])("%s: the same snapshot", async (_, settings) => {
    const server = await serve();
    const [output, plain] = [newOutput(), newOutput()];
    await startBuild(output, { ...small, base_url: server.url, ...settings });
    await startBuild(plain, { ...small, base_url: server.url });
    expect(readFileSync(output, "utf8")).toBe(readFileSync(plain, "utf8"));
  });

  test("old ids: the archive stays, and files have no folders of it", async () => {
    const id = "hep-th/9901001v2";
    const old: Snapshot = { ...withRecent({ CV: [id] }), papers: { [id]: { ...world.papers["2608.14528v1"]!, id } } };
    old.content = { [id]: world.content["2608.14528v1"]! };
    old.figures = { [id]: world.figures["2608.14528v1"]! };
    const server = await serve(old);
    const output = newOutput();
    await startBuild(output, { ...small, base_url: server.url });
    const built = loadSnapshot(output);
    expect(built.pools.recent.CV).toEqual([id]);
    expect(server.requests.at(-1)!.path).toBe("/pdf/hep-th/9901001v2");
    expect(built.figures[id]!.figures[0]!.path).toBe("figures/hep-th_9901001v2/figure-1.png");
    expect(existsSync(join(output, "../figures/hep-th_9901001v2/figure-1.png"))).toBe(true);
  });
});

test("what a killed build was writing is swept away by the next one, and nothing else", async () => {
  const server = await serve();
  const output = newOutput();
  server.fault = () => "500";
  await expect(startBuild(output, { ...small, base_url: server.url, retries: 0 })).rejects.toThrow(/HTTP 500/);
  const left = [`${output}.1a.tmp`, `${output}.build/build.json.1a.tmp`, `${output}.build/pools/x.json.1a.tmp`];
  const kept = [`${output}.build/lock.1.2.tmp`, join(output, "../other.json.1a.tmp")];
  mkdirSync(`${output}.build/pools`, { recursive: true });
  for (const file of [...left, ...kept]) writeFileSync(file, "{");
  server.fault = () => null;
  await startBuild(output, { ...small, base_url: server.url });
  expect([...left, ...kept].filter((file) => existsSync(file))).toEqual(kept);
});
