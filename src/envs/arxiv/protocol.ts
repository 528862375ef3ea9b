// The ReAct protocol: how a reply says what to do next, and how such a text is read.

/** What a policy does in a turn: it calls a tool, or it ends the episode. */
export type Action = { name: string; args: Record<string, unknown> } | "FINISH";

/**
 * What had to be mended or cut to read a reply:
 * `trailing_comma`, `single_quotes` JSON that isn't quite JSON; `code_fence` a fence around it;
 * `args_alias` the arguments stand under "arguments" or "parameters"; `args_text` they are a JSON text;
 * `extra_action` more actions after the first, `invented_observation` an observation that the policy wrote itself,
 * `trailing_text` anything else after the action: all of it cut;
 * `guessed` the lenient parser's guesses.
 */
export type Repair =
  | "trailing_comma"
  | "single_quotes"
  | "code_fence"
  | "args_alias"
  | "args_text"
  | "extra_action"
  | "invented_observation"
  | "trailing_text"
  | "guessed";

/** A reply as it was read. `args` is whatever JSON value stood there: a tool refuses what is no object. */
export type ParsedReply =
  | { kind: "call"; thought: string; name: string; args: unknown; repairs: Repair[] }
  | { kind: "finish"; thought: string; repairs: Repair[] }
  | { kind: "parse_error"; thought: string; reason: string; repairs: Repair[] };

const TERMINAL = ["FINISH", "FORCE_STOP", "ERROR"];

/** Deeper JSON than this is a degenerate reply; writing it to a log would exhaust the stack. */
const MAX_DEPTH = 64;

/** The text of a turn, exactly as `parseReact` reads it back. */
export function renderReply(thought: string, action: Action): string {
  if (thought.includes("Action:") || INVENTED_OBSERVATION.test(thought)) {
    throw new Error(`a thought must not hold the protocol's own markers: ${JSON.stringify(thought)}`);
  }
  return `Thought: ${thought}\nAction: ${action === "FINISH" ? action : spacedJson({ name: action.name, args: action.args })}`;
}

/** One line of JSON with a blank after each comma and colon, as models know it from Python. */
export function spacedJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(spacedJson).join(", ")}]`;
  if (typeof value === "object" && value !== null) {
    const fields = Object.entries(value).filter(([, inner]) => inner !== undefined);
    return `{${fields.map(([key, inner]) => `${JSON.stringify(key)}: ${spacedJson(inner)}`).join(", ")}}`;
  }
  return JSON.stringify(value) ?? "null";
}

const INVENTED_OBSERVATION = /^[ \t]*Observation:/m;

/**
 * Reads a reply. The first action counts; what follows it, and all from an `Observation:` line on, is cut and noted
 * in `repairs`. Small slips in the JSON are mended and noted; what can't be read is a `parse_error`. Never throws.
 */
export function parseReact(text: string): ParsedReply {
  const repairs: Repair[] = [];
  const visible = withoutThinking(text);
  const cut = visible.search(INVENTED_OBSERVATION);
  const written = cut < 0 ? visible : visible.slice(0, cut);
  if (cut >= 0) repairs.push("invented_observation");

  const at = written.indexOf("Action:");
  const thought = readThought(at < 0 ? written : written.slice(0, at));
  const fail = (reason: string): ParsedReply => ({ kind: "parse_error", thought, reason, repairs });
  if (at < 0) return fail(cut < 0 ? "no 'Action:' in the reply" : "no 'Action:' before the invented observation");

  let body = written.slice(at + "Action:".length).trim();
  const fence = /^```[\w-]*\s*/.exec(body);
  // The language of a fence may stand right before the brace, or be the action itself.
  if (fence) {
    body = TERMINAL.some((word) => fence[0].slice(3).toUpperCase().startsWith(word))
      ? body.slice(3)
      : body.slice(fence[0].length);
    repairs.push("code_fence");
  }
  if (body === "") return fail("nothing after 'Action:'");

  const word = TERMINAL.find((terminal) => body.toUpperCase().startsWith(terminal));
  if (word) {
    noteRest(body.slice(word.length), repairs);
    return { kind: "finish", thought, repairs };
  }

  const brace = body.indexOf("{");
  if (brace < 0) return fail("the action is neither FINISH nor a JSON object");
  const scanned = scanJson(body, brace);
  if (!scanned) return fail("the action's JSON object is not closed");
  let value: unknown;
  try {
    value = JSON.parse(scanned.json);
  } catch {
    return fail("the action is not valid JSON"); // what exactly Node says differs between its versions
  }
  repairs.push(...scanned.repairs);
  noteRest(body.slice(scanned.end), repairs);
  const call = readCall(value, repairs);
  if (!call) return fail(`the action needs a "name"`);
  if (isTerminal(call.name)) return { kind: "finish", thought, repairs };
  return { kind: "call", thought, ...call, repairs };
}

/**
 * The benchmark parser of the reference implementation: what it can't read is a FINISH, so parse failures never show.
 * Only for comparing with published numbers.
 * @param tools Names of the registered tools, in order; arguments without a name go to the first.
 */
