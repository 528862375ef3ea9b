import { createHash } from "node:crypto";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { fakeClock } from "./fixtures/fake-clock.ts";
import { createHttp } from "./http.ts";
import { downloadPdf } from "./pdf-download.ts";

const content = Buffer.from(`%PDF-1.4\n${"0123456789".repeat(2000)}\n%%EOF\n`);
const hash = createHash("sha256").update(content).digest("hex");
const folder = mkdtempSync(join(tmpdir(), "pdf-download-"));

type Serve = (request: IncomingMessage, response: ServerResponse) => void;
/** Answers in turn; the last one stays. */
let serves: Serve[] = [];
let ranges: (string | undefined)[] = [];
const server = createServer((request, response) => {
  ranges.push(request.headers.range);
  (serves.length > 1 ? serves.shift()! : serves[0]!)(request, response);
});
let path = "";
let files = 0;

beforeAll(() => new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve)));
afterAll(() => {
  server.closeAllConnections();
  server.close();
  rmSync(folder, { recursive: true });
});
beforeEach(() => {
  path = join(folder, `${++files}`, "p.pdf");
  ranges = [];
});

const PDF = { "content-type": "application/pdf" };

/** Sends so many bytes of the whole, then breaks the connection. */
const broken =
  (bytes: number, headers: Record<string, string> = {}): Serve =>
  (_, response) => {
    response.writeHead(200, { ...PDF, "content-length": content.length, ...headers });
    response.write(content.subarray(0, bytes), () => setTimeout(() => response.destroy(), 10));
  };

const whole: Serve = (_, response) =>
  response.writeHead(200, { ...PDF, "content-length": content.length }).end(content);

/** Goes on where it is asked to, if the file is still the one of that mark. */
const resuming =
  (mark: string, header = "etag"): Serve =>
  (request, response) => {
    const start = Number(/bytes=(\d+)-/.exec(request.headers.range ?? "")?.[1] ?? 0);
    if (start === 0 || request.headers["if-range"] !== mark) {
      response.writeHead(200, { ...PDF, "content-length": content.length, [header]: mark }).end(content);
      return;
    }
    response
      .writeHead(206, { ...PDF, "content-range": `bytes ${start}-${content.length - 1}/${content.length}` })
      .end(content.subarray(start));
  };

function download(options: { limit_bytes?: number; retries?: number } = {}) {
  const http = createHttp({ clock: fakeClock(), interval_ms: 0, timeout_ms: 5000, retries: 2, tell: () => {} });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/pdf/x`;
  return downloadPdf(http, { url, path, what: "PDF of x", limit_bytes: 1_000_000, ...options });
}

/** What stands beside the file. */
const beside = () => readdirSync(join(path, "..")).filter((name) => name !== "p.pdf");

test("the file, its hash, and nothing beside it; a second time it is not asked for", async () => {
  serves = [whole];
  expect(await download()).toEqual({ sha256: hash, size_bytes: content.length });
  expect(readFileSync(path).equals(content)).toBe(true);
  expect(beside()).toEqual([]);
  await download();
  expect(ranges.length).toBe(1);
});

describe("goes on", () => {
  test.each([
    ["etag", '"v1"'],
    ["last-modified", "Thu, 20 Aug 2026 10:00:00 GMT"],
  ])("where it broke off, by %s", async (header, mark) => {
    serves = [broken(7000, { [header]: mark }), resuming(mark, header)];
    expect((await download()).sha256).toBe(hash);
    expect(ranges).toEqual([undefined, "bytes=7000-"]);
    expect(beside()).toEqual([]);
  });

  test("after another process was killed in the middle", async () => {
    serves = [broken(7000, { etag: '"v1"' })];
    await expect(download({ retries: 0 })).rejects.toThrow(/PDF of x: the connection failed/);
    expect(existsSync(path)).toBe(false);
    expect(beside().sort()).toEqual(["p.pdf.part", "p.pdf.part.version"]);
    serves = [resuming('"v1"')];
    expect((await download()).sha256).toBe(hash);
    expect(ranges.at(-1)).toBe("bytes=7000-");
  });

  test.each([
    ["the server has another version now", [broken(7000, { etag: '"v0"' }), resuming('"v1"')], "bytes=7000-"],
    ["the mark is weak", [broken(7000, { etag: 'W/"v1"' }), resuming('"v1"')], undefined],
    ["there is no mark", [broken(7000), whole], undefined],
  ] as const)("from the start, where %s", async (_, list, second) => {
    serves = [...list];
    expect((await download()).sha256).toBe(hash);
    expect(ranges).toEqual([undefined, second]);
  });

  test("from the start, where the rest is of another place or not to be had", async () => {
    const wrong: Serve = (_, response) =>
      response.writeHead(206, { ...PDF, "content-range": `bytes 5-9/${content.length}` }).end("45678");
    const gone: Serve = (_, response) => response.writeHead(416).end();
    for (const second of [wrong, gone]) {
      rmSync(path, { force: true });
      ranges = [];
      serves = [broken(7000, { etag: '"v1"' }), second, whole];
      expect((await download()).sha256).toBe(hash);
      expect(ranges).toEqual([undefined, "bytes=7000-", undefined]);
    }
  });
});

describe("refuses", () => {
  const status =
    (code: number): Serve =>
    (_, response) =>
      response.writeHead(code).end();

  test.each([404, 410])("HTTP %i: there is none, and that is final", async (code) => {
    serves = [status(code)];
    await expect(download()).rejects.toThrow(`arXiv has no PDF of it (HTTP ${code})`);
    expect(ranges.length).toBe(1);
  });

  test("HTTP 403 stops the build", async () => {
    serves = [status(403)];
    await expect(download()).rejects.toThrow(/PDF of x: HTTP 403 .*block/);
    expect(ranges.length).toBe(1);
  });

  test.each([
    ["told", { "content-length": String(content.length) }],
    ["not told", {}],
  ])("more than the limit, its length %s", async (_, headers) => {
    serves = [(_, response) => response.writeHead(200, { ...PDF, ...headers }).end(content)];
    await expect(download({ limit_bytes: 5000 })).rejects.toThrow(/the PDF has 0\.0 MB or more, the limit is 0\.0/);
    expect(beside()).toEqual([]);
    expect(ranges.length).toBe(1);
  });

  test.each<[string, RegExp, Serve]>([
    [
      "a page instead",
      /it is 'text\/html', not a PDF/,
      (_, response) => response.writeHead(200, { "content-type": "text/html" }).end("<html>"),
    ],
    ["other content", /its content is no PDF/, (_, response) => response.writeHead(200, PDF).end("hello".repeat(99))],
    ["nothing", /its content is no PDF/, (_, response) => response.writeHead(200, PDF).end()],
    [
      "half of it without a word",
      /cut short after 10000 bytes/,
      (_, response) => response.writeHead(200, PDF).end(content.subarray(0, 10_000)),
    ],
    ["a status nobody asked for", /HTTP 202, which was not asked for/, status(202)],
  ])("%s, and tries again", async (_, message, serve) => {
    serves = [serve];
    await expect(download()).rejects.toThrow(message);
    expect(ranges.length).toBe(3);
    expect(existsSync(path)).toBe(false);
    serves = [whole];
    expect((await download()).sha256).toBe(hash);
  });

  test("a full disk is no fault of the network", async () => {
    serves = [whole];
    writeFileSync(join(folder, "file"), "");
    path = join(folder, "file", "p.pdf");
    await expect(download()).rejects.toThrow(/ENOTDIR|EEXIST/);
    expect(ranges.length).toBe(0);
  });
});
