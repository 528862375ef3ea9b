import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { borrowSimulator, returnSimulator } from "./simulators.ts";
import { userOptions } from "./users/index.ts";
import { silentUser } from "./users/silent.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const options = () => userOptions.parse({ strategy: "silent" });

test("episodes under the same options have one simulator, others have their own", () => {
  const own = options();
  const [one, other] = [borrowSimulator(own), borrowSimulator(own)];
  expect(one).toBe(other);
  expect(borrowSimulator(options())).not.toBe(one);
});

test("it lets its connections go once nobody has needed it for a second, and not before", () => {
  const own = options();
  const simulator = borrowSimulator(own);
  const close = vi.spyOn(simulator, "close");
  borrowSimulator(own);
  returnSimulator(simulator);
  vi.advanceTimersByTime(5_000);
  expect(close).not.toHaveBeenCalled(); // an episode still plays
  returnSimulator(simulator);
  vi.advanceTimersByTime(500);
  expect(borrowSimulator(own)).toBe(simulator);
  vi.advanceTimersByTime(5_000);
  expect(close).not.toHaveBeenCalled();
  returnSimulator(simulator);
  vi.advanceTimersByTime(1_000);
  expect(close).toHaveBeenCalledTimes(1);
  // Its limits on requests live on.
  expect(borrowSimulator(own)).toBe(simulator);
});

test("a simulator that was not borrowed is left alone", () => {
  const simulator = silentUser();
  const close = vi.spyOn(simulator, "close");
  returnSimulator(simulator);
  vi.advanceTimersByTime(5_000);
  expect(close).not.toHaveBeenCalled();
});
