import { entries } from "./bridge/protocol.ts";
import type { Python } from "./bridge/python.ts";

/** Characters that cross at a time. */
const CHUNK = 1_000_000;

/**
 * How many tokens each text has under the tokenizer of `model` (a folder or hub id), special ones not added. Only the
 * tokenizer is loaded.
 */
export async function countTokens(python: Python, model: string, texts: readonly string[]): Promise<number[]> {
  const counts: number[] = [];
  for (const chunk of chunksOf(texts)) {
    const request = entries.count_tokens.request.parse({ model, texts: chunk });
    const result = entries.count_tokens.result.parse(await python.call("count_tokens", request));
    if (result.counts.length !== chunk.length)
      throw new Error(`count_tokens: ${chunk.length} texts asked, ${result.counts.length} counts returned.`);
    counts.push(...result.counts);
  }
  return counts;
}

function chunksOf(texts: readonly string[]): string[][] {
  const chunks: string[][] = [];
  let size = 0;
  for (const text of texts) {
    if (chunks.length === 0 || size + text.length > CHUNK) {
      chunks.push([]);
      size = 0;
    }
    chunks.at(-1)!.push(text);
    size += text.length + 1;
  }
  return chunks;
}
