import fc from "fast-check";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createLimiter, type Limits } from "./limiter.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const none: Limits = { in_flight: 1000, requests_per_minute: null, tokens_per_minute: null };

/** Sends `count` requests, each of `took_ms` and `tokens`; when they began. */
async function send(limits: Limits, count: number, took_ms: number, tokens = 0) {
  const limiter = createLimiter(limits);
  const began: number[] = [];
  let running = 0;
  let most = 0;
  const all = Promise.all(
    Array.from({ length: count }, async (_, index) => {
      await limiter.enter();
      began.push(performance.now());
      most = Math.max(most, ++running);
      await new Promise((resolve) => setTimeout(resolve, took_ms));
      running--;
      limiter.leave(tokens);
      return index;
    }),
  );
  await vi.runAllTimersAsync();
  await all;
  return { began, most };
}

test("the first request is alone until it is back; then as many as may", async () => {
  const { began, most } = await send({ ...none, in_flight: 4 }, 9, 100);
  const start = began[0]!;
  expect(began.map((at) => at - start)).toEqual([0, 100, 100, 100, 100, 200, 200, 200, 200]);
  expect(most).toBe(4);
});

test("no 60 s hold more requests than the minute's budget, and the budget is used", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 7 }),
      fc.integer({ min: 1, max: 30 }),
      fc.integer({ min: 1, max: 40_000 }),
      fc.integer({ min: 1, max: 5 }),
      async (requests_per_minute, count, took_ms, in_flight) => {
        const { began, most } = await send({ ...none, in_flight, requests_per_minute }, count, took_ms);
        expect(began).toHaveLength(count);
        expect(most).toBeLessThanOrEqual(in_flight);
        for (const at of began)
          expect(began.filter((other) => other >= at && other < at + 60_000).length).toBeLessThanOrEqual(
            requests_per_minute,
          );
        const needed = Math.floor((count - 1) / requests_per_minute) * 60_000 + count * took_ms;
        expect(began.at(-1)! - began[0]!).toBeLessThanOrEqual(needed + count * 2);
      },
    ),
    { numRuns: 60 },
  );
});

test("no request begins once the tokens of the last 60 s reach the budget", async () => {
  const { began } = await send({ ...none, in_flight: 1, tokens_per_minute: 250 }, 7, 1000, 100);
  const start = began[0]!;
  // Three answers of 100 tokens are over 250; the fourth request waits until the first answer is a minute old.
  expect(began.map((at) => Math.round((at - start) / 1000))).toEqual([0, 1, 2, 61, 62, 63, 122]);
});

test("a pause holds everybody back", async () => {
  const limiter = createLimiter({ ...none, in_flight: 2 });
  await limiter.enter();
  const start = performance.now();
  limiter.pause(7000);
  limiter.leave(0);
  const entered = limiter.enter().then(() => performance.now() - start);
  await vi.runAllTimersAsync();
  expect(await entered).toBeGreaterThanOrEqual(7000);
});

test("who waits is let go by an abort, and the next in line still gets a place", async () => {
  const limiter = createLimiter({ ...none, in_flight: 1 });
  await limiter.enter();
  const abort = new AbortController();
  const gone = limiter.enter(abort.signal);
  const next = limiter.enter();
  abort.abort(new Error("stopped"));
  await expect(gone).rejects.toThrow("stopped");
  limiter.leave(0);
  await next;
  expect(vi.getTimerCount()).toBe(0);
});
