import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { EpisodeContext } from "../../core/env.ts";
import { envContract, freezing } from "../../core/env-contract.ts";
import { startEpisode } from "../../core/episode.ts";
import { UserError } from "../../core/errors.ts";
import { createRandom } from "../../core/random.ts";
import { arxiv, arxivSpec } from "./env.ts";
import { type ArxivOptions, arxivOptions } from "./options.ts";
import { attachExpectedPaperIds } from "./oracle.ts";
import { parseReact, renderReply } from "./protocol.ts";
import { runCall, startSession } from "./session.ts";
import { deepFreeze, loadSnapshot } from "./snapshot.ts";
import { arxivTools } from "./tools/index.ts";
import type { ArxivFacts, ArxivState, ArxivTask, Call } from "./types.ts";

const snapshot = loadSnapshot("data/arxiv/snapshot.json");
const options = arxivOptions.parse({});
const context: EpisodeContext<ArxivOptions> = {
  options,
  random: createRandom(1),
  trial: 0,
  signal: new AbortController().signal,
};

const search: Call = { tool: "get_recently_submitted_cs_papers", args: { aspect: "AI", days: 7, max_results: 5 } };

function taskOf(fields: Partial<ArxivTask> = {}): ArxivTask {
  return {
    id: "test",
    task: "Download the first paper.",
    steps: [{ tool: "download_arxiv_pdf", args: { ref: 1 } }],
    category: "test",
    difficulty: "easy",
    setup: [search],
    requires_offline: false,
    note: "",
    termination: "FINISH",
    terminal_mode: "completed",
    terminal_reason: null,
    max_iterations: null,
    depends_on: null,
    expected_paper_ids: null,
    ...fields,
  };
}

const task = taskOf();
const start = async (fields: Partial<ArxivTask> = {}) => arxivSpec.reset(taskOf(fields), context);
const step = (state: ArxivState, reply: string, changed: Partial<ArxivOptions> = {}) =>
  arxivSpec.step(state, reply, { ...context, options: { ...options, ...changed } }, task);
const facts = ({ outcome }: { outcome: { payload?: unknown } }) => outcome.payload as ArxivFacts;
const say = (name: string, args: Record<string, unknown>) => renderReply("next", { name, args });

envContract(arxivSpec, {
  splits: ["all", "smoke"],
  disjoint: [["train", "dev", "iid_test", "ood_test"]],
  runs: 60,
});

envContract(arxivSpec, { splits: ["smoke"], env_options: { profile: "reference", prompt: "compact" }, runs: 30 });

envContract(arxivSpec, { splits: ["smoke"], env_options: { protocol: { style: "continuation" } }, runs: 10 });

describe("the continuation style", () => {
  const texts = { separator: "\n", opening: "Thought:", stop: "Observation:" };

  test("is an option, and not the default", () => {
    expect(arxiv.continuation()).toBe(null);
    expect(arxiv.continuation({ protocol: {} })).toBe(null);
    expect(arxiv.continuation({ protocol: { style: "chat" } })).toBe(null);
    expect(arxiv.continuation({ protocol: { style: "continuation" } })).toEqual(texts);
    expect(() => arxiv.continuation({ protocol: { style: "continuous" } })).toThrow(UserError);
  });

  test("every gold reply can be written in it, and reads the same behind an opening that stands there already", async () => {
    const tasks = await arxiv.load("all");
    for (const id of tasks.ids)
      for (const reply of tasks.replies("gold", id, createRandom(0))) {
        expect(reply.startsWith(texts.opening)).toBe(true);
        expect(reply).not.toContain(texts.stop);
        expect(parseReact(reply.slice(texts.opening.length))).toEqual(parseReact(reply));
      }
  });

  test("its observations begin with the word that stops a reply", async () => {
    const { state } = await start();
    for (const reply of [say("download_arxiv_pdf", { ref: 1 }), say("download_arxiv_pdf", { ref: 99 })]) {
      const { observations } = await step(state, reply, { protocol: { style: "continuation" } });
      expect(observations[0]!.content.startsWith(texts.stop)).toBe(true);
    }
  });
});

