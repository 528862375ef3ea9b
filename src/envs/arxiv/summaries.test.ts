import { describe, expect, test } from "vitest";
import { generateSnapshot } from "./snapshot-generator.ts";
import { answerFromCaption, summarize } from "./summaries.ts";

const good = generateSnapshot();

describe("extractive texts", () => {
  const sections = {
    abstract: "One two three four five six. See https://a.b for more of it all.",
    method: "A method has exactly six words. Too short here. Seven more words stand in this line.",
  };

  test.each(["tldr", "structured", "bullet"] as const)("a %s summary keeps to its budget", (style) => {
    for (const budget of [60, 120, 250]) {
      const { summary } = summarize(good.content["2608.14528v1"]!, style, budget);
      const words = summary.replace(/^(- |\w+: )/gm, "").split(/\s+/);
      expect(words.length).toBeLessThanOrEqual(budget);
      expect(words.length).toBeGreaterThan(20);
    }
  });

  test("sentences with an address or fewer than five words say nothing", () => {
    expect(summarize(sections, "bullet", 60)).toEqual({
      summary:
        "- One two three four five six.\n- A method has exactly six words.\n- Seven more words stand in this line.",
      sections_used: ["abstract", "method"],
      backend: "extractive",
    });
  });

  test("a figure's answer comes from its caption, or says that the caption does not tell", () => {
    const caption = "Figure 2: Loss by step. The x axis shows steps. It falls.";
    expect(answerFromCaption(caption, "describe")).toBe("Loss by step. The x axis shows steps.");
    expect(answerFromCaption(caption, "axes")).toBe("The x axis shows steps.");
    expect(answerFromCaption(caption, "trend")).toBe("It falls.");
    expect(answerFromCaption("Figure 1: A drawing.", "axes")).toBe("The caption names no axes.");
    expect(answerFromCaption("Figure 1: A drawing.", "trend")).toBe("The caption tells of no trend.");
  });
});
