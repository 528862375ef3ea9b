import { deflateSync } from "node:zlib";

/** Pixels as pdf.js gives them, rows from the top. */
export interface Pixels {
  width: number;
  height: number;
  /** Gray: a bit a pixel, rows filled up to bytes, 1 is white. Otherwise a byte a channel. */
  channels: "gray1" | "rgb" | "rgba";
  data: Uint8Array;
}

const COLOR_TYPE = { gray1: 0, rgb: 2, rgba: 6 } as const;

/** Bytes of a row. */
export function rowBytes({ width, channels }: Pick<Pixels, "width" | "channels">): number {
  return { gray1: Math.ceil(width / 8), rgb: 3 * width, rgba: 4 * width }[channels];
}

/** A PNG file (ISO/IEC 15948), without filters or interlacing. `data` must hold all rows. */
export function encodePng(pixels: Pixels): Uint8Array {
  const { width, height, channels, data } = pixels;
  const row = rowBytes(pixels);
  const raw = Buffer.alloc((row + 1) * height); // each row begins with its filter: 0, none
  for (let y = 0; y < height; y++) raw.set(data.subarray(y * row, (y + 1) * row), y * (row + 1) + 1);
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([channels === "gray1" ? 1 : 8, COLOR_TYPE[channels]], 8);
  return Buffer.concat([
    Buffer.from("\x89PNG\r\n\x1a\n", "latin1"),
    chunk("IHDR", header),
    chunk("IDAT", deflateSync(raw)),
    chunk("IEND", Buffer.alloc(0)),
  ]);
}

function chunk(type: string, data: Uint8Array): Buffer {
  const body = Buffer.concat([Buffer.from(type, "latin1"), data]);
  const whole = Buffer.alloc(body.length + 8);
  whole.writeUInt32BE(data.length, 0);
  whole.set(body, 4);
  whole.writeUInt32BE(crc32(body), body.length + 4);
  return whole;
}

const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? 0xedb88320 ^ (crc >>> 1) : crc >>> 1;
  return crc;
});

function crc32(data: Uint8Array): number {
  let crc = 0xffffffff;
  for (const byte of data) crc = CRC_TABLE[(crc ^ byte) & 255]! ^ (crc >>> 8);
  return (crc ^ 0xffffffff) >>> 0;
}
