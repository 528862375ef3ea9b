import { createHash } from "node:crypto";
import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname } from "node:path";
import { writeWhole } from "../../../core/whole-file.ts";
import { type Answer, BuildStopped, Fault, type Http, Refused } from "./http.ts";

// Downloads a PDF into a file that is there whole or not at all. What came before a fault is kept beside it as `.part`,
// with the server's mark of that version, and asked on from there with a Range.

export interface PdfRequest {
  url: string;
  /** Where the file goes. One that is there already is not asked for. */
  path: string;
  /** How messages name it. */
  what: string;
  limit_bytes: number;
  retries?: number;
}

export interface PdfFile {
  sha256: string;
  size_bytes: number;
}

/**
 * @throws Refused where there is no such PDF or it is larger than the limit; BuildStopped where it can't be had now
 */
export async function downloadPdf(http: Http, request: PdfRequest): Promise<PdfFile> {
  const { path } = request;
  if (!existsSync(path)) {
    mkdirSync(dirname(path), { recursive: true });
    await http.ask({
      url: request.url,
      what: request.what,
      retries: request.retries,
      headers: () => ({ accept: "application/pdf", "accept-encoding": "identity", ...resumeHeaders(path) }),
      read: (answer) => receive(answer, request),
    });
  }
  const content = readFileSync(path);
  return { sha256: createHash("sha256").update(content).digest("hex"), size_bytes: content.length };
}

const part = (path: string): string => `${path}.part`;
/** Holds the ETag or the date of the version that the part is of. */
const mark = (path: string): string => `${path}.part.version`;

/** Asks for the rest of what is there, if it is still of the same version; nothing where all has to come anew. */
function resumeHeaders(path: string): Record<string, string> {
  if (!existsSync(part(path)) || !existsSync(mark(path))) return {};
  const size = statSync(part(path)).size;
  return size === 0 ? {} : { range: `bytes=${size}-`, "if-range": readFileSync(mark(path), "utf8") };
}

async function receive(answer: Answer, { path, what, url, limit_bytes }: PdfRequest): Promise<void> {
  const { status } = answer;
  if (status === 404 || status === 410) throw new Refused(`arXiv has no PDF of it (HTTP ${status})`);
  if (status === 416) {
    dropPart(path);
    throw new Fault("what is there of it does not fit the server's file any more");
  }
  if (status >= 400) throw new BuildStopped(`${what}: HTTP ${status} (${url}). Does arXiv block this address?`);
  const range = status === 206 ? contentRange(answer.header("content-range")) : null;
  if (status !== 200 && !range) throw new Fault(`HTTP ${status}, which was not asked for`);
  const type = answer.header("content-type") ?? "";
  if (!/pdf|octet-stream/i.test(type)) throw new Fault(`it is '${type}', not a PDF`);
  const have = range ? sizeOf(part(path)) : 0;
  if (range && range.start !== have) {
    dropPart(path);
    throw new Fault(`it goes on at byte ${range.start}, not at ${have}`);
  }
  const total = range ? range.total : lengthOf(answer);
  if (total !== null && total > limit_bytes) throw new Refused(tooLarge(total, limit_bytes));

  if (!range) begin(path, answer);
  const size = await append(answer, path, have, limit_bytes);
  if (total !== null && size !== total) {
    if (size > total) dropPart(path);
    throw new Fault(`it is cut short: ${size} of ${total} bytes`);
  }
  const content = readFileSync(part(path));
  if (!content.subarray(0, 1024).includes("%PDF-")) {
    dropPart(path);
    throw new Fault("its content is no PDF");
  }
  // Without a length only its own end tells that it is whole.
  if (total === null && !content.subarray(-2048).includes("%%EOF")) {
    dropPart(path);
    throw new Fault(`it is cut short after ${size} bytes`);
  }
  renameSync(part(path), path);
  rmSync(mark(path), { force: true });
}

/** An empty part, and the mark by which the rest of the same version can be asked for, where the server gives one. */
function begin(path: string, answer: Answer): void {
  dropPart(path);
  const etag = answer.header("etag");
  const version = etag && !etag.startsWith("W/") ? etag : answer.header("last-modified");
  if (version) writeWhole(mark(path), version);
}

async function append(answer: Answer, path: string, have: number, limit_bytes: number): Promise<number> {
  let size = have;
  const file = openSync(part(path), "a");
  try {
    for await (const piece of answer.body()) {
      size += piece.length;
      if (size > limit_bytes) throw new Refused(tooLarge(size, limit_bytes));
      writeFileSync(file, piece);
    }
    fsyncSync(file);
  } finally {
    closeSync(file);
    if (size > limit_bytes) dropPart(path);
  }
  return size;
}

function dropPart(path: string): void {
  rmSync(part(path), { force: true });
  rmSync(mark(path), { force: true });
}

function sizeOf(path: string): number {
  return existsSync(path) ? statSync(path).size : 0;
}

/** Of a body that comes as it is; null: not told. */
function lengthOf(answer: Answer): number | null {
  const encoding = answer.header("content-encoding");
  const length = answer.header("content-length");
  return length !== null && (encoding === null || encoding === "identity") ? Number(length) : null;
}

function contentRange(header: string | null): { start: number; total: number | null } | null {
  const match = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(header ?? "");
  return match ? { start: Number(match[1]), total: match[2] === "*" ? null : Number(match[2]) } : null;
}

function tooLarge(size: number, limit_bytes: number): string {
  const mb = (bytes: number) => (bytes / 1_000_000).toFixed(1);
  return `the PDF has ${mb(size)} MB or more, the limit is ${mb(limit_bytes)}`;
}
