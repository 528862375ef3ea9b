import { z } from "zod";
import { requirePaperOrLast } from "../refs.ts";
import { counted, isDownloaded, withActive, withPdf } from "../state.ts";
import type { Paper, PdfAsset } from "../types.ts";
import { arxivTool, input, REF_DESCRIPTION, ref } from "./define.ts";

/** What the PDF of an offline session would hold. Its length is reported; the file is never written. */
const STUB_PDF = "%PDF-1.4\n% stands in for a real paper\n";

/** Files that are never written have no time of their own. */
export const STUB_TIME = "2000-01-01 00:00:00";

export const downloadArxivPdf = arxivTool({
  name: "download_arxiv_pdf",
  description: "Download a paper's PDF.",
  input: input({
    ref: ref.default(1).describe(REF_DESCRIPTION),
    force: z.boolean().default(false).describe("Download again even if it is there."),
  }),
  writes: true,
  run(state, { ref, force }) {
    const paper = requirePaperOrLast(state, ref);
    const existed = isDownloaded(state, paper.id) && !force;
    const asset = stubPdf(paper);
    const next = counted(withActive(withPdf(state, asset), paper.id), "offline_stubs");
    const { paper_id, pdf_url, local_path, status, size_bytes, sha256 } = asset;
    return {
      state: next,
      output: {
        session_id: state.session_id,
        paper_id,
        pdf_url,
        local_path,
        status,
        offline: true,
        force,
        existed,
        size_bytes,
        sha256,
      },
    };
  },
});

export function stubPdf(paper: Paper): PdfAsset {
  return {
    paper_id: paper.id,
    pdf_url: paper.pdf_url,
    local_path: `pdf/${paper.id}.pdf`,
    status: "READY",
    size_bytes: STUB_PDF.length,
    sha256: null,
    downloaded_at: STUB_TIME,
    updated_at: STUB_TIME,
    error: null,
  };
}
