import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { createRandom } from "../src/core/random.ts";
import { readJsonLines } from "../src/trajectory-log.ts";

// Kills a run of grpo at random moments (SIGKILL, now and then SIGINT), resumes it each time, and compares what it
// leaves with what an unbroken run leaves: node --import tsx scripts/check-resume.ts --kills 30
// Ends with 1 where a task, a trajectory or a bit of the weights is another one.

const { values } = parseArgs({
  options: {
    kills: { type: "string", default: "30" },
    steps: { type: "string", default: "40" },
    seed: { type: "string", default: "1" },
    runs: { type: "string", default: "runs/check-resume" },
  },
});
const kills = Number(values.kills);
const random = createRandom(Number(values.seed));
const root = join(import.meta.dirname, "..");
rmSync(values.runs, { recursive: true, force: true });

function start(name: string, ...more: string[]) {
  const args = [
    ...["grpo", "configs/grpo-tiny.yaml", "--model", "models/tiny", "--runs-dir", values.runs, "--name", name],
    ...["--num-generations", "4", "--gradient-accumulation-steps", "1", "--no-verify", "--allow-zero-variance"],
    ...["--max-steps", values.steps, "--save-strategy", "steps", "--save-steps", "1", "--save-total-limit", "2"],
    ...more,
  ];
  return spawn(process.execPath, ["--import", "tsx", join(root, "src/cli.ts"), ...args], {
    cwd: root,
    stdio: ["ignore", "ignore", "pipe"],
  });
}

async function ended(child: ReturnType<typeof start>) {
  let stderr = "";
  child.stderr.on("data", (data) => {
    stderr += data;
  });
  const [code] = (await once(child, "close")) as [number | null];
  return { code, stderr };
}

const begin = performance.now();
const whole = await ended(start("whole"));
if (whole.code !== 0) throw new Error(whole.stderr);
const whole_ms = performance.now() - begin;

let skipped = 0;
const steps: number[] = [];
for (let kill = 0; ; kill++) {
  const child = start("killed", "--resume");
  const watched = ended(child);
  if (kill < kills) {
    // Anywhere: while Python starts, in a step, while a checkpoint is written.
    const timer = setTimeout(
      () => child.kill(random.next() < 0.2 ? "SIGINT" : "SIGKILL"),
      random.next() * whole_ms * 0.6,
    );
    const { code, stderr } = await watched;
    clearTimeout(timer);
    skipped += stderr.match(/is not whole/g)?.length ?? 0;
    steps.push(Number(/goes on from step (\d+)/.exec(stderr)?.[1] ?? 0));
    if (code !== null && code > 1 && code !== 130) throw new Error(`resume ${kill} ended with ${code}:\n${stderr}`);
    process.stderr.write(
      `kill ${kill + 1} of ${kills}: went on from step ${steps.at(-1)}, ended with ${code ?? "the signal"}\n`,
    );
    if (code === 0) {
      // It was quicker than the signal: begin another run.
      compare();
      rmSync(join(values.runs, "killed"), { recursive: true });
    }
    continue;
  }
  const { code, stderr } = await watched;
  if (code !== 0) throw new Error(stderr);
  compare();
  break;
}

function lines(name: string): string[] {
  return readJsonLines(join(values.runs, name, "trajectories/rank-0.jsonl")).map(({ value }) =>
    JSON.stringify({ ...(value as object), env_ms: null, policy: null }),
  );
}

function compare(): void {
  const [one, other] = [lines("whole"), lines("killed")];
  const at = one.findIndex((line, index) => line !== other[index]);
  if (at >= 0 || one.length !== other.length) {
    process.stderr.write(`Trajectories differ: ${one.length} and ${other.length}, first at line ${at + 1}.\n`);
    process.exit(1);
  }
  const weights = (name: string) => readFileSync(join(values.runs, name, "final/model.safetensors"));
  if (!weights("whole").equals(weights("killed"))) {
    process.stderr.write("The weights differ.\n");
    process.exit(1);
  }
}

if (existsSync(join(values.runs, "killed/lock"))) throw new Error("a lock was left behind");
process.stdout.write(
  `${kills} kills, went on from steps ${steps.join(" ")}; ${skipped} half-written checkpoints were skipped; ` +
    `trajectories (${lines("whole").length}) and weights are those of the unbroken run, bit for bit.\n`,
);
