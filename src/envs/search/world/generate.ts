import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createRandom } from "../../../core/random.ts";
import { byQuestion, difficultyOf, evenlySpread, samplesOf, splitQuestions } from "../checkpoints/samples.ts";
import { indexInMemory, type SearchIndex } from "../index/search.ts";
import { searchOptions } from "../options.ts";
import { bestClues } from "./best-clues.ts";
import { makeDocuments } from "./documents.ts";
import { makeEntities } from "./entities.ts";
import { playQuestion, RUNS_PER_QUESTION } from "./play.ts";
import { makeQuestions } from "./questions.ts";

// The embedded data, made from a seed. Source: spec section 10.

export const WORLD_SEED = 20_260_901;

/** Files by their path in the data's folder. */
export type WorldFiles = ReadonlyMap<string, string>;

const jsonLines = (rows: readonly object[]): string => rows.map((row) => `${JSON.stringify(row)}\n`).join("");

/** Chances of good clues by question: an easy one, one that is played so and so, a hard one. */
const SKILLS = [
  [0.9, 0.6, 0.3],
  [0.7, 0.4, 0.2],
  [0.3, 0.15, 0.05],
] as const;

/** Documents and questions. */
export function makeWorld(seed: number = WORLD_SEED) {
  const random = createRandom(`search-world/${seed}`);
  const world = makeEntities(random.fork("entities"));
  const documents = makeDocuments(world, random.fork("documents"));
  return { random, documents, questions: makeQuestions(world, documents, random.fork("questions")) };
}

export function generateWorld(seed: number = WORLD_SEED): WorldFiles {
  const { random, documents, questions } = makeWorld(seed);
  const files = new Map<string, string>();
  const corpus = jsonLines(documents.map(({ docid, title, text }) => ({ docid, title, text })));
  files.set("corpus.jsonl", corpus);
  files.set(
    "questions.jsonl",
    jsonLines(
      questions.map(({ question_id, question, branches }) => ({
        question_id,
        question,
        answers: branches.map((hops) => hops.at(-1)!.link.to.name),
        hops: branches.flatMap((hops, branch) =>
          hops.map(({ docid, subject, link }) => ({
            branch: branch + 1,
            docid,
            subject: subject.name,
            asked: link.noun,
            answer: link.to.name,
          })),
        ),
      })),
    ),
  );
  files.set(
    "judgements.jsonl",
    jsonLines(
      questions.flatMap(({ question_id, judgements }) =>
        [...judgements].map(([docid, label]) => ({ question_id, docid, label })),
      ),
    ),
  );

  const index = indexOfText(corpus);
  const runs = questions.flatMap((question) => {
    const plays = random.fork(`runs/${question.question_id}`);
    const skills = plays.pick(SKILLS);
    return skills.slice(0, RUNS_PER_QUESTION).map((skill, number) => {
      const run = `run_${String(number + 1).padStart(3, "0")}`;
      const played = playQuestion(question, index, skill, plays.fork(run));
      const folder = `checkpoints/${question.question_id}/${run}`;
      files.set(`${folder}/meta.json`, `${JSON.stringify(played.meta)}\n`);
      for (const [place, round] of played.rounds.entries())
        files.set(`${folder}/${played.meta.rounds[place]!.file}`, `${JSON.stringify(round)}\n`);
      return { folder: question.question_id, run, ...played };
    });
  });

  // Questions are split before anything is derived from them: gold clues are made side by side, of a question's own
  // state and documents alone.
  const options = searchOptions.parse({});
  const recorded = byQuestion(runs);
  const sides = splitQuestions(recorded.map(difficultyOf), options.train_ratio);
  const byId = new Map(questions.map((question) => [question.question_id, question]));
  const gold = [...sides.train, ...sides.eval].flatMap((question_id) => {
    const played = recorded.find((one) => one.question_id === question_id)!;
    const samples = played.runs.flatMap((run) => samplesOf(run, options.min_clues_per_round));
    return evenlySpread(samples, options.max_samples_per_question).map((sample) => {
      const { clues, reward } = bestClues(byId.get(question_id)!, sample, index, options);
      return { task_id: sample.id, clues, reward: Number(reward.toFixed(10)) };
    });
  });
  index.close();
  files.set("gold.jsonl", jsonLines(gold.sort((a, b) => (a.task_id < b.task_id ? -1 : 1))));
  return files;
}

/** The index is of the file's own text, as in play. */
function indexOfText(corpus: string): SearchIndex {
  const folder = mkdtempSync(join(tmpdir(), "search-world-"));
  try {
    const path = join(folder, "corpus.jsonl");
    writeFileSync(path, corpus);
    return remembering(indexInMemory(path));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** The same clues are tried on many states. */
export function remembering(index: SearchIndex): SearchIndex {
  const known = new Map<string, ReturnType<SearchIndex["search"]>>();
  return {
    ...index,
    search(clue, top_k) {
      const key = `${top_k} ${clue}`;
      const hits = known.get(key) ?? index.search(clue, top_k);
      known.set(key, hits);
      return hits;
    },
  };
}
