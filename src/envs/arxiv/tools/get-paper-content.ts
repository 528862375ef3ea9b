import { z } from "zod";
import { recordedContent } from "../replay.ts";
import { SECTIONS } from "../snapshot.ts";
import { counted, withActive } from "../state.ts";
import { arxivTool, input, oneOf, REF_DESCRIPTION, ref, word } from "./define.ts";
import { requireDownloaded } from "./reading.ts";

export const getPaperContent = arxivTool({
  name: "get_paper_content",
  description: "Read a downloaded paper: title and abstract, or one section.",
  input: input({
    ref: ref.default(1).describe(REF_DESCRIPTION),
    section: word(
      z
        .enum(SECTIONS, { error: oneOf([...SECTIONS, "null"]) })
        .nullable()
        .default(null),
    ).describe("Section; null is title and abstract."),
  }),
  writes: true, // it becomes the paper used last
  run(state, { ref, section }) {
    const paper = requireDownloaded(state, ref);
    const content = recordedContent(state.snapshot, paper.id, section);
    return {
      state: counted(withActive(state, paper.id), "hit"),
      output: { paper_id: paper.id, title: paper.title, section, content },
    };
  },
});
