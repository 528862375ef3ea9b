import { expect, test } from "vitest";
import { startPython } from "./bridge/python.ts";
import { countTokens } from "./token-counts.ts";

test("counts come back in order, over several crossings too, without a model's weights", {
  timeout: 120_000,
}, async () => {
  const python = await startPython();
  try {
    const begin = performance.now();
    const long = "Hello there. ".repeat(50_000); // two of them take two crossings
    const counts = await countTokens(python, "models/tiny", ["", "Hello there. ", long, "", long, "42", "a\ud83dz"]);
    expect(counts).toHaveLength(7);
    expect(counts[0]).toBe(0);
    expect(counts[1]).toBeGreaterThan(1);
    expect(counts[2]).toBe(counts[4]);
    expect(counts[2]! / 50_000).toBeCloseTo(counts[1]!, -1);
    expect(counts[5]).toBe(2); // single digits are tokens
    expect(await countTokens(python, "models/tiny", [])).toEqual([]);
    await expect(countTokens(python, "./nowhere", ["a"])).rejects.toThrow(/nowhere/);
    expect(performance.now() - begin).toBeLessThan(100_000);
  } finally {
    await python.close();
  }
});
