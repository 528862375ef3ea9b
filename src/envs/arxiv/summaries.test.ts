import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { generateSnapshot } from "./snapshot-generator.ts";
import { answerFromCaption, sentences, summarize } from "./summaries.ts";

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

  test("a sentence over the budget ends its section, or is passed over", () => {
    const long = `${"word ".repeat(70).trim()}. Five words stand here now. ${"more ".repeat(9).trim()}.`;
    const taken = (mode: "stop" | "skip") => summarize({ abstract: long }, "tldr", 60, mode).summary;
    expect(taken("stop")).toBe(`${"word ".repeat(60).trim()}...`); // nothing fits: the first one, cut
    expect(taken("skip")).toBe(`Five words stand here now. ${"more ".repeat(9).trim()}.`);
    const cut = summarize(
      { method: `${"a b ".repeat(40).trim()}.`, result: "Six words are all it takes." },
      "structured",
      60,
      "skip",
    );
    expect(cut.summary).toBe(`Method: ${"a b ".repeat(15).trim()}...\nResult: Six words are all it takes.`);
    expect(cut.sections_used).toEqual(["method", "result"]);
  });

  test("whatever the text, a summary keeps to its budget and is not empty", () => {
    const words = fc.array(fc.constantFrom("a", "word", "end.", "https://x.y", "Fig.", "3", "why?"), {
      minLength: 1,
      maxLength: 200,
    });
    const some = fc.record({ abstract: words, method: words, result: words, conclusion: words }, { requiredKeys: [] });
    fc.assert(
      fc.property(
        some.filter((sections) => Object.keys(sections).length > 0),
        fc.constantFrom("tldr", "structured", "bullet"),
        fc.constantFrom(60, 120, 250),
        fc.constantFrom("stop", "skip"),
        (sections, style, budget, mode) => {
          const texts = Object.fromEntries(Object.entries(sections).map(([name, list]) => [name, list.join(" ")]));
          const { summary } = summarize(texts, style, budget, mode);
          const count = summary.replace(/^(- |[A-Z]\w+: )/gm, "").split(/\s+/).length;
          expect(summary).not.toBe("");
          expect(count).toBeLessThanOrEqual(budget);
        },
      ),
    );
  });

  test("a full stop after an abbreviation or an initial ends no sentence", () => {
    expect(sentences("See Fig. 3 and Eq. 4. A. Smith et al. show it, e.g. here. Is it so? Yes.")).toEqual([
      "See Fig. 3 and Eq. 4.",
      "A. Smith et al. show it, e.g. here.",
      "Is it so?",
      "Yes.",
    ]);
  });

  test("a figure's answer comes from its caption, or says that the caption does not tell", () => {
    const caption = "Figure 2: Loss by step. The x axis shows steps. It falls.";
    expect(answerFromCaption(caption, "describe")).toBe("Loss by step. The x axis shows steps.");
    expect(answerFromCaption(caption, "axes")).toBe("The x axis shows steps.");
    expect(answerFromCaption(caption, "trend")).toBe("It falls.");
    expect(answerFromCaption("Figure 1: A drawing.", "axes")).toBe("The caption names no axes.");
    expect(answerFromCaption("Fig. 12. Accuracy versus depth. It saturates.", "axes")).toBe("Accuracy versus depth.");
    expect(answerFromCaption("Fig. 12. Accuracy versus depth. It saturates.", "trend")).toBe("It saturates.");
    expect(answerFromCaption("", "describe")).toBe("The figure has no caption that tells.");
    expect(answerFromCaption("Figure 1: A drawing.", "trend")).toBe("The caption tells of no trend.");
  });
});
