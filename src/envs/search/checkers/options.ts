import { z } from "zod";

const ms = z
  .int()
  .min(1)
  .max(2 ** 31 - 1);

export const checkerOptions = z.strictObject({
  backend: z.enum(["labels", "llm"]).default("labels").describe("labels: judgements of a file; llm: an endpoint."),
  model: z.string().default("").describe("The endpoint's name of the model; '': what CHECKER_MODEL says."),
  dotenv: z.string().default(".env").describe("A file of NAME=value lines with CHECKER_BASE_URL and the like."),
  concurrency: z.int().min(1).default(8).describe("Calls under way at a time."),
  cache_dir: z.string().min(1).nullable().default("runs/checker-cache").describe("null: answers are not kept."),
  connect_timeout_ms: ms.default(10_000),
  answer_timeout_ms: ms.default(60_000),
  max_tokens: z.int().min(8).default(128),
  extra_body: z.record(z.string(), z.unknown()).default({}).describe("Keys of the request; null leaves one out."),
});
export type CheckerOptions = z.output<typeof checkerOptions>;