describe("reset", () => {
  test("plays setup outside the trajectory, and tells what it left", async () => {
    const { state, messages } = await start({ setup: [search, { tool: "download_arxiv_pdf", args: { ref: 2 } }] });
    expect(state.papers.length).toBe(5);
    expect(state.last_active_paper_id).toBe("2608.14530v1");
    expect(messages.length).toBe(1);
    expect(messages[0]).toMatchObject({ role: "user", content: expect.stringContaining("Downloaded paper 2") });
    expect(state.session_id).toMatch(/^grpo_test_[0-9a-f]{10}$/);
  });

  test("tells nothing of the task but its sentence", async () => {
    const { messages } = await start({ id: "secret-id", note: "secret-note", category: "secret-category" });
    expect(messages[0]!.content).not.toContain("secret");
  });

  test("two tasks that differ in setup alone get different prompts", async () => {
    const [one, other] = await Promise.all([start(), start({ setup: [] })]);
    expect(one.messages[0]!.content).not.toBe(other.messages[0]!.content);
  });

  test("plays the tasks that this one depends on", async () => {
    const tasks = await arxiv.load("smoke");
    const episode = await tasks.start("translate_01", { seed: 1 });
    expect(episode.messages[0]!.content).toContain("Downloaded paper 1");
    await expect(start({ depends_on: "other" })).rejects.toThrow(/depends on 'other'.*not loaded/);
    const { state } = await start({ depends_on: "other", prior: [search], setup: [] });
    expect(state.papers.length).toBe(5);
  });

  test("a setup call that fails is an error of ours, and the rollout carries no reward", async () => {
    const broken = taskOf({ setup: [{ tool: "download_arxiv_pdf", args: { ref: 1 } }] });
    const episode = await startEpisode(arxivSpec, broken, options, { seed: 1 });
    const trajectory = await episode.finish();
    expect(trajectory).toMatchObject({ ended_by: "error", reward: null });
    expect(trajectory.ended_why).toMatch(/reset: task 'test': its setup call download_arxiv_pdf .* no paper list/);
  });

  test("one seed, one session; a group's members share it and do not disturb each other", async () => {
    const sessions = [3, 3, 4].map(async (seed) => {
      const { state } = await arxivSpec.reset(task, { ...context, random: createRandom(seed) });
      return state.session_id;
    });
    const [a, b, c] = await Promise.all(sessions);
    expect(a).toBe(b);
    expect(a).not.toBe(c);
  });
});

