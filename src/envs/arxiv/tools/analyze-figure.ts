import { z } from "zod";
import { recordedAnswer } from "../replay.ts";
import { FIGURE_QUESTIONS } from "../snapshot.ts";
import { counted, withActive } from "../state.ts";
import { arxivTool, input, oneOf, REF_DESCRIPTION, ref, whole, word } from "./define.ts";
import { requireDownloaded } from "./reading.ts";

export const analyzeFigure = arxivTool({
  name: "analyze_figure",
  description: "Answer a question about a figure of a downloaded paper.",
  input: input({
    ref: ref.default(1).describe(REF_DESCRIPTION),
    figure_no: whole(z.int().min(1).max(8).default(1)).describe("Number of the figure."),
    question: word(z.enum(FIGURE_QUESTIONS, { error: oneOf(FIGURE_QUESTIONS) }).default("describe")).describe(
      "What to tell.",
    ),
  }),
  writes: true, // it becomes the paper used last
  run(state, { ref, figure_no, question }) {
    const paper = requireDownloaded(state, ref);
    const { figure, answer } = recordedAnswer(state.snapshot, paper.id, figure_no, question);
    return {
      state: counted(withActive(state, paper.id), "hit"),
      output: {
        answer: answer.answer,
        paper_id: paper.id,
        figure_no,
        page: figure.page,
        question,
        backend: answer.backend,
        image_path: figure.path,
      },
    };
  },
});
