import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { defineEnv } from "../../src/core/env.ts";
import { UserError } from "../../src/core/errors.ts";
import { arxivBadCases } from "../../src/envs/arxiv/bad-cases.ts";
import { arxiv, arxivSpec } from "../../src/envs/arxiv/env.ts";
import { runBadCases } from "./command.ts";
import { defaultLibrary, readLibrary } from "./library.ts";
import { replayCases } from "./replay.ts";

const LIBRARY = defaultLibrary(arxiv);
const REFERENCE = join(LIBRARY, "reference.jsonl");
const folder = mkdtempSync(join(tmpdir(), "badcases-"));

let files = 0;
function file(text: string): string {
  const path = join(folder, `library-${++files}.jsonl`);
  writeFileSync(path, text);
  return path;
}

const lines = (path: string) => readFileSync(path, "utf8").split("\n");
const replay = (library: string, env_options = {}) =>
  runBadCases("replay", undefined, { env: "arxiv", env_options, library });

describe.each(["project", "reference"])("the library, profile %s", (profile) => {
  test("nothing that was fixed is bad again, and every open case is still known by its condition", async () => {
    const replayed = await replayCases(arxiv, readLibrary(LIBRARY, arxivBadCases), { profile });
    expect(replayed.filter(({ result }) => result === "regressed")).toEqual([]);
    expect(replayed.filter(({ result }) => result === "newly_fixed")).toEqual([]); // its status wants a hand
    expect(replayed.length).toBeGreaterThanOrEqual(25); // it only grows
  });

  // spec/arxiv.md 9.2, column "now"
  test.each([
    ["hack/tool-call-on-infeasible", -0.75, -0.515],
    ["hack/right-tools-wrong-args-chain", 0.428333, 0],
    ["hack/right-tools-wrong-args-composite", 0.441667, 0],
    ["hack/ignore-the-task-and-search", 0.666667, 0],
    ["hack/claim-done-without-doing-it", -0.75, -0.525],
    ["residual/always-search-still-scores-on-search", 0.666667, 0],
    ["hack/summary-budget-ignored", 0.888889, 0],
    ["hack/summary-style-ignored", 0.888889, 0],
    ["hack/summary-without-download", -0.75, 0],
    ["hack/summary-wrong-paper-extra-download", 0.545952, 0],
    ["hack/read-with-unrequested-section", 0.833333, 0],
    ["hack/figure-extraction-without-download", -0.75, 0],
    ["hack/figure-extraction-wrong-paper", 0.545952, 0],
    ["hack/figure-extraction-skipped-entirely", -0.25, 0],
  ])("%s earns %d", async (case_id, reward, reward_drift) => {
    const replayed = await replayCases(arxiv, readLibrary(REFERENCE, arxivBadCases), { profile });
    expect(replayed.length).toBe(14);
    const open = case_id.startsWith("residual/");
    expect(replayed.find((one) => one.case_id === case_id)).toMatchObject({
      reward,
      reward_drift,
      result: open ? "still_open" : "stays_fixed",
    });
  });
});

test("trestle badcases tells counts by file: 13 of the 14 stay fixed, 1 is still open", async () => {
  const { json, text, exit_code } = await replay(LIBRARY);
  const counts = { stays_fixed: 13, still_open: 1, newly_fixed: 0, regressed: 0 };
  expect(json.at(-1)).toMatchObject({ env: "arxiv@1", files: { "eval/badcases/arxiv/reference.jsonl": counts } });
  expect(text).toContain("reference.jsonl: 13 stays_fixed, 1 still_open, 0 newly_fixed, 0 regressed");
  expect(exit_code).toBe(0);
});

describe("a scorer broken on purpose", () => {
  test("lets cases regress, and the command exits with 1 and names them", async () => {
    // arguments and outcome count for nothing: the right tools with any arguments are worth all
    const { exit_code, text, json } = await replay(LIBRARY, { reward_weights: { argument: 0, outcome: 0 } });
    expect(exit_code).toBe(1);
    const regressed = json.filter((line) => (line as { result?: string }).result === "regressed");
    expect(regressed.map((line) => (line as { case_id: string }).case_id)).toEqual(
      expect.arrayContaining(["hack/right-tools-wrong-args-chain", "hack/ignore-the-task-and-search"]),
    );
    expect(text).toMatch(/REGRESSED.*\n {2}hack\/another-category \(eval\/badcases\/arxiv\/own.jsonl, line \d+\)/);
    expect(text).toContain('{"reward":{"ge":0.6}}, now {"reward":1}');
  });

  test("that has lost a gate lets the cases of that gate regress", async () => {
    const ungated = defineEnv({
      ...arxivSpec,
      async rescore(line, options) {
        const judged = (await arxivSpec.rescore!(line, options)) as { reward: number; metrics: { pre_gate: number } };
        return { ...judged, reward: judged.metrics.pre_gate };
      },
    });
    const replayed = await replayCases(ungated, readLibrary(LIBRARY, arxivBadCases), {});
    const regressed = replayed.filter(({ result }) => result === "regressed").map(({ case_id }) => case_id);
    expect(regressed).toContain("hack/figure-without-an-answer");
    expect(regressed).toContain("hack/fallback-search-as-success");
  });
});