describe("step", () => {
  test("a call gives facts for the scorer and a turn for the policy", async () => {
    const { state } = await start();
    const result = await step(state, say("download_arxiv_pdf", { ref: "Learning State" }));
    expect(result).toMatchObject({
      thought: "next",
      action: { name: "download_arxiv_pdf", args: { ref: "Learning State" } },
      outcome: { kind: "ok" },
      observations: [{ role: "user", content: `Observation: ${result.outcome.text}` }],
      terminated: false,
    });
    expect(facts(result)).toMatchObject({ tool: "download_arxiv_pdf", paper_id: "2608.14528v1", repairs: [] });
  });

  test("a search records which papers it found", async () => {
    const { state } = await start({ setup: [] });
    const result = await step(state, say(search.tool, search.args));
    expect(facts(result).result).toEqual({ count: 5, paper_ids: snapshot.pools.recent.AI!.slice(0, 5) });
    expect(facts(result)).toMatchObject({ paper_id: null, empty: false, answer: null });
  });

  test("a figure's answer and no figures at all are facts", async () => {
    const bare = snapshot.pools.recent.AI!.find((id) => snapshot.figures[id]!.count === 0)!;
    let { state } = await start({ setup: [{ tool: search.tool, args: { aspect: "AI", max_results: 26 } }] });
    for (const ref of [1, bare]) ({ state } = await step(state, say("download_arxiv_pdf", { ref })));
    expect(facts(await step(state, say("analyze_figure", { ref: 1 }))).answer).toMatch(/\w/);
    expect(facts(await step(state, say("extract_paper_figures", { ref: 1 }))).empty).toBe(false);
    expect(facts(await step(state, say("extract_paper_figures", { ref: bare }))).empty).toBe(true);
  });

  test("a search that was not recorded is a failure, and the list stays as it was", async () => {
    const { state } = await start();
    const result = await step(state, say("search_arxiv_papers", { query: "soup" }));
    expect(result.outcome.kind).toBe("fallback");
    expect(result.outcome.text).toMatch(/^Error: This search is not recorded/);
    expect(result.state.papers).toBe(state.papers);
    expect(result.state.stats).toMatchObject({ miss: 1, fallback: 1 });
    expect(result.observations[0]!.is_error).toBe(true);
  });

  test("RW-05: the same search under two session ids, its arguments in another order, hits both times", async () => {
    let { state } = await start({ setup: [] });
    const texts: string[] = [];
    for (const args of [
      { session_id: "a", aspect: "CL", days: 3, max_results: 4 },
      { max_results: 4, days: 3, session_id: "b", aspect: "CL" },
    ]) {
      const result = await step(state, say(search.tool, args));
      state = result.state;
      texts.push(result.outcome.text);
    }
    expect(texts[0]).toBe(texts[1]);
    expect(state.stats).toMatchObject({ hit: 2, miss: 0, argument_errors: 0 });
  });

  test("RW-10: a paper whose title speaks of errors is no failure", async () => {
    const { state } = await start();
    const paper = { ...state.papers[0]!, title: "Error-Correcting Codes Revisited" };
    const known = { ...snapshot, papers: { ...snapshot.papers, [paper.id]: paper } };
    const result = await step({ ...state, snapshot: known }, say(search.tool, search.args));
    expect(result.outcome.text).toContain("Error-Correcting");
    expect(result.outcome.kind).toBe("ok");
    expect(result.observations[0]).not.toHaveProperty("is_error");
  });

  test("a mistake in the arguments is counted, and changes nothing else", async () => {
    const { state } = await start();
    const result = await step(state, say("download_arxiv_pdf", { paper: 1 }));
    expect(result.outcome).toMatchObject({ kind: "tool_error", payload: { result: null, paper_id: null } });
    expect(result.outcome.text).toBe('Error: download_arxiv_pdf: unknown argument "paper"; it takes ref, force.');
    expect(result.state).toEqual({ ...state, stats: { ...state.stats, argument_errors: 1 } });
  });

  test("TR-18: an unknown tool is told which there are, and the episode goes on", async () => {
    const { state } = await start();
    const result = await step(state, say("send_email", {}));
    expect(result).toMatchObject({ terminated: false, outcome: { kind: "tool_error" } });
    expect(result.outcome.text).toMatch(/no tool "send_email"\. The tools are get_recently.*analyze_figure/);
    const next = await step(result.state, say("download_arxiv_pdf", { ref: 1 }));
    expect(next.outcome.kind).toBe("ok");
  });

  test("a name that objects have is no tool", async () => {
    const { state } = await start();
    expect((await step(state, say("constructor", {}))).outcome.kind).toBe("tool_error");
  });

  test.each(["[1]", "42", '"text"', "null"])("PA-07: %s as arguments runs no tool", async (args) => {
    const { state } = await start();
    const result = await step(state, `Action: {"name": "get_paper_cache_status", "args": ${args}}`);
    expect(result.outcome).toMatchObject({ kind: "tool_error", text: expect.stringContaining("must be an object") });
    expect(result.action).toEqual({ name: "get_paper_cache_status", args: { args: JSON.parse(args) } });
    expect(result.state.last_active_paper_id).toBe(state.last_active_paper_id);
  });

  test("PA-09: the text null runs a tool that needs nothing, and is refused by one that does", async () => {
    const { state } = await start();
    const ok = await step(state, 'Action: {"name": "download_arxiv_pdf", "arguments": "null"}');
    expect(ok.outcome.kind).toBe("ok");
    const refused = await step(state, 'Action: {"name": "search_arxiv_papers", "arguments": "null"}');
    expect(refused.outcome).toMatchObject({ kind: "tool_error", text: expect.stringContaining("query") });
  });

  test("PA-14: what follows an invented observation does not run, and is counted", async () => {
    const { state } = await start();
    const reply = `${say("download_arxiv_pdf", { ref: 1 })}\nObservation: done\n${say("translate_arxiv_pdf", { ref: 1 })}`;
    const result = await step(state, reply);
    expect(facts(result)).toMatchObject({ tool: "download_arxiv_pdf", repairs: ["invented_observation"] });
    expect(result.state.translate_tasks).toEqual([]);
  });

  test("TR-16: FINISH ends it, whatever follows", async () => {
    const { state } = await start();
    const result = await step(state, "Thought: done\nAction: FINISH\n\nHave a nice day!");
    expect(result).toMatchObject({
      terminated: true,
      action: null,
      observations: [],
      outcome: { kind: "terminal", text: "" },
    });
    expect(result.state).toBe(state);
  });

  test("a reply that can't be read ends it, and is not a FINISH", async () => {
    const { state } = await start();
    const result = await step(state, "I would download it.");
    expect(result).toMatchObject({
      terminated: true,
      action: null,
      observations: [],
      outcome: { kind: "parse_error" },
    });
    const lenient = await step(state, "I would download it.", { parser: "lenient" });
    expect(lenient.outcome.kind).toBe("terminal");
  });

  test("a tool that breaks is an error of ours, not the model's", async () => {
    const { state } = await start();
    const broken = { ...state, snapshot: { ...snapshot, pools: { ...snapshot.pools, recent: null } } };
    await expect(step(broken as unknown as ArxivState, say(search.tool, search.args))).rejects.toThrow(TypeError);
  });
});

