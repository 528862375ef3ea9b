import { existsSync } from "node:fs";
import { z } from "zod";
import { errorText } from "../../../core/errors.ts";
import { writeWhole } from "../../../core/whole-file.ts";
import type { FigureRecord, Section, Snapshot } from "../snapshot.ts";
import { answersOf, summariesOf } from "../summaries.ts";
import type { Entry } from "./atom.ts";
import type { Clock } from "./clock.ts";
import { type BuildFolder, figurePath } from "./folder.ts";
import { BuildStopped, type Http, Refused } from "./http.ts";
import { downloadPdf, type PdfFile } from "./pdf-download.ts";
import { UnreadablePdf } from "./pdf-reader.ts";
import type { PdfReader } from "./pdf-threads.ts";
import { findSections } from "./sections.ts";
import type { BuildSettings } from "./settings.ts";

// What a paper's PDF gives: sections, figures, and from them summaries and answers.

export interface ContentBuild {
  http: Http;
  folder: BuildFolder;
  settings: BuildSettings;
  /** The snapshot that is being built: figures lie beside it. */
  output: string;
  reader: PdfReader;
  clock: Clock;
}

/** Raised when what is read out of a PDF changes: what older builds kept is read again. */
const EXTRACTOR = 1;

const readingSchema = z.strictObject({
  sections: z.strictObject({
    method: z.string().optional(),
    result: z.string().optional(),
    conclusion: z.string().optional(),
  }),
  figures: z.array(
    z.strictObject({ page: z.int(), width: z.int(), height: z.int(), caption: z.string(), file: z.string() }),
  ),
});

export interface PaperContent {
  content: Snapshot["content"][string];
  summary: Snapshot["summary"][string];
  figures: Snapshot["figures"][string];
  figure_qa: Snapshot["figure_qa"][string];
  /** Null where there is no PDF that can be read. */
  pdf: PdfFile | null;
  /** Why there is none. */
  without_pdf: string | null;
}

/**
 * Downloads PDFs ahead, several at once, until the budget of time is used up. What fails here is tried again in turn.
 */
export async function prefetchPdfs(build: ContentBuild, ids: readonly string[]): Promise<void> {
  const { settings, clock, folder } = build;
  const end_ms = clock.now_ms() + settings.prefetch_budget_s * 1000;
  const waiting = ids.filter((id) => !existsSync(folder.pdfPath(id)));
  async function work(): Promise<void> {
    for (let id = waiting.shift(); id !== undefined; id = waiting.shift()) {
      if (clock.now_ms() >= end_ms) return;
      try {
        await download(build, id, 0);
      } catch (error) {
        if (!(error instanceof BuildStopped || error instanceof Refused)) throw error;
      }
    }
  }
  await Promise.all(Array.from({ length: settings.content_workers }, work));
}

/**
 * All that a snapshot records of a paper. Where arXiv has no PDF, or none that can be read, it is made from the abstract.
 * @throws BuildStopped where the PDF can't be had now, unless partial results are allowed
 */
export async function recordContent(build: ContentBuild, { paper, abstract }: Entry): Promise<PaperContent> {
  let reading: z.output<typeof readingSchema> = { sections: {}, figures: [] };
  let pdf: PdfFile | null = null;
  let without_pdf: string | null = null;
  try {
    const file = await download(build, paper.id);
    reading = await readKept(build, paper.id, file.sha256);
    pdf = file;
  } catch (error) {
    const passed_over =
      error instanceof Refused ||
      error instanceof UnreadablePdf ||
      (error instanceof BuildStopped && build.settings.allow_partial);
    if (!passed_over) throw error;
    without_pdf = errorText(error);
  }
  const { sections } = reading;
  const figures = reading.figures.map(({ file, ...figure }, index): FigureRecord => {
    return { figure_no: index + 1, ...figure, path: file };
  });
  const told: Partial<Record<Section, string>> = { abstract: abstract || paper.title, ...sections };
  return {
    content: {
      default: `${paper.title}\n\n${abstract}`.trim(),
      ...(abstract ? { abstract } : {}),
      ...sections,
    },
    summary: summariesOf(told, "skip"),
    figures: { count: figures.length, figures },
    figure_qa: answersOf(figures),
    pdf,
    without_pdf,
  };
}

function download({ http, folder, settings }: ContentBuild, id: string, retries?: number): Promise<PdfFile> {
  return downloadPdf(http, {
    url: `${settings.base_url}/pdf/${id}`,
    path: folder.pdfPath(id),
    what: `PDF of ${id}`,
    limit_bytes: settings.max_pdf_mb * 1_000_000,
    retries,
  });
}

/** What the PDF says, read once for all times that a build goes on. */
async function readKept({ folder, output, reader }: ContentBuild, id: string, pdf_sha256: string) {
  const whole = readingSchema.refine(({ figures }) =>
    figures.every((_, index) => existsSync(figurePath(output, id, index + 1).file)),
  );
  return folder.keep("texts", { id, pdf_sha256, extractor: EXTRACTOR }, whole, async () => {
    const { lines, figures } = await reader.read(folder.pdfPath(id));
    return {
      sections: findSections(lines),
      figures: figures.map(({ png, ...figure }, index) => {
        const { file, path } = figurePath(output, id, index + 1);
        writeWhole(file, png);
        return { ...figure, file: path };
      }),
    };
  });
}