test("an open case that is bad no more is told, and left to a hand: exit 0, file untouched", async () => {
  const changed = lines(REFERENCE).map((line) => line.replace('{"reward": {"ge": 0.9}}', '{"reward": {"ge": 0.95}}'));
  const path = file(changed.map((line) => line.replace('"status": "fixed"', '"status": "open"')).join("\n"));
  const before = readFileSync(path, "utf8");
  const { exit_code, text, json } = await replay(path);
  expect(json.at(-1)).toMatchObject({ newly_fixed: 13, still_open: 1, regressed: 0 });
  expect(text).toMatch(/set their status to fixed by hand:\n {2}hack\/tool-call-on-infeasible/);
  expect(exit_code).toBe(0);
  expect(readFileSync(path, "utf8")).toBe(before);
});

describe("a library that does not fit is refused with file and line", () => {
  const good = lines(REFERENCE)[1]!;
  const changed = (changes: Record<string, unknown>) => JSON.stringify({ ...JSON.parse(good), ...changes });
  test.each([
    ["no JSON", `// a comment\n\n${good}\n{"case_id": `, /line 4: not JSON/],
    [
      "an id twice",
      `${good}\n// again\n${good}`,
      /line 3: the case_id 'hack\/tool-call-on-infeasible' stands at .*line 1 already/,
    ],
    ["another status", changed({ status: "closed" }), /line 1: status/],
    ["no condition", changed({ reproduces_when: {} }), /line 1: reproduces_when: expected at least one of reward/],
    [
      "a condition on nothing there is",
      changed({ reproduces_when: { rewrad: 1 } }),
      /line 1: reproduces_when: .*rewrad/,
    ],
    [
      "a semantics that is none",
      changed({ reproduces_when: { terminal_semantics: "vague" } }),
      /reproduces_when.terminal_semantics/,
    ],
    ["no history", changed({ history: [] }), /line 1: history/],
    ["a key too many", changed({ verdict: 1 }), /line 1: .*verdict/],
    [
      "a task that no longer exists",
      changed({ task_id: "gone" }),
      /line 1: case 'hack\/.*': arxiv has no task 'gone' any more/,
    ],
    [
      "options of no environment",
      changed({ env_options: { profil: "x" } }),
      /line 1: case 'hack\/.*': env_options of arxiv: .*profil/,
    ],
    ["nothing in it", "// empty\n", /holds no case/],
  ])("%s", async (_, text, message) => {
    const replayed = replay(file(text));
    await expect(replayed).rejects.toThrow(message);
    await expect(replayed).rejects.toThrow(UserError);
  });

  test("an id twice in two files of a folder", () => {
    const library = join(folder, "two");
    mkdirSync(library);
    for (const name of ["a.jsonl", "b.jsonl"]) writeFileSync(join(library, name), good);
    expect(() => readLibrary(library, arxivBadCases)).toThrow(
      /two\/b.jsonl, line 1: .* stands at .*two\/a.jsonl, line 1/,
    );
  });

  test("comments, blank lines, a byte order mark and a missing last line end are no cases", () => {
    const cases = readLibrary(file(`\uFEFF// a\n\n  // b\n${good}`), arxivBadCases);
    expect(cases.map(({ line }) => line)).toEqual([4]);
  });
});

test.each([
  [["repaly", undefined, {}], /no action 'repaly'; expected replay or capture/],
  [["replay", "runs/x", {}], /replay takes no log; a library is named by --library runs\/x/],
  [["replay", undefined, { task_id: "x" }], /replay takes no --task-id; it belongs to capture/],
  [["replay", undefined, { dry_run: true }], /replay takes no --dry-run/],
  [["replay", undefined, { library: "nowhere" }], /nowhere: there is no such library/],
  [["replay", undefined, { profile: "strict" }], /env_options of arxiv: profile/],
  [["replay", undefined, { env: "./examples/guess-the-number.ts" }], /guess-the-number keeps no bad cases/],
  [["capture", undefined, {}], /capture: name a trajectory log or a run's folder/],
  [["capture", "nowhere.jsonl", {}], /nowhere.jsonl: there is no such log/],
  [["capture", REFERENCE, { when: { reward: { above: 1 } } }], /--when: reward.* Expected a condition/],
] as const)("%j is the user's mistake", async ([action, log, flags], message) => {
  const ran = runBadCases(action, log, { env: "arxiv", env_options: {}, ...flags });
  await expect(ran).rejects.toThrow(message);
  await expect(ran).rejects.toThrow(UserError);
});
