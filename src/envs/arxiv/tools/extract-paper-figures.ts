import { recordedFigures } from "../replay.ts";
import { counted, withActive } from "../state.ts";
import { arxivTool, input, REF_DESCRIPTION, ref } from "./define.ts";
import { requireDownloaded } from "./reading.ts";

export const extractPaperFigures = arxivTool({
  name: "extract_paper_figures",
  description: "List the figures of a downloaded paper.",
  input: input({ ref: ref.default(1).describe(REF_DESCRIPTION) }),
  writes: true, // it becomes the paper used last
  run(state, { ref }) {
    const paper = requireDownloaded(state, ref);
    const { count, figures } = recordedFigures(state.snapshot, paper.id);
    return {
      state: counted(withActive(state, paper.id), "hit"),
      output: { paper_id: paper.id, title: paper.title, count, output_dir: `figures/${paper.id}`, figures },
    };
  },
});
