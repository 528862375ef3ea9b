import { appendFileSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Trajectory } from "./core/trajectory.ts";
import { createProgress, openMetrics, shortNumber, summarizePoint } from "./metrics.ts";
import { openTrajectoryLog, parseJsonLines, readJsonLines, readTrajectories } from "./trajectory-log.ts";

const file = () => join(mkdtempSync(join(tmpdir(), "log-")), "trajectories", "rank-0.jsonl");

const trajectory: Trajectory = {
  env: "fake@1",
  task_id: "t",
  seed: 3,
  trial: 0,
  policy: "gold",
  policy_step: null,
  messages: [{ role: "user", content: "do it" }],
  turns: [
    {
      reply: "x",
      thought: "",
      action: { name: "a", args: { n: 1 } },
      outcome: { kind: "ok", payload: { k: [1, null] }, text: "o" },
    },
  ],
  ended_by: "truncated",
  ended_why: "turns",
  reward: -0.5,
  parts: { a: 0.25, b: null },
  metrics: { strict: false, why: "x", n: 2, none: null },
  success: false,
  tokens: { prompt: 1, policy: 2, observation: 3 },
  env_ms: 0.5,
};

describe("the trajectory log", () => {
  test("a byte order mark and CRLF are no part of it (DT-01); another encoding is told as such", () => {
    const path = file();
    openTrajectoryLog(path).close();
    writeFileSync(path, `\uFEFF${JSON.stringify(trajectory)}\r\n\r\n`);
    expect(readTrajectories(path)).toEqual([trajectory]);
    writeFileSync(path, Buffer.from(`\uFEFF${JSON.stringify(trajectory)}\n`, "utf16le"));
    expect(() => readTrajectories(path)).toThrow(`${path}: not UTF-8 text.`);
  });

  test("gives back what was written, line by line, and can be appended to later", () => {
    const path = file();
    for (const trial of [0, 1]) {
      const log = openTrajectoryLog(path);
      log.write({ ...trajectory, trial });
      expect(readTrajectories(path)).toHaveLength(trial + 1); // on disk before it is closed
      log.close();
      log.close();
    }
    expect(readTrajectories(path)).toEqual([trajectory, { ...trajectory, trial: 1 }]);
  });

  test("lone surrogates become U+FFFD and are counted; whole pairs stay", () => {
    const path = file();
    const log = openTrajectoryLog(path);
    log.write({ ...trajectory, messages: [{ role: "user", content: "a\ud800b 🙂" }] });
    log.close();
    expect(log.cleaned).toBe(1);
    expect(readTrajectories(path)[0]!.messages[0]!.content).toBe("a\ufffdb 🙂");
    expect(readFileSync(path).includes("\\ud800")).toBe(false);
  });

  test("any text survives: line ends of all kinds stay inside their line", () => {
    const path = file();
    const texts: string[] = [];
    const log = openTrajectoryLog(path);
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => {
        texts.push(text);
        log.write({ ...trajectory, ended_why: `${text}\u2028\r\n` });
      }),
      { numRuns: 200 },
    );
    log.close();
    expect(readTrajectories(path).map(({ ended_why }) => ended_why)).toEqual(texts.map((text) => `${text}\u2028\r\n`));
  });

  test("a call's arguments may hold what JSON can't: a model may well write 1e999", () => {
    const path = file();
    const log = openTrajectoryLog(path);
    const turns = [
      { ...trajectory.turns[0]!, action: { name: "a", args: JSON.parse('{"n": 1e999}') as { n: number } } },
    ];
    log.write({ ...trajectory, turns });
    log.close();
    expect(readFileSync(path, "utf8")).toContain('{"$float":"Infinity"}');
    expect(readTrajectories(path)[0]!.turns[0]!.action!.args).toEqual({ n: Number.POSITIVE_INFINITY });
    expect(parseJsonLines('{"$float":"x"}\n{"$float":1}', "x").map(({ value }) => value)).toEqual([
      { $float: "x" },
      { $float: 1 },
    ]);
  });

  test("a broken line is named with file and physical line, blank lines counted", () => {
    const path = file();
    openTrajectoryLog(path).close();
    writeFileSync(path, `${JSON.stringify(trajectory)}\n\n{"env": 1}\n`);
    expect(() => readTrajectories(path)).toThrow(`${path}, line 3: env: `);
    writeFileSync(path, `\n{"env"\n${JSON.stringify(trajectory)}\n`);
    expect(() => readTrajectories(path)).toThrow(`${path}, line 2: not JSON`);
    expect(() => readTrajectories("nowhere.jsonl")).toThrow(/nowhere.jsonl: there is no such file/);
  });

  test("a cut last line is an error, and left out only when asked; a cut line in the middle never is", () => {
    const path = file();
    openTrajectoryLog(path).close();
    const line = JSON.stringify(trajectory);
    writeFileSync(path, `${line}\n${line.slice(0, 40)}`);
    expect(() => readTrajectories(path)).toThrow(`${path}, line 2: the last line is cut off`);
    expect(readTrajectories(path, { allow_cut_last_line: true })).toEqual([trajectory]);
    appendFileSync(path, `\n${line}\n`);
    expect(() => readTrajectories(path, { allow_cut_last_line: true })).toThrow(/line 2: not JSON/);
  });

  test("a last line without its line end is whole when it parses", () => {
    expect(parseJsonLines('{"a":1}\n{"a":2}', "x").map(({ value }) => value)).toEqual([{ a: 1 }, { a: 2 }]);
    expect(parseJsonLines("", "x")).toEqual([]);
  });
});

describe("metrics", () => {
  test("NaN and infinity keep their names in the file", () => {
    const path = file();
    const log = openMetrics(path);
    log.write(3, { loss: Number.NaN, kl: Number.NEGATIVE_INFINITY, reward: 0.5 });
    log.close();
    expect(readFileSync(path, "utf8")).toContain('"loss":{"$float":"NaN"}');
    expect(readJsonLines(path)[0]!.value).toMatchObject({
      step: 3,
      loss: Number.NaN,
      kl: Number.NEGATIVE_INFINITY,
      reward: 0.5,
    });
  });

  test("a point in a line", () => {
    expect(
      summarizePoint(20, { reward: 0.41234, "rollout/success": 1, loss: 0.00001 }, [
        "reward",
        "rollout/success",
        "kl",
        "loss",
      ]),
    ).toBe("step 20 · reward 0.412 · success 1 · loss 1.0e-5");
    expect([0, -0.5, 12345.6, Number.NaN].map(shortNumber)).toEqual(["0", "-0.5", "12350", "NaN"]);
  });

  test("progress is plain lines, few of them, where there is no terminal", () => {
    const written: string[] = [];
    const stream = { isTTY: false, write: (text: string) => written.push(text) } as unknown as NodeJS.WriteStream;
    const progress = createProgress(stream);
    for (let step = 0; step < 100; step++) progress.status(`step ${step}`);
    progress.line("done");
    progress.end();
    expect(written).toEqual(["step 0\n", "done\n"]);
  });

  test("on a terminal one line is written over", () => {
    const written: string[] = [];
    const stream = {
      isTTY: true,
      columns: 30,
      write: (text: string) => written.push(text),
    } as unknown as NodeJS.WriteStream;
    const progress = createProgress(stream);
    progress.status("a".repeat(50));
    progress.line("done");
    progress.status("b");
    progress.end();
    expect(written).toEqual([`\r\x1b[2K${"a".repeat(29)}`, "\r\x1b[2K", "done\n", "\r\x1b[2Kb", "\n"]);
  });
});
