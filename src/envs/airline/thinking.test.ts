import fc from "fast-check";
import { expect, test } from "vitest";
import { withoutThinking } from "./thinking.ts";

test.each([
  ["<think>maybe ###STOP###</think>Hello", "Hello"],
  ["a <think>x</think> b <thinking>y</thinking> c", "a  b  c"],
  ["hidden start</think>\n\nHello", "Hello"],
  ["said <think>x</think> but hidden</think> Hello", "Hello"],
  ["Hello <think>and no end", "Hello"],
  ["<THINK>x</Think>y", "y"],
  ["<think>a<think>b</think>c</think>d", "d"],
  ["<think>I write <think> here</think>c", "c"],
  ["<think></think>", ""],
  ["no tags, 1 < 2", "no tags, 1 < 2"],
  ["", ""],
])("%j leaves %j", (text, said) => {
  expect(withoutThinking(text)).toBe(said);
});

test("thinking is removed once and for all", () => {
  const pieces = fc.constantFrom("<think>", "</think>", "<thinking>", "</THINKING>", "a", " ", "\n", "<", "think>");
  fc.assert(
    fc.property(fc.array(pieces, { maxLength: 20 }), (parts) => {
      const said = withoutThinking(parts.join(""));
      fc.pre(!said.includes("<think")); // "<" and "think>" around a block make another
      expect(withoutThinking(said)).toBe(said);
    }),
  );
});

test("long rubbish is read in no time", () => {
  const begin = process.cpuUsage();
  for (const piece of ["<think>", "</think>", "<think></think>", "a</think>"])
    expect(withoutThinking(piece.repeat(50_000))).toBe("");
  expect(process.cpuUsage(begin).user / 1000).toBeLessThan(2000); // some ms; quadratic it would be minutes
});
