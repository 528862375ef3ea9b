import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { fakeClock } from "./fixtures/fake-clock.ts";
import { bodyText, createHttp, Fault, retryAfter } from "./http.ts";
import { createPacer } from "./pacer.ts";

type Reply = { status: number; headers?: Record<string, string>; body?: string };

let replies: Reply[] = [];
let arrivals: number[] = [];
let clock = fakeClock();
const server = createServer((_, response) => {
  arrivals.push(clock.now_ms());
  const { status, headers = {}, body = "" } = replies.shift() ?? { status: 200, body: "good" };
  response.writeHead(status, headers).end(body);
});
let url = "";

beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/x`;
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});

function client(options: { retries?: number; timeout_ms?: number } = {}) {
  clock = fakeClock();
  arrivals = [];
  const told: string[] = [];
  const http = createHttp({
    clock,
    interval_ms: 3000,
    timeout_ms: 45_000,
    retries: 3,
    tell: (line) => told.push(line),
    ...options,
  });
  const ask = (where = url) => http.ask({ url: where, what: "it", read: (answer) => bodyText(answer, 1000) });
  return { http, ask, told };
}

const gaps = () => arrivals.slice(1).map((at, index) => at - arrivals[index]!);

describe("waiting", () => {
  test("requests start 3 s apart", async () => {
    const { ask } = client();
    for (let count = 0; count < 3; count++) expect(await ask()).toBe("good");
    expect(gaps()).toEqual([3000, 3000]);
  });

  test("AX-03: a 429 with Retry-After: 7 is waited out, and never an answer", async () => {
    const { ask, told } = client();
    replies = [{ status: 429, headers: { "retry-after": "7" }, body: "" }];
    expect(await ask()).toBe("good");
    expect(gaps()[0]).toBeGreaterThanOrEqual(7000);
    expect(told).toEqual(["it: HTTP 429; again in 7 s"]);
  });

  test("without it the wait doubles", async () => {
    const { ask } = client();
    replies = [{ status: 500 }, { status: 503 }, { status: 502 }];
    expect(await ask()).toBe("good");
    expect(gaps()).toEqual([5000, 10_000, 20_000]);
  });

  test("what a server asks of one request holds the next ones too", async () => {
    const { ask } = client({ retries: 0 });
    replies = [{ status: 503, headers: { "retry-after": "60" } }];
    await expect(ask()).rejects.toThrow(/HTTP 503/);
    expect(await ask()).toBe("good");
    expect(gaps()).toEqual([60_000]);
  });

  test("a server that asks for hours is left alone", async () => {
    const { ask } = client();
    replies = [{ status: 429, headers: { "retry-after": "7200" } }];
    await expect(ask()).rejects.toThrow("it: HTTP 429, and the server asks to wait 120 minutes.");
    expect(arrivals.length).toBe(1);
  });

  test.each([
    ["7", 7000],
    [" 0 ", 0],
    ["Thu, 20 Aug 2026 10:00:09 GMT", 9000],
    ["Thu, 20 Aug 2026 09:00:00 GMT", 0],
    ["soon", null],
    ["-5", null],
    ["1.5", null],
    [null, null],
  ])("Retry-After: %s", (header, expected) => {
    expect(retryAfter(header, Date.parse("2026-08-20T10:00:00Z"))).toBe(expected);
  });
});

describe("giving up", () => {
  test("after all tries, with the last fault and the address", async () => {
    const { ask } = client({ retries: 1 });
    replies = [{ status: 500 }, { status: 504 }];
    await expect(ask()).rejects.toThrow(`it: HTTP 504 (2 tries, ${url}).`);
  });

  test("a fault of the network says what it was", async () => {
    const { ask } = client({ retries: 0 });
    await expect(ask("http://127.0.0.1:9/")).rejects.toThrow(/it: the connection failed: .+ \(1 try/);
  });

  test("an answer beyond the limit is a fault; what read throws otherwise is not tried again", async () => {
    const { ask, http } = client({ retries: 0 });
    replies = [{ status: 200, body: "x".repeat(1001) }];
    await expect(ask()).rejects.toThrow(/longer than 1000 bytes/);
    const broken = http.ask({
      url,
      what: "it",
      retries: 5,
      read: async () => {
        throw new TypeError("ours");
      },
    });
    await expect(broken).rejects.toThrow(TypeError);
    expect(arrivals.length).toBe(2);
  });

  test("a fault that read finds is tried again", async () => {
    const { http } = client();
    let tries = 0;
    const found = await http.ask({
      url,
      what: "it",
      read: async () => {
        if (++tries < 3) throw new Fault("half of it");
        return tries;
      },
    });
    expect(found).toBe(3);
  });
});

test("a pacer keeps its distance, however many ask at once and whatever holds come", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.record({ asks: fc.nat(4), hold_ms: fc.nat(20_000) }), { maxLength: 8 }),
      async (plan) => {
        const clock = fakeClock();
        const pacer = createPacer(clock, 3000);
        const starts: number[] = [];
        const waiting: Promise<void>[] = [];
        let held_until = 0;
        for (const { asks, hold_ms } of plan) {
          for (let ask = 0; ask < asks; ask++) waiting.push(pacer.turn().then(() => void starts.push(clock.now_ms())));
          await Promise.all(waiting);
          pacer.hold(hold_ms);
          held_until = clock.now_ms() + hold_ms;
          const next = pacer.turn().then(() => {
            expect(clock.now_ms()).toBeGreaterThanOrEqual(held_until);
            starts.push(clock.now_ms());
          });
          await next;
        }
        for (const [index, at] of starts.slice(1).entries()) expect(at - starts[index]!).toBeGreaterThanOrEqual(3000);
      },
    ),
  );
});
