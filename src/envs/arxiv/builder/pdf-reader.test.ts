import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inflateSync } from "node:zlib";
import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import { captionOf, findCaptions } from "./captions.ts";
import { makePdf, type PdfImage, textBlock } from "./fixtures/pdf.ts";
import { readPdf, UnreadablePdf } from "./pdf-reader.ts";
import { bodyLines, pageLines, type TextLine } from "./pdf-text.ts";
import { createThreadReader } from "./pdf-threads.ts";
import { encodePng, type Pixels } from "./png.ts";

const image = (changes: Partial<PdfImage> = {}): PdfImage => ({
  x: 100,
  y: 400,
  shown_width: 200,
  shown_height: 150,
  width: 128,
  height: 96,
  color: [200, 10, 30],
  ...changes,
});

describe("text", () => {
  test("lines in the order of writing, column by column; rotated text is left out", async () => {
    const left = textBlock("The left column has words that go on and on until they end.", 700, { letters: 30 });
    const right = textBlock("The right column comes after it.", 700, { letters: 30, x: 320 });
    const stamp = { x: 20, y: 300, size: 18, text: "arXiv:2608.1v1", rotated: true };
    const { lines } = await readPdf(makePdf([{ texts: [stamp, ...left, ...right] }]));
    expect(lines).toEqual([
      "The left column has words that",
      "go on and on until they end.",
      "The right column comes after",
      "it.",
    ]);
  });

  test("running heads and page numbers are left out", async () => {
    const pages = Array.from({ length: 4 }, (_, index) => ({
      texts: [
        { x: 72, y: 770, size: 8, text: `A Running Head, page ${index + 1} of 4` },
        { x: 72, y: 700, size: 10, text: `Only here: ${["one", "two", "three", "four"][index]}.` },
        { x: 300, y: 30, size: 8, text: String(index + 1) },
      ],
    }));
    expect((await readPdf(makePdf(pages))).lines).toEqual([
      "Only here: one.",
      "Only here: two.",
      "Only here: three.",
      "Only here: four.",
    ]);
  });

  test("pieces of a line are joined with the gaps that stand between them", () => {
    const piece = (str: string, x: number, y = 700, hasEOL = false) => ({
      str,
      transform: [10, 0, 0, 10, x, y],
      width: str.length * 5,
      hasEOL,
    });
    const text = (...pieces: ReturnType<typeof piece>[]) => pageLines(pieces).map((line) => line.text);
    expect(text(piece("ab", 72), piece("cd", 82))).toEqual(["abcd"]);
    expect(text(piece("ab", 72), piece("cd", 86))).toEqual(["ab cd"]);
    expect(text(piece("E = mc", 72), piece("2", 102, 703))).toEqual(["E = mc2"]);
    expect(text(piece("ab", 72, 700, true), piece("cd", 86))).toEqual(["ab", "cd"]);
    expect(text(piece("ab", 72), piece("cd", 72, 680))).toEqual(["ab", "cd"]);
    expect(text(piece("e\uFB03cient\u0000\uD800 x", 72))).toEqual(["efficient \uFFFD x"]);
    expect(text(piece(" ", 72), piece("", 80, 700, true))).toEqual([]);
  });

  test("what stands on few pages stays", () => {
    const line = (text: string): TextLine => ({ text, left: 0, right: 1, y: 0, size: 10 });
    expect(bodyLines([[line("Results")], [line("Results")]])).toEqual(["Results", "Results"]);
  });
});

describe("figures", () => {
  test("embedded images with their pages, sizes and captions", async () => {
    const { figures, pages } = await readPdf(
      makePdf([
        { texts: [], images: [image({ width: 95 })] },
        {
          texts: [
            ...textBlock("Figure 1: Left. It has two sentences that take more than a line of this page.", 390, {
              letters: 40,
              size: 9,
            }),
            { x: 400, y: 390, size: 9, text: "Fig. 2. Right." },
          ],
          images: [image(), image({ x: 380, color: [1, 2, 3] })],
        },
      ]),
    );
    expect(pages).toBe(2);
    expect(figures.map(({ png, ...figure }) => figure)).toEqual([
      {
        page: 2,
        width: 128,
        height: 96,
        caption: "Figure 1: Left. It has two sentences that take more than a line of this page.",
      },
      { page: 2, width: 128, height: 96, caption: "Fig. 2. Right." },
    ]);
    expect(pixelAt(figures[0]!.png)).toEqual([200, 10, 30]);
    expect(pixelAt(figures[1]!.png)).toEqual([1, 2, 3]);
  });

  test("one that is drawn again is one; eight at most", async () => {
    const colors = Array.from({ length: 10 }, (_, index) => [index, index, index] as const);
    const again = [
      { texts: [], images: [image(), image({ x: 300 })] },
      { texts: [], images: [image()] },
    ];
    expect((await readPdf(makePdf(again))).figures.length).toBe(1);
    const ten = colors.map((color) => ({ texts: [], images: [image({ color })] }));
    const { figures } = await readPdf(makePdf(ten));
    expect(figures.map(({ page }) => page)).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
  });

  test("none is a result too", async () => {
    expect((await readPdf(makePdf([{ texts: [] }]))).figures).toEqual([]);
  });
});

