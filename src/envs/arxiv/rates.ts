import { UserError } from "../../core/errors.ts";
import type { Trajectory } from "../../core/trajectory.ts";
import { probe } from "./probe.ts";
import type { RatesMetadata } from "./rates-world.ts";
import type { SplitFile } from "./split-file.ts";
import { heldOutIn, TRAINING_GROUPS } from "./split-guards.ts";
import { parseSplitFile, readGroup } from "./splits.ts";
import { arxivTasks } from "./tasks.ts";

// Strict success rates of a policy on a train group, and the new version of the split that they make (arxiv.md 6.1, 6.2).

/** Informative groups that a task needs to be trained on; with one it is dropped, with none it is a control. */
const ENOUGH_GROUPS = 2;

/** `probe`: rl_train are tasks whose groups differ in reward. `bands`: the groups stay, and rl_train is the middle band. */
export type SelectBy = "probe" | "bands";

export interface MeasuredGroup {
  /** `FILE:GROUP`. */
  name: string;
  file: SplitFile;
  ids: readonly string[];
}

/**
 * The group that a benchmark played, for rates to be made of.
 * @throws UserError for what is held out, and for tasks that no split file lists: rates select train tasks only.
 */
export function measuredGroup(splits: readonly string[]): MeasuredGroup {
  const [name] = splits;
  if (name === undefined || splits.length > 1 || name.includes(",")) {
    throw new UserError(`the benchmark played ${splits.join(", ")}; rates are measured on one train group.`);
  }
  const { file, from, group, ids } = readGroup(name);
  if (!TRAINING_GROUPS.includes(group)) {
    throw new UserError(
      `the benchmark played ${name}, which is no train group (${TRAINING_GROUPS.join(", ")}): what is held out must not ` +
        "decide what is trained on. Play one, as --split v3_81:train.",
    );
  }
  return { name: `${from}:${group}`, file, ids };
}

/** @throws UserError naming a task of the log that is held out. */
export function refuseHeldOut({ file }: MeasuredGroup, trajectories: readonly Trajectory[]): void {
  const ids = [...new Set(trajectories.map(({ task_id }) => task_id))];
  const held = heldOutIn(file, ids);
  if (held) {
    throw new UserError(
      `the log has '${held.id}', which is held out (${held.group} of ${file.version}): rates select train tasks only.`,
    );
  }
}

/**
 * A new version of a split from valid trajectories: equally many trials of each task of the group.
 * @param path Where it will stand, for messages.
 * @throws UserError naming a task that is held out or is no task of the group; where no task is left to train on.
 */
export function ratesSplit(
  group: MeasuredGroup,
  trajectories: readonly Trajectory[],
  { by, group_size, version, path, metadata }: RatesRequest,
): SplitFile {
  refuseHeldOut(group, trajectories);
  const rates = strictRates(group, trajectories);
  const common = {
    version,
    task_set: "expanded" as const,
    task_count: arxivTasks().length,
    ood_keys: group.file.ood_keys,
    pilot_dev_ids: group.file.pilot_dev_ids,
    rates,
    rates_metadata: { metric: "strict_success_rate", ...metadata },
  };
  return parseSplitFile(
    by === "bands" ? byBands(group, common, path) : byProbe(group, common, trajectories, group_size, path),
    path,
  );
}

export interface RatesRequest {
  by: SelectBy;
  /** Rollouts of a group of the probe. */
  group_size: number;
  version: string;
  path: string;
  metadata: RatesMetadata;
}

function strictRates({ name, ids }: MeasuredGroup, trajectories: readonly Trajectory[]): Record<string, number> {
  const counts = new Map(ids.map((id) => [id, { n: 0, c: 0 }]));
  for (const { task_id, success, reward } of trajectories) {
    const count = counts.get(task_id);
    if (!count) throw new UserError(`the log has '${task_id}', which is no task of ${name}.`);
    if (reward === null) continue;
    count.n++;
    if (success) count.c++;
  }
  const unplayed = [...counts].find(([, { n }]) => n === 0);
  if (unplayed) throw new UserError(`the log has no valid episode of '${unplayed[0]}' of ${name}.`);
  return Object.fromEntries([...counts].map(([id, { n, c }]) => [id, c / n]));
}

type Common = Omit<SplitFile, "split" | "derived_from" | "policy">;

function byBands({ name, file }: MeasuredGroup, common: Common, path: string): SplitFile {
  const [from, group] = [name.slice(0, name.lastIndexOf(":")), name.slice(name.lastIndexOf(":") + 1)];
  if (group !== "train")
    throw new UserError(`--by bands keeps the groups of a file, so it takes rates of its train group, not of ${name}.`);
  const { rl_train: _, ...split } = file.split;
  const made = { ...common, derived_from: from, split, policy: BY_BANDS };
  if (!Object.values(common.rates!).some((rate) => rate >= 0.2 && rate <= 0.8)) {
    throw new UserError(`${path}: not written: no rate lies in [0.2, 0.8], so its rl_train would be empty.`);
  }
  return made;
}

const BY_BANDS = {
  derived_from: "the same groups, with rates measured anew",
  rl_train: "not stored: train tasks whose rate lies in [0.2, 0.8]",
};

function byProbe(
  { name, ids }: MeasuredGroup,
  common: Common,
  trajectories: readonly Trajectory[],
  group_size: number,
  path: string,
): SplitFile {
  const probed = probe(trajectories, group_size);
  if (probed.groups < ENOUGH_GROUPS) {
    throw new UserError(
      `${probed.groups} group of ${group_size} a task: a probe needs ${ENOUGH_GROUPS} or more (8 as a rule). ` +
        `Play more trials, as bench --repeat ${8 * group_size}, or take --by bands.`,
    );
  }
  const informative = (id: string) => probed.tasks[id]!.informative_count;
  const split = {
    rl_train: ids.filter((id) => informative(id) >= ENOUGH_GROUPS),
    ceiling_control: ids.filter((id) => informative(id) === 0),
    dropped: ids.filter((id) => informative(id) === 1),
  };
  if (split.rl_train.length === 0) {
    throw new UserError(
      `${path}: not written: no task has ${ENOUGH_GROUPS} groups whose rewards differ, so its rl_train would be empty. ` +
        "The policy solves or fails each of them every time; sample at a higher temperature, or take another policy.",
    );
  }
  return { ...common, derived_from: name, split, probe: probed, policy: BY_PROBE };
}

const BY_PROBE = {
  derived_from: "the three groups together are the group that was played",
  probe: "groups of consecutive trials of a benchmark: a frozen policy",
  informative_group: "a group whose rewards differ (highest − lowest > 1e-6)",
  rl_train: `at least ${ENOUGH_GROUPS} informative groups`,
  ceiling_control: "none: a constant reward, which need not be a good one",
  dropped: "exactly 1",
};
