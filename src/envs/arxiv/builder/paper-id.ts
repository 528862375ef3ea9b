// arXiv's two kinds of identifier: 2608.14528v1 (since April 2007) and hep-th/9901001v1 or math.GT/0309136v2 before.

export interface PaperId {
  /** With its archive, without its version. */
  base: string;
  version: number | null;
}

const NEW = /^(\d{4}\.\d{4,5})(?:v([1-9]\d*))?$/;
const OLD = /^([a-z][a-z-]*(?:\.[A-Za-z-]+)?\/\d{7})(?:v([1-9]\d*))?$/;

/** An id from an address of arXiv (`…/abs/…`, `…/pdf/…`) or as it stands; null where it is none. */
export function parsePaperId(text: string): PaperId | null {
  const id = text
    .trim()
    .replace(/^https?:\/\/[^/]+\/(?:abs|pdf)\//i, "")
    .replace(/^arxiv:/i, "")
    .replace(/\.pdf$/i, "");
  const match = NEW.exec(id) ?? OLD.exec(id);
  return match ? { base: match[1]!, version: match[2] ? Number(match[2]) : null } : null;
}

/** A name for files: an old id's slash would be a folder. */
export function fileName(id: string): string {
  return id.replaceAll("/", "_");
}