export function parseReactLenient(text: string, tools: readonly string[]): ParsedReply {
  const strict = parseReact(text);
  if (strict.kind !== "parse_error") return strict;
  const { thought } = strict;
  const at = text.indexOf("Action:");
  const body = (at < 0 ? text : text.slice(at + "Action:".length)).trim();
  const repairs: Repair[] = ["guessed"];
  if (isTerminal(body)) return { kind: "finish", thought, repairs };

  const scanned = scanJson(body, Math.max(0, body.indexOf("{")));
  if (scanned && tools[0]) {
    try {
      const value: unknown = JSON.parse(scanned.json);
      if (isObject(value)) return { kind: "call", thought, name: tools[0], args: value, repairs };
    } catch {
      // Not JSON either way: the words decide.
    }
  }
  const name = tools.find((tool) => body.includes(tool));
  if (!name) return { kind: "finish", thought, repairs };
  const args: Record<string, unknown> = {};
  for (const key of ["max_results", "days"]) {
    const number = new RegExp(`${key}\\W{1,4}(\\d{1,6})`).exec(body)?.[1];
    if (number) args[key] = Number(number);
  }
  const aspect = /aspect\W{1,4}((?:cs\.)?[A-Za-z]{2}|\*)/.exec(body)?.[1];
  if (aspect) args.aspect = aspect;
  return { kind: "call", thought, name, args, repairs };
}

/** Drops closed `<think>` blocks: an action that a model only considers is not its action. */
function withoutThinking(text: string): string {
  let rest = text;
  let kept = "";
  for (;;) {
    const open = rest.indexOf("<think>");
    const close = open < 0 ? -1 : rest.indexOf("</think>", open);
    if (close < 0) return kept + rest;
    kept += rest.slice(0, open);
    rest = rest.slice(close + "</think>".length);
  }
}

/** The prompt may already end in `Thought:`, so the word can be missing. */
function readThought(before: string): string {
  const at = before.indexOf("Thought:");
  return (at < 0 ? before : before.slice(at + "Thought:".length)).trim();
}

function readCall(value: unknown, repairs: Repair[]): { name: string; args: unknown } | null {
  if (!isObject(value) || typeof value.name !== "string" || value.name.trim() === "") return null;
  const key = ["args", "arguments", "parameters"].find((alias) => Object.hasOwn(value, alias));
  if (key && key !== "args") repairs.push("args_alias");
  let args: unknown = key ? value[key] : {};
  if (typeof args === "string") {
    try {
      const inner: unknown = JSON.parse(args);
      if (inner === null || (isObject(inner) && depthOf(inner) <= MAX_DEPTH)) {
        args = inner ?? {};
        repairs.push("args_text");
      }
    } catch {
      // Some other text: the tool says that it takes an object.
    }
  }
  return { name: value.name, args };
}

function noteRest(rest: string, repairs: Repair[]): void {
  const text = rest.replace(/```/g, "").trim();
  if (text === "") return;
  repairs.push(text.includes("Action:") || text.startsWith("{") ? "extra_action" : "trailing_text");
}

/**
 * Finds the object that opens at `start`, minding strings, and writes it as strict JSON.
 * null: it never closes, or is nested too deeply.
 */
function scanJson(text: string, start: number): { json: string; end: number; repairs: Set<Repair> } | null {
  const repairs = new Set<Repair>();
  let json = "";
  let depth = 0;
  for (let at = start; at < text.length; at++) {
    const char = text[at]!;
    if (char === '"' || char === "'") {
      const end = closingQuote(text, at);
      if (end < 0) return null;
      if (char === '"') json += text.slice(at, end + 1);
      else {
        json += doubleQuoted(text.slice(at + 1, end));
        repairs.add("single_quotes");
      }
      at = end;
      continue;
    }
    if (char === ",") {
      BEFORE_CLOSE.lastIndex = at + 1;
      if (BEFORE_CLOSE.test(text)) {
        repairs.add("trailing_comma");
        continue;
      }
    }
    json += char;
    if (char === "{" || char === "[") {
      depth++;
      if (depth > MAX_DEPTH) return null;
    } else if (char === "}" || char === "]") {
      depth--;
      if (depth === 0) return { json, end: at + 1, repairs };
    }
  }
  return null;
}

const BEFORE_CLOSE = /\s*[}\]]/y;

function closingQuote(text: string, open: number): number {
  for (let at = open + 1; at < text.length; at++) {
    if (text[at] === "\\") at++;
    else if (text[at] === text[open]) return at;
  }
  return -1;
}

function doubleQuoted(inner: string): string {
  return `"${inner.replace(/\\.|"/gs, (match) => (match === '"' ? '\\"' : match === "\\'" ? "'" : match))}"`;
}

function isTerminal(name: string): boolean {
  return TERMINAL.includes(name.trim().toUpperCase());
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function depthOf(value: unknown): number {
  let level: unknown[] = [value];
  let depth = 0;
  while (level.length > 0 && depth <= MAX_DEPTH) {
    depth++;
    level = level.flatMap((item) =>
      typeof item === "object" && item !== null ? Object.values(item).filter((inner) => typeof inner === "object") : [],
    );
  }
  return depth;
}