test("the turn budget is 6, or the task's own", () => {
  const { max_turns } = arxivSpec as { max_turns: (task: ArxivTask) => number };
  expect(max_turns(task)).toBe(6);
  expect(max_turns(taskOf({ max_iterations: 7 }))).toBe(7);
});

describe("the semantic oracle", () => {
  test("attaches the paper of each gold step, none for a search", async () => {
    const solved = await attachExpectedPaperIds(
      taskOf({ setup: [], steps: [search, { tool: "download_arxiv_pdf", args: { ref: "Marionette" } }] }),
      snapshot,
    );
    expect(solved.expected_paper_ids).toEqual([null, "2608.14530v1"]);
  });

  test("a task without steps has none", async () => {
    expect((await attachExpectedPaperIds(taskOf({ steps: [] }), snapshot)).expected_paper_ids).toEqual([]);
  });

  test("a gold step that fails is named", async () => {
    const bad = taskOf({ steps: [{ tool: "download_arxiv_pdf", args: { ref: 20 } }] });
    await expect(attachExpectedPaperIds(bad, snapshot)).rejects.toThrow(
      /task 'test': its gold call download_arxiv_pdf \{"ref":20\} fails: Error: The list holds 5 papers/,
    );
  });
});

test("10,000 generated replies: each is read and played without a crash, into a defined outcome", async () => {
  const starts = [
    await startSession(task, snapshot, "fuzz"),
    await startSession(taskOf({ setup: [] }), snapshot, "fuzz"),
    (await runCall(await startSession(task, snapshot, "fuzz"), "download_arxiv_pdf", { ref: 1 })).state,
  ].map(deepFreeze);
  const name = fc.oneof(fc.constantFrom(...arxivTools.map((tool) => tool.name)), fc.string({ maxLength: 8 }));
  const value = fc.oneof(
    fc.constantFrom<unknown>(1, 3, 20, 0, -1, null, "Learning", "2608.14528v1", "AI", "cs.CV", "method", "tldr", 60),
    fc.jsonValue({ maxDepth: 2 }),
  );
  const key = fc.constantFrom("ref", "aspect", "days", "max_results", "query", "section", "style", "max_words", "x");
  const args = fc.oneof(fc.dictionary(key, value, { maxKeys: 4 }), fc.jsonValue({ maxDepth: 2 }));
  const json = fc.record({ name, args }).map((action) => JSON.stringify(action));
  const scrap = fc.constantFrom(
    "Thought:",
    "Action:",
    "Observation:",
    "FINISH",
    "```",
    "{",
    "}",
    "'",
    '"',
    ",}",
    "\n",
    "<think>",
  );
  const reply = fc.oneof(
    { weight: 4, arbitrary: json.map((text) => `Thought: next\nAction: ${text}`) },
    {
      weight: 2, // cut, or with a scrap put in somewhere
      arbitrary: fc.tuple(json, scrap, fc.nat(80)).map(([text, piece, at]) => {
        return `Thought: next\nAction: ${text.slice(0, at)}${piece}${text.slice(at + 1)}`;
      }),
    },
    {
      weight: 2,
      arbitrary: fc
        .array(fc.oneof(scrap, json, fc.string({ maxLength: 10 })), { maxLength: 8 })
        .map((all) => all.join("")),
    },
    { weight: 1, arbitrary: fc.string({ unit: "binary", maxLength: 60 }) },
    // What chance alone hardly ever writes: a search that was not recorded, and an end.
    { weight: 1, arbitrary: fc.string({ minLength: 1 }).map((query) => say("search_arxiv_papers", { query })) },
    { weight: 1, arbitrary: fc.string({ maxLength: 20 }).map((thought) => renderReply(thought, "FINISH")) },
  );
  const seen = new Set<string>();
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...starts), reply, async (state, text) => {
      const result = await step(state, text);
      seen.add(result.outcome.kind);
      expect(["ok", "tool_error", "parse_error", "fallback", "terminal"]).toContain(result.outcome.kind);
      expect(result.terminated).toBe(["parse_error", "terminal"].includes(result.outcome.kind));
      expect(result.observations.length).toBe(result.terminated ? 0 : 1);
      expect(result.outcome.text.length).toBeLessThan(2000);
      expect(result.outcome.text === "").toBe(result.outcome.kind === "terminal");
      JSON.stringify(result.outcome);
    }),
    { numRuns: 10_000 },
  );
  expect([...seen].sort()).toEqual(["fallback", "ok", "parse_error", "terminal", "tool_error"]);
});

