import { z } from "zod";
import { checkerOptions } from "./checkers/options.ts";
import { DEFAULT_MAX_CLUES } from "./clues.ts";
import { rewardTable } from "./rewards.ts";

const path = z.string().min(1).nullable().default(null);

/** What a user may set under `env_options`. */
export const searchOptions = z.strictObject({
  corpus: path.describe("Documents: JSON lines, or a BEIR folder; null: the embedded world."),
  index: path.describe("An index made by `trestle data search index`; null: the corpus is indexed in memory."),
  judgements: path.describe("Labels by question and document: JSON lines, or a folder with qrels/*.tsv."),
  checkpoints: path.describe("Recorded runs; null: the embedded ones, or the queries of a BEIR folder."),
  gold: path.describe("Worked clue lists by task; null: the embedded ones, or titles of judged documents."),
  checker: checkerOptions.prefault({}).describe("Who labels the documents."),
  reward: rewardTable.prefault({}).describe("What a document earns."),
  max_clues: z.int().min(1).max(20).default(DEFAULT_MAX_CLUES).describe("Clues of a reply that are searched."),
  top_k: z.int().min(1).max(50).default(5).describe("Documents a clue finds at most."),
  max_rounds: z.int().min(1).max(20).default(1).describe("Rounds of an episode; past the first a rule plans them."),
  min_clues_per_round: z.int().min(1).default(2).describe("Recorded rounds with fewer clues are no samples."),
  max_samples_per_question: z.int().min(1).default(10),
  train_ratio: z.number().gt(0).lt(1).default(0.8).describe("Share of the questions that are trained on."),
  prompt: z.enum(["full", "compact"]).default("full").describe("compact: a few lines, for small models."),
  table_rows: z.int().min(1).default(20).describe("Rows of a table that a prompt shows."),
});

export type SearchOptions = z.output<typeof searchOptions>;
