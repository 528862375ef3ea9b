// scripts/gpu-check: what only a GPU machine can show, as a table. See that file for how it is called.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { findInterpreter, projectRoot } from "../../src/bridge/interpreter.ts";
import { errorText } from "../../src/core/errors.ts";
import { cli, type Facts, gpuChecks } from "./checks.ts";
import { formatOutcomes, lastLines, runChecks, start } from "./runner.ts";

/** All of it, the probe included: a machine may be lent for little longer. */
const TOTAL_S = 345;

async function main(args: string[]): Promise<number> {
  const begun = performance.now();
  const words = args.filter((word) => word !== "--cpu");
  if (words.some((word) => word.startsWith("-"))) {
    console.error(`gpu-check knows --cpu and words of the checks' names, not ${words.join(" ")}.`);
    return 2;
  }
  const stamp = new Date().toISOString().slice(0, 19).replaceAll(/\D/g, "");
  const dir = join(projectRoot, "runs", `gpu-check-${stamp}-${process.pid}`);
  mkdirSync(dir, { recursive: true });
  const python = (await findInterpreter()).path;

  const helps = (["", "sft", "grpo"] as const).map(async (command) => {
    const { stdout } = await cli(join(dir, "help.log"), [...(command ? [command] : []), "--help"]).done;
    return [command, stdout] as const;
  });
  const probe = start(python, [join("scripts", "gpu_check", "probe.py")], {
    log: join(dir, "probe.log"),
    cwd: projectRoot,
  });
  const { code, stdout, tail } = await probe.done;
  if (code !== 0) {
    console.log(`gpu-check: ${python} cannot train: ${lastLines(tail)}`);
    return 1;
  }
  const facts = JSON.parse(stdout.trim().split("\n").at(-1)!) as Facts;
  for (const line of facts.others) console.error(`warning: ${line}`);

  const help = Object.fromEntries(await Promise.all(helps)) as Record<"" | "sft" | "grpo", string>;
  const all = gpuChecks(facts, { python, dir, cpu: args.includes("--cpu"), help });
  const checks = all.filter(({ name }) => words.length === 0 || words.some((word) => name.includes(word)));
  if (checks.length === 0) {
    console.error(`No check's name holds ${words.join(" or ")}: ${all.map(({ name }) => `'${name}'`).join(", ")}.`);
    return 2;
  }
  const outcomes = await runChecks(checks, {
    together: Math.max(1, Math.min(4, Math.floor(facts.cpus / 4))),
    total_s: TOTAL_S - (performance.now() - begun) / 1000,
    onOutcome: ({ name, result, figure }) => console.error(`${result} ${name}: ${figure}`),
  });
  console.log(formatOutcomes(outcomes));
  if (facts.gpus.length === 0) console.log("There is no CUDA device here: nothing of a GPU was checked.");
  console.error(`Logs and runs: ${dir}`);
  return outcomes.some(({ result }) => result === "failed") ? 1 : 0;
}

// What the checks started has process groups of its own: it ends with our exit, not with the terminal's Ctrl-C.
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(1));
try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  console.error(errorText(error));
  process.exitCode = 2;
}
