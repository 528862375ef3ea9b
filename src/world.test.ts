import { existsSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { UserError } from "./core/errors.ts";
import { alone, guestOf, nameForAll, progressOf, readWorld } from "./world.ts";

const launched = {
  RANK: "5",
  WORLD_SIZE: "8",
  LOCAL_RANK: "1",
  LOCAL_WORLD_SIZE: "4",
  MASTER_ADDR: "node-a",
  MASTER_PORT: "29500",
};

test("a launcher's variables are this process's place; without them there is one process", () => {
  expect(readWorld(launched)).toEqual({ rank: 5, size: 8, local_rank: 1, local_size: 4 });
  expect(readWorld({ ...launched, LOCAL_WORLD_SIZE: undefined })).toMatchObject({ local_size: 8 });
  expect(readWorld({})).toEqual(alone);
  expect(readWorld({ WORLD_SIZE: "1" })).toEqual(alone);
  expect(readWorld({ RANK: "0", WORLD_SIZE: "1", LOCAL_RANK: "0" })).toEqual(alone); // torchrun with one process
});

test.each([
  ["WORLD_SIZE", "two", /^WORLD_SIZE is 'two'; expected a whole number from 1\. Start with --nproc/],
  ["WORLD_SIZE", "0", /^WORLD_SIZE is '0'/],
  ["WORLD_SIZE", undefined, /^WORLD_SIZE is not set/],
  ["RANK", "8", /^RANK is '8'; expected a whole number from 0 to 7\./],
  ["RANK", "-1", /^RANK is '-1'/],
  ["RANK", "", /^RANK is ''/],
  ["RANK", undefined, /^RANK is not set/],
  ["LOCAL_RANK", "4", /^LOCAL_RANK is '4'; expected a whole number from 0 to 3\./],
  ["LOCAL_RANK", "1.5", /^LOCAL_RANK is '1\.5'/],
  ["LOCAL_WORLD_SIZE", "9", /^LOCAL_WORLD_SIZE is '9'/],
  ["MASTER_ADDR", undefined, /^MASTER_ADDR is not set/],
  ["MASTER_PORT", "http", /^MASTER_PORT is 'http'/],
])("%s=%s is refused by name", (name, value, message) => {
  expect(() => readWorld({ ...launched, [name]: value })).toThrow(message);
});

test("whatever the variables hold, the place is inside the world, or a sentence says what is wrong", () => {
  const text = fc.option(fc.oneof(fc.integer({ min: -2, max: 5 }).map(String), fc.string()), { nil: undefined });
  const env = fc.record({
    RANK: text,
    WORLD_SIZE: text,
    LOCAL_RANK: text,
    LOCAL_WORLD_SIZE: text,
    MASTER_ADDR: text,
    MASTER_PORT: text,
  });
  fc.assert(
    fc.property(env, (variables) => {
      try {
        const { rank, size, local_rank, local_size } = readWorld(variables);
        expect(rank < size && local_rank < local_size && local_size <= size).toBe(true);
      } catch (error) {
        expect(error).toBeInstanceOf(UserError);
        expect((error as Error).message).toMatch(
          /^(RANK|WORLD_SIZE|LOCAL_RANK|LOCAL_WORLD_SIZE|MASTER_(ADDR|PORT)) is /,
        );
      }
    }),
    { numRuns: 500 },
  );
});

test("a name is made up for one process alone", () => {
  const world = readWorld(launched);
  expect(nameForAll(null, alone, () => "grpo-arxiv")).toBe("grpo-arxiv");
  expect(nameForAll("mine", world, () => "never")).toBe("mine");
  expect(() => nameForAll(null, world, () => "never")).toThrow(
    "name is not set, and 8 processes have to agree on it. Set --name.",
  );
});

test("other ranks say nothing and keep no records; their log appears with its first trajectory", () => {
  const dir = mkdtempSync(join(tmpdir(), "world-"));
  const world = readWorld(launched);
  progressOf(world, { line: expect.unreachable, status: expect.unreachable, end: expect.unreachable }).line("hello");
  const run = guestOf("grpo", dir);
  run.update({ status: "failed" });
  run.close();
  expect(existsSync(join(dir, "manifest.json"))).toBe(false);
});