describe("captions", () => {
  const line = (text: string, y: number, left = 72, right = 300, size = 10): TextLine => ({
    text,
    left,
    right,
    y,
    size,
  });

  test.each([
    ["Figure 3: A.", true],
    ["Fig. 3. A.", true],
    ["FIG 3 | A", true],
    ["Figure 3 shows that", false],
    ["Figures 3 and 4", false],
    ["Table 3: A.", false],
  ])("'%s'", (text, is) => {
    expect(findCaptions([line(text, 100)]).length).toBe(is ? 1 : 0);
  });

  test("a block ends where the lines move apart, another size begins, or another caption does", () => {
    const block = (...lines: TextLine[]) => findCaptions(lines).map(({ text }) => text);
    const first = line("Figure 1: One", 100);
    expect(block(first, line("and more.", 88), line("Then text.", 60))).toEqual(["Figure 1: One and more."]);
    expect(block(first, line("Then text.", 88, 72, 300, 12))).toEqual(["Figure 1: One"]);
    expect(block(first, line("Other column", 88, 320, 500))).toEqual(["Figure 1: One"]);
    expect(block(first, line("Figure 2: Two", 88))).toEqual(["Figure 1: One", "Figure 2: Two"]);
  });

  test("the nearest one that overlaps from left to right", () => {
    const captions = findCaptions([
      line("Figure 1: near, another column", 190, 320, 500),
      line("Figure 2: below", 150),
      line("Figure 3: far below", 20),
      line("Figure 4: above", 700),
    ]);
    expect(captionOf({ left: 100, right: 200, bottom: 200, top: 400 }, captions)).toBe("Figure 2: below");
    expect(captionOf({ left: 100, right: 200, bottom: 500, top: 690 }, captions)).toBe("Figure 4: above");
    expect(captionOf({ left: 510, right: 600, bottom: 200, top: 400 }, captions)).toBe("");
  });
});

describe("broken PDFs", () => {
  const good = makePdf([{ texts: textBlock("Words.", 700), images: [image()] }]);

  test.each([
    ["words", Buffer.from("%PDF-1.4 and then nothing of the kind")],
    ["nothing", Buffer.alloc(0)],
    ["zeros", Buffer.alloc(1000)],
  ])("%s", async (_, data) => {
    await expect(readPdf(new Uint8Array(data))).rejects.toThrow(UnreadablePdf);
  });

  test("whatever is changed in one, it is read or refused", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(fc.nat(good.length - 1), fc.nat(255)), { maxLength: 20 }), async (changes) => {
        const data = new Uint8Array(good);
        for (const [at, byte] of changes) data[at] = byte;
        const reading = await readPdf(data).catch((error: unknown) => error);
        if (!(reading instanceof UnreadablePdf)) expect(reading).toHaveProperty("figures");
      }),
      { numRuns: 60 },
    );
  });
});

describe("in a thread", () => {
  const folder = mkdtempSync(join(tmpdir(), "pdf-threads-"));
  const file = (name: string, data: Uint8Array): string => {
    writeFileSync(join(folder, name), data);
    return join(folder, name);
  };
  const good = file("good.pdf", makePdf([{ texts: textBlock("Words.", 700), images: [image()] }]));
  afterAll(() => rmSync(folder, { recursive: true }));

  test("one after the other, the broken ones too", async () => {
    const reader = createThreadReader({ timeout_ms: 60_000, memory_mb: 512 });
    try {
      const first = await reader.read(good);
      expect(first.lines).toEqual(["Words."]);
      expect(pixelAt(first.figures[0]!.png)).toEqual([200, 10, 30]);
      await expect(reader.read(file("bad.pdf", Buffer.from("no")))).rejects.toThrow(UnreadablePdf);
      expect((await reader.read(good)).pages).toBe(1);
    } finally {
      await reader.close();
    }
  });

  test("one that takes too long, or all memory, costs itself alone", async () => {
    const hasty = createThreadReader({ timeout_ms: 1, memory_mb: 512 });
    await expect(hasty.read(good)).rejects.toThrow(/reading it took longer than 0\.001 s/);
    await hasty.close();
    const pages = Array.from({ length: 300 }, () => ({
      texts: textBlock("Many words. ".repeat(300), 790, { size: 2 }),
    }));
    const heavy = file("heavy.pdf", makePdf(pages));
    const narrow = createThreadReader({ timeout_ms: 60_000, memory_mb: 16 });
    try {
      await expect(narrow.read(heavy)).rejects.toThrow(/reading it failed: .*memory/);
    } finally {
      await narrow.close();
    }
  });
});

/** The first pixel of an RGB picture. */
function pixelAt(png: Uint8Array): number[] {
  const buffer = Buffer.from(png);
  const at = buffer.indexOf("IDAT");
  const raw = inflateSync(buffer.subarray(at + 4, at + 4 + buffer.readUInt32BE(at - 4)));
  return [...raw.subarray(1, 4)];
}

test("a PNG holds the pixels it was given, whatever they are", () => {
  fc.assert(
    fc.property(
      fc.constantFrom<Pixels["channels"]>("gray1", "rgb", "rgba"),
      fc.integer({ min: 1, max: 20 }),
      fc.integer({ min: 1, max: 20 }),
      fc.uint8Array({ minLength: 1600, maxLength: 1600 }),
      (channels, width, height, bytes) => {
        const row = { gray1: Math.ceil(width / 8), rgb: 3 * width, rgba: 4 * width }[channels];
        const data = bytes.subarray(0, row * height);
        const png = Buffer.from(encodePng({ width, height, channels, data }));
        expect(png.readUInt32BE(16)).toBe(width);
        const raw = inflateSync(png.subarray(png.indexOf("IDAT") + 4, png.indexOf("IEND") - 8));
        for (let y = 0; y < height; y++)
          expect([...raw.subarray(y * (row + 1) + 1, (y + 1) * (row + 1))]).toEqual([
            ...data.subarray(y * row, (y + 1) * row),
          ]);
      },
    ),
  );
  // The check value of PNG's own last chunk, as every file ends.
  const png = encodePng({ width: 1, height: 1, channels: "rgb", data: new Uint8Array(3) });
  expect(Buffer.from(png.subarray(-12)).toString("hex")).toBe("0000000049454e44ae426082");
});
