import { z } from "zod";
import { requireKnown, requirePaper } from "../refs.ts";
import { counted, isDownloaded, withActive, withPdf, withTranslation } from "../state.ts";
import type { TranslateAsset, TranslateTask } from "../types.ts";
import { arxivTool, input, REF_DESCRIPTION, ref, whole } from "./define.ts";
import { STUB_TIME, stubPdf } from "./download-arxiv-pdf.ts";

export const translateArxivPdf = arxivTool({
  name: "translate_arxiv_pdf",
  description: "Translate a paper's PDF; it is downloaded first if need be.",
  input: input({
    ref: ref.default(null).describe(REF_DESCRIPTION),
    force: z.boolean().default(false).describe("Translate again even if it was done."),
    service: z.string().min(1).default("bing").describe("Translation service, such as bing or google."),
    threads: whole(z.int().min(1).max(32).default(4)).describe("Parallel threads."),
    keep_dual: z.boolean().default(false).describe("Also keep a bilingual PDF."),
    paper_id: z.string().nullable().default(null).describe("Id; goes before ref."),
    pdf_url: z.string().nullable().default(null).describe("Another address of the PDF."),
    input_pdf_path: z.string().nullable().default(null).describe("A PDF that is already here."),
  }),
  writes: true,
  // Offline, the translation is done at once.
  run(state, { ref, force, service, threads, keep_dual, paper_id, pdf_url, input_pdf_path }) {
    const paper = paper_id === null ? requirePaper(state, ref) : requireKnown(state, paper_id);
    const pdf = isDownloaded(state, paper.id) ? state.pdf[paper.id]! : stubPdf(paper);
    const existed = Object.hasOwn(state.translated, paper.id) && !force;
    const asset: TranslateAsset = {
      paper_id: paper.id,
      input_pdf_path: input_pdf_path ?? pdf.local_path,
      output_mono_path: `translated/${paper.id}-mono.pdf`,
      output_dual_path: keep_dual ? `translated/${paper.id}-dual.pdf` : null,
      status: "READY",
      service,
      threads,
      translated_at: STUB_TIME,
      updated_at: STUB_TIME,
      error: null,
    };
    const task: TranslateTask = {
      task_id: `task${String(state.translate_tasks.length + 1).padStart(4, "0")}`,
      session_id: state.session_id,
      paper_id: paper.id,
      status: "SUCCEEDED",
      progress: 1,
      input_pdf_url: pdf_url ?? pdf.pdf_url,
      input_pdf_path: asset.input_pdf_path,
      output_pdf_path: asset.output_mono_path,
      error: null,
      meta: {},
    };
    const next = withTranslation(withActive(withPdf(state, pdf), paper.id), task, asset);
    return {
      state: counted(next, "offline_stubs"),
      output: {
        task_id: task.task_id,
        paper_id: paper.id,
        status: asset.status,
        offline: true,
        force,
        existed,
        service,
        threads,
        keep_dual,
      },
    };
  },
});
