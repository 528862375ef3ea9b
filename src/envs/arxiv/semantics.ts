// Reads the last Thought of a blocked task: does it say what stands in the way, or claim that all is done?
// Words decide, not a model, so the reading is the same on every machine; `project` closes the ways to game it.
import type { BlockedReason } from "./types.ts";
import type { RewardProfile } from "./value-match.ts";

export type TerminalSemantics = "explained_block" | "false_completion" | "ambiguous";

const BLOCKED =
  "无法|不能|做不到|不可|不支持|能力范围|能力边界|不存在|未找到|找不到|无效|非法|超出|越界|缺少|没有|不在|未提供|请提供|需要提供|" +
  "无从指代|无法确定|cannot|can't|unable|unsupported|not found|does not exist|invalid|out of range|missing|not provided|need context";

const COMPLETED =
  "任务已完成|操作已完成|已经完成|已成功完成|任务完成|" +
  "operation completed|task completed|successfully completed|already completed|done successfully";

/** For each reason the words of its object and of the nature of the error; an explanation has one of both. */
const REASONS: Record<BlockedReason, { object: string; nature: string }> = {
  missing_context: {
    object: "会话|上下文|刚才|指代|最近操作|session|context|referent|previous paper",
    nature: "没有|缺少|未提供|无从|无法解析|不能确定|找不到|missing|not provided|no |cannot resolve|unknown",
  },
  invalid_reference: {
    object: "索引|序号|ref|第0篇|第20篇|index|reference",
    nature: "无效|非法|超出|越界|范围|上限|下限|从 1|从1|1-based|invalid|out of range|outside|zero",
  },
  paper_not_found: {
    object: "论文|arxiv|id|快照|记录|paper|snapshot|record",
    nature: "不存在|未找到|找不到|不在|无记录|unknown|not found|does not exist|absent",
  },
  unsupported_capability: {
    object: "工具|功能|能力|邮箱|邮件|tool|capability|email",
    nature: "不支持|无法|不能|做不到|超出|范围|边界|unsupported|cannot|unable|out of scope",
  },
};

/**
 * A reason that a thought states, in so many words: object and nature close together. Three of them in one thought
 * are a list of excuses, which would fit any blocked task.
 */
const CLAIMS: Record<BlockedReason, RegExp> = {
  missing_context: near(
    "session|context|referents?|previous paper|会话|上下文|指代|最近操作",
    "missing|not provided|no|without|empty|cannot resolve|unknown|没有|缺少|未提供|无从|无法解析",
  ),
  invalid_reference: near(
    "index|reference|ref|索引|序号",
    "invalid|out of range|outside|zero|1-based|无效|非法|超出|越界|从 ?1",
  ),
  paper_not_found: near(
    "papers?|ids?|arxiv|snapshot|record|论文|快照|记录",
    "not found|does not exist|absent|unknown|不存在|未找到|找不到|无记录",
  ),
  unsupported_capability: near(
    "tools?|capability|email|工具|功能|能力|邮箱|邮件",
    "unsupported|not supported|out of scope|beyond|不支持|做不到|能力范围|边界",
  ),
};
const MOST_CLAIMS = 2;

/** Finds any of the words, anywhere in the text: "id" also inside "idea". The reference's way. */
function anywhere(words: string): RegExp {
  return new RegExp(words);
}

/** Finds any of the words; Latin ones only whole, in the singular or plural. */
function whole(words: string): RegExp {
  const parts = words.split("|").map((word) => (/^[a-z0-9]/.test(word) ? `\\b${word.trim()}s?\\b` : word));
  return new RegExp(parts.join("|"));
}

/** Both within 40 characters, in either order, in one sentence. */
function near(left: string, right: string): RegExp {
  const [one, other] = [left, right].map((words) => whole(words).source);
  const gap = "(?:(?![.!?] |[。！？\\n]).){0,40}?";
  return new RegExp(`(?:${one})${gap}(?:${other})|(?:${other})${gap}(?:${one})`);
}

const MARKERS: Record<RewardProfile, { blocked: RegExp; completed: RegExp; reasons: Record<BlockedReason, RegExp[]> }> =
  {
    reference: markers(anywhere),
    project: markers(whole),
  };

function markers(find: (words: string) => RegExp) {
  const reasons = Object.fromEntries(
    Object.entries(REASONS).map(([reason, { object, nature }]) => [reason, [find(object), find(nature)]]),
  ) as Record<BlockedReason, RegExp[]>;
  return { blocked: find(BLOCKED), completed: find(COMPLETED), reasons };
}

/**
 * `thought`: the Thought of the last FINISH; "" when there is none. Only `explained_block` counts as right.
 * `reference` searches substrings. `project` differs in three ways: Latin words count only whole ("id" no
 * longer inside "provide"), a thought that also claims completion explains nothing, and neither does one that states
 * more than two different reasons.
 */
export function terminalSemantics(thought: string, reason: BlockedReason, profile: RewardProfile): TerminalSemantics {
  const text = profile === "project" ? withoutContractions(thought.toLowerCase()) : thought.toLowerCase();
  const { blocked, completed, reasons } = MARKERS[profile];
  const claimsDone = completed.test(text);
  const explained = blocked.test(text) && reasons[reason].every((factor) => factor.test(text));
  if (!explained) return claimsDone ? "false_completion" : "ambiguous";
  if (profile === "reference") return "explained_block";
  if (claimsDone) return "ambiguous";
  const claims = Object.values(CLAIMS).filter((claim) => claim.test(text)).length;
  return claims <= MOST_CLAIMS ? "explained_block" : "ambiguous";
}

function withoutContractions(text: string): string {
  return text
    .replace(/[’‘]/g, "'")
    .replace(/\bcan not\b/g, "cannot")
    .replace(/\bdoesn't exist\b/g, "does not exist")
    .replace(/\b(?:isn't|aren't|is not|are not|not) supported\b/g, "unsupported")
    .replace(/\b(?:wasn't|isn't|could not be|is not|was not) found\b/g, "not found");
}
