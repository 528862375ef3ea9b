import { createHash } from "node:crypto";
import { getDocumentProxy, getResolvedPDFJS } from "unpdf";
import { errorText } from "../../../core/errors.ts";
import { type Box, captionOf, findCaptions } from "./captions.ts";
import { bodyLines, pageLines, type TextLine, type TextPiece } from "./pdf-text.ts";
import { encodePng, type Pixels, rowBytes } from "./png.ts";

// Text and figures of a PDF, by pdf.js. Figures are the raster images that it embeds; drawings of lines are none.
// unpdf stays at 1.3.2: the pdf.js of later ones needs more than Node 20 has, and then drops a page's pictures silently.

/** Figures of a paper at most. */
const MOST_FIGURES = 8;
/** Pixels that a figure has at least, on either side: smaller ones are icons. */
const SHORTEST_SIDE = 96;
/** Pixels of an image at most; larger ones are passed over. */
const LARGEST_IMAGE = 64_000_000;
/** Pages that are read: a book's first ones. */
const MOST_PAGES = 200;

export interface PdfFigure {
  page: number;
  /** Pixels, as the height. */
  width: number;
  height: number;
  /** "" where no caption was found. */
  caption: string;
  png: Uint8Array;
}

export interface PdfReading {
  pages: number;
  /** Running text. */
  lines: string[];
  figures: PdfFigure[];
}

/** A PDF that can't be read: broken, or locked by a password. */
export class UnreadablePdf extends Error {
  override name = "UnreadablePdf";
}

/** @throws UnreadablePdf */
export async function readPdf(data: Uint8Array): Promise<PdfReading> {
  try {
    return await read(data);
  } catch (error) {
    throw new UnreadablePdf(`the PDF can't be read: ${errorText(error)}`);
  }
}

type Document = Awaited<ReturnType<typeof getDocumentProxy>>;
type Page = Awaited<ReturnType<Document["getPage"]>>;

async function read(data: Uint8Array): Promise<PdfReading> {
  const document = await getDocumentProxy(data, { verbosity: 0, maxImageSize: LARGEST_IMAGE });
  try {
    const pages: TextLine[][] = [];
    const figures = new Map<string, PdfFigure>();
    for (let number = 1; number <= Math.min(document.numPages, MOST_PAGES); number++) {
      const page = await document.getPage(number);
      const { items } = await page.getTextContent();
      const lines = pageLines(items.filter((item): item is typeof item & TextPiece => "str" in item));
      pages.push(lines);
      if (figures.size < MOST_FIGURES) await addFigures(page, number, lines, figures);
      page.cleanup();
    }
    return { pages: document.numPages, lines: bodyLines(pages), figures: [...figures.values()].slice(0, MOST_FIGURES) };
  } finally {
    await document.destroy();
  }
}

/** Adds the page's images, those that are drawn again once. By their pixels: pdf.js names an object anew on each page. */
async function addFigures(page: Page, number: number, lines: readonly TextLine[], figures: Map<string, PdfFigure>) {
  const captions = findCaptions(lines);
  for (const { object, box } of await drawnImages(page)) {
    if (figures.size >= MOST_FIGURES) return;
    const pixels = readPixels(typeof object === "string" ? await pageObject(page, object) : object);
    if (!pixels || Math.min(pixels.width, pixels.height) < SHORTEST_SIDE) continue;
    const { width, height } = pixels;
    const key = createHash("sha256").update(`${width} ${height} ${pixels.channels} `).update(pixels.data).digest("hex");
    if (figures.has(key)) continue;
    figures.set(key, { page: number, width, height, caption: captionOf(box, captions), png: encodePng(pixels) });
  }
}

function pageObject(page: Page, name: string): Promise<unknown> {
  const objects = name.startsWith("g_") ? page.commonObjs : page.objs;
  return new Promise((resolve) => objects.get(name, resolve));
}

type Matrix = readonly [number, number, number, number, number, number];
const IDENTITY: Matrix = [1, 0, 0, 1, 0, 0];

/** What images a page draws and where: the unit square under the matrix of that moment. */
async function drawnImages(page: Page): Promise<{ object: unknown; box: Box }[]> {
  const { OPS } = await getResolvedPDFJS();
  const { fnArray, argsArray } = await page.getOperatorList();
  const drawn: { object: unknown; box: Box }[] = [];
  const saved: Matrix[] = [];
  let matrix = IDENTITY;
  for (const [index, operator] of fnArray.entries()) {
    const args = argsArray[index] as unknown[] | null;
    if (operator === OPS.save) saved.push(matrix);
    else if (operator === OPS.restore || operator === OPS.paintFormXObjectEnd) matrix = saved.pop() ?? IDENTITY;
    else if (operator === OPS.transform) matrix = multiply(matrix, args);
    else if (operator === OPS.paintFormXObjectBegin) {
      saved.push(matrix);
      if (args?.[0]) matrix = multiply(matrix, args[0]);
    } else if (operator === OPS.paintImageXObject || operator === OPS.paintInlineImageXObject)
      drawn.push({ object: args?.[0], box: unitSquare(matrix) });
  }
  return drawn;
}

function multiply([a, b, c, d, e, f]: Matrix, by: unknown): Matrix {
  const [g = 1, h = 0, i = 0, j = 1, k = 0, l = 0] = Array.from(by as ArrayLike<number>);
  return [a * g + c * h, b * g + d * h, a * i + c * j, b * i + d * j, a * k + c * l + e, b * k + d * l + f];
}

function unitSquare([a, b, c, d, e, f]: Matrix): Box {
  const xs = [e, e + a, e + c, e + a + c];
  const ys = [f, f + b, f + d, f + b + d];
  return { left: Math.min(...xs), right: Math.max(...xs), bottom: Math.min(...ys), top: Math.max(...ys) };
}

/** pdf.js: 1 is a bit a pixel, 2 RGB, 3 RGBA. Null for an image that it could not decode. */
function readPixels(value: unknown): Pixels | null {
  const { width, height, kind, data } = (value ?? {}) as Partial<Record<string, unknown>>;
  if (typeof width !== "number" || typeof height !== "number") return null;
  if (!(data instanceof Uint8Array || data instanceof Uint8ClampedArray)) return null;
  const channels = kind === 1 ? "gray1" : kind === 2 ? "rgb" : kind === 3 ? "rgba" : null;
  if (!channels) return null;
  const pixels = { width, height, channels, data: new Uint8Array(data.buffer, data.byteOffset, data.length) } as const;
  return data.length >= rowBytes(pixels) * height ? pixels : null;
}