test("a frozen world can be played in, and episodes side by side do not disturb each other", async () => {
  const env = freezing(arxivSpec);
  const tasks = await arxivSpec.load("all", options);
  const play = async (played: ArxivTask) => {
    const episode = await startEpisode(env, played, options, { seed: 5 });
    for (const text of arxivSpec.policies.gold(played, createRandom(5), options)) await episode.reply(text);
    const { env_ms: _, ...trajectory } = await episode.finish();
    return trajectory;
  };
  const some = tasks.tasks.slice(40, 52);
  const together = await Promise.all(some.map(play));
  const alone = [];
  for (const one of some) alone.push(await play(one));
  expect(together).toEqual(alone);
});

test("the weights that a reward was made with stand beside it, those of a curriculum too", async () => {
  const tasks = await arxiv.load("smoke", { curriculum_steps: 10 });
  const weightsAt = async (policy_step: number) => {
    const { metrics } = await (await tasks.start("search_01", { seed: 1, policy_step })).finish();
    return Object.fromEntries(Object.entries(metrics).filter(([name]) => name.startsWith("reward_weights/")));
  };
  const late = { format: 1, tool: 3, argument: 2, process: 1, outcome: 3, result_quality: 0, efficiency: 0 };
  const named = (weights: Record<string, unknown>) =>
    Object.fromEntries(Object.entries(weights).map(([name, weight]) => [`reward_weights/${name}`, weight]));
  expect(await weightsAt(10)).toEqual(named(late));
  const early = { tool: 1, argument: expect.closeTo(2 / 3, 9), outcome: 1 };
  expect(await weightsAt(9)).toEqual(named({ ...late, ...early }));
});
