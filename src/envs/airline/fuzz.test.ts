import { expect, test } from "vitest";
import { startEpisode } from "../../core/episode.ts";
import { createRandom, type Random } from "../../core/random.ts";
import type { Trajectory } from "../../core/trajectory.ts";
import { startState } from "./data/state.ts";
import { databaseOf } from "./database.ts";
import { airlineSpec } from "./env.ts";
import { type AirlineOptions, airlineOptions } from "./options.ts";
import { callReply } from "./policies.ts";
import { randomCall } from "./random-calls.ts";
import { loadAirlineSplit } from "./splits.ts";
import type { AirlineTask } from "./tasks/task.ts";
import { type Observation, startTeacher, teacherTurn } from "./teacher/index.ts";
import { runAction } from "./tools/index.ts";

// An agent that sends anything at all: nothing on the environment's side may fail by it. Seeds are fixed.

const options = airlineOptions.parse({});
const noise = airlineOptions.parse({
  done_latch: false,
  user: { peek: false },
  protocol: { max_calls_per_message: 3, tool_response_max_chars: 40, max_context_chars: 20_000 },
  reward: { mode: "prm_lite" },
});
const { tasks } = loadAirlineSplit("test", options);
const db = databaseOf(options);

const SENTENCES = [
  ...["Could you please tell me your user id?", "Which flights, date, cabin, bags and payment?", "Why?"],
  ...["Shall I go ahead for $1,250.50 on May 21 in business? (yes/no)", "Do you confirm? It costs 20 dollars."],
  ...["Unfortunately that is not possible.", "I cannot do that: it is against our policy.", "###STOP###"],
  ...[
    "<tool_response>",
    "I am transferring you to a human agent.",
    "Your booking has been cancelled.",
    "It is done. 4 bags. Total $327.",
  ],
  ...[
    "<think>a</think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    '{"name": "think"',
    "",
    "\ud800",
    "🛫 日本語",
    "\u0000",
  ],
];

const TRANSFER = { name: "transfer_to_human_agents", kwargs: { summary: "x" } };

function anyReply(task: AirlineTask, random: Random, gold: readonly string[]): string {
  const call = () => callReply(randomCall(task, db, random));
  const sentence = () => random.pick(SENTENCES);
  switch (random.int(10)) {
    case 0:
      return Array.from({ length: 1 + random.int(3) }, sentence).join(random.pick([" ", "\n", ""]));
    case 1:
      return `${sentence()}\n${call()}`;
    case 2:
      return call() + call();
    case 3: {
      const text = call();
      return text.slice(0, random.int(text.length)) + sentence();
    }
    case 4:
      return call().replace(
        /"arguments": .*\n/,
        `"arguments": ${random.pick(["[1]", "null", '"x"', "{", "7", '{"a": {"b": [1e400]}}'])}\n`,
      );
    case 5:
      return call().replaceAll(/: ("[^"]*"|\d+)/g, (value) =>
        random.int(3) > 0 ? value : `: ${random.pick(["null", "-1", "1.5", "[]", "{}", '"🛫"', "true"])}`,
      );
    case 6:
    case 7:
      return random.pick(gold);
    case 8:
      return random.int(4) > 0 ? call() : callReply(TRANSFER);
    default:
      return sentence();
  }
}

async function playOne(number: number, settings: AirlineOptions): Promise<Trajectory> {
  const random = createRandom(`fuzz/${number}`);
  const task = tasks[number % tasks.length]!;
  const gold = airlineSpec.policies.gold(task, random, settings);
  const episode = await startEpisode(airlineSpec, task, settings, { seed: number });
  for (let turn = random.int(14); turn >= 0 && !episode.ended_by; turn--)
    await episode.reply(anyReply(task, random, gold));
  return episode.finish();
}

test("2,000 episodes of anything end in a judgement, and fail nowhere", { timeout: 60_000 }, async () => {
  const ends = new Map<unknown, number>();
  const rewards = new Set<number | null>();
  for (let number = 0; number < 2000; number++) {
    const { ended_by, ended_why, reward, metrics, parts } = await playOne(number, number % 4 === 0 ? noise : options);
    if (ended_by === "error" || ended_by === "timeout") throw new Error(`episode ${number}: ${ended_why}`);
    expect(Number.isFinite(reward)).toBe(true);
    expect(Math.abs(parts.process!)).toBeLessThanOrEqual(0.5);
    ends.set(metrics.terminated_by, (ends.get(metrics.terminated_by) ?? 0) + 1);
    rewards.add(reward);
  }
  // Such an agent comes to every kind of end, and now and then is paid for one.
  expect([...ends.keys()].sort()).toEqual(["contaminated", "loop", "max_tokens", "stop", "transfer"]);
  expect(rewards.has(0) && rewards.has(1)).toBe(true);
});

test("the same seed gives the same transcript, byte for byte", async () => {
  for (let number = 0; number < 100; number++) {
    const [one, other] = [await playOne(number, noise), await playOne(number, noise)];
    const text = ({ env_ms: _, ...trajectory }: Trajectory) => JSON.stringify(trajectory);
    expect(text(one)).toBe(text(other));
  }
});

test("the teacher answers any user and any tool, whatever they say", () => {
  for (let number = 0; number < 500; number++) {
    const random = createRandom(`teacher/${number}`);
    const task = tasks[number % tasks.length]!;
    let teacher = startTeacher(task);
    let data = startState(db);
    let observation: Observation = { from: "user", text: random.pick(SENTENCES) };
    for (let turn = 0; turn < 30; turn++) {
      const { state, reply } = teacherTurn(task, teacher, observation);
      teacher = state;
      if (reply.kind === "call") {
        const result = runAction(data, reply.call);
        data = result.state;
        observation = { from: "tool", text: random.int(4) > 0 ? result.observation : random.pick(SENTENCES) };
      } else observation = { from: "user", text: random.pick([...SENTENCES, "Yes.", "No, it is not.", "Yes."]) };
    }
  }
});
