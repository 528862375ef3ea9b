import { UserError } from "../../core/errors.ts";
import { probeHash } from "./probe.ts";
import { canonicalJson } from "./snapshot.ts";
import { type SplitFile, templateKey } from "./split-file.ts";
import { TASKS_FILE } from "./tasks.ts";
import type { ArxivTask } from "./types.ts";

// What must be true of a split file, so that nothing held out is trained on or decides what is (arxiv.md 6.3).

/** Groups of train tasks: `train`, or what a probe divided it into. */
export const TRAINING_GROUPS = ["train", "rl_train", "ceiling_control", "dropped"];
/** Groups that a result may call held out. */
const TEST_GROUPS = ["iid_test", "ood_test"];

const isTraining = (group: string): boolean => TRAINING_GROUPS.includes(group);

/** Case and blanks make no other text. */
export const textKey = (text: string): string => text.trim().replace(/\s+/g, " ").toLowerCase();

/** Reads what `derived_from` names: the file, null where there is no such file, and the group, null for all of it. */
export type Base = (derived_from: string) => { file: SplitFile | null; group: string | null };

/** A task of `file` that is in none of its training groups but in another one, with that group's name; null: none is. */
export function heldOutIn(file: SplitFile, ids: readonly string[]): { id: string; group: string } | null {
  for (const [group, members] of Object.entries(file.split)) {
    const id = isTraining(group) ? undefined : ids.find((candidate) => members.includes(candidate));
    if (id !== undefined) return { id, group };
  }
  return null;
}

/**
 * @throws UserError naming the file, the task and what leaks.
 */
export function checkSplitFile(file: SplitFile, tasks: readonly ArxivTask[], path: string, base: Base): void {
  const refuse = (why: string): never => {
    throw new UserError(`${path}: ${why}`);
  };
  if (file.task_count !== tasks.length)
    refuse(`made for ${file.task_count} tasks, but ${TASKS_FILE} has ${tasks.length}.`);
  const byId = new Map(tasks.map((task) => [task.id, task]));
  const groupOf = new Map<string, string>();
  for (const [group, ids] of Object.entries(file.split)) {
    for (const id of ids) {
      if (!byId.has(id)) refuse(`${group} names '${id}', which is no task of ${TASKS_FILE}.`);
      const other = groupOf.get(id);
      if (other) refuse(`'${id}' stands in ${other} and in ${group}; groups must be disjoint.`);
      groupOf.set(id, group);
    }
  }
  const measured = [...Object.keys(file.rates ?? {}), ...Object.keys(file.probe?.tasks ?? {})];
  for (const id of [...file.pilot_dev_ids, ...measured]) {
    if (!byId.has(id)) refuse(`'${id}' is no task of ${TASKS_FILE}.`);
  }
  const train = new Map([...groupOf].filter(([, group]) => isTraining(group)));
  const pilot = file.pilot_dev_ids.find((id) => TEST_GROUPS.includes(groupOf.get(id) ?? ""));
  if (pilot) refuse(`'${pilot}' stands in ${groupOf.get(pilot)}, but it was looked at (pilot_dev_ids).`);

  for (const id of measured) {
    // A file without training groups has nothing that rates could choose for; there only its other groups are known.
    if (train.size > 0 ? !train.has(id) : groupOf.has(id))
      refuse(`it has a rate of '${id}', which is held out: rates select train tasks only.`);
  }
  const ood = new Map(file.ood_keys.map((key) => [canonicalJson(key), key]));
  const heldOutTexts = new Map(
    [...groupOf].filter(([, group]) => !isTraining(group)).map(([id]) => [textKey(byId.get(id)!.task), id]),
  );
  for (const [id, group] of train) {
    const key = ood.get(canonicalJson(templateKey(byId.get(id)!)));
    if (key) refuse(`'${id}' in ${group} has the key ${key.join("/")}, which only ood_test may have (ood_keys).`);
    const twin = heldOutTexts.get(textKey(byId.get(id)!.task));
    if (twin) refuse(`'${id}' in ${group} has the text of '${twin}' in ${groupOf.get(twin)}, which is held out.`);
  }
  if (file.probe && probeHash(file.probe.tasks) !== file.probe.summary_sha256)
    refuse("the audit of its probe is not the one that summary_sha256 was made of. It was changed by hand.");
  checkOrigin(file, path, train, base);
}

/** What a file was made from says what is held out: no version made from it, or from that one, may undo that. */
function checkOrigin(file: SplitFile, path: string, train: ReadonlyMap<string, string>, base: Base): void {
  if (file.derived_from === null) return;
  const { file: origin, group } = base(file.derived_from);
  if (!origin && group === null) return; // a version that is not kept here, as v3_77
  if (!origin) throw new UserError(`${path}: made from ${file.derived_from}, but there is no such split file.`);
  for (let at: SplitFile | null = origin; at; at = at.derived_from === null ? null : base(at.derived_from).file) {
    for (const [id, own] of train) {
      const held = heldOutIn(at, [id]);
      if (held)
        throw new UserError(`${path}: '${id}' in ${own} is held out: it stands in ${held.group} of ${at.version}.`);
    }
  }
  const members = group === null ? undefined : origin.split[group];
  if (!members) return; // the whole file, or a group that is not stored, as a computed rl_train
  const stranger = Object.values(file.split)
    .flat()
    .find((id) => !members.includes(id));
  if (stranger)
    throw new UserError(`${path}: '${stranger}' is no task of ${file.derived_from}, which it was made from.`);
}
