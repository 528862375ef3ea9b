import { parse as parseYaml } from "yaml";
import { z } from "zod";
import { editDistance, errorText, nearest, UserError } from "./core/errors.ts";
import { readTextFile } from "./text-file.ts";

// YAML in, typed config out. Flags are the kebab-case of a schema's keys, so that a key is declared once.
// Precedence: flag > YAML > default.

export type ConfigValues = Record<string, unknown>;

/** A command-line flag made from a key of a schema. */
export interface Flag {
  key: string;
  /** As commander takes it: "--max-turns <number>", "--lora". */
  usage: string;
  /** Set for booleans: "--no-lora". */
  negative: string | null;
  description: string;
  /** Reads the flag's text. @throws UserError that says what was expected. */
  read(text: string): unknown;
}

type Kind = "boolean" | "number" | "string" | "choice" | "list" | "record";

interface JsonProperty {
  /** Several where a value of a plain type may be null. */
  type?: string | string[];
  enum?: unknown[];
  const?: unknown;
  anyOf?: JsonProperty[];
  items?: JsonProperty;
  default?: unknown;
  description?: string;
}

function propertiesOf(schema: z.ZodObject): Record<string, JsonProperty> {
  const json = z.toJSONSchema(schema, { io: "input", unrepresentable: "any" });
  return (json.properties ?? {}) as Record<string, JsonProperty>;
}

function kindOf(property: JsonProperty): { kind: Kind; nullable: boolean; inner: JsonProperty } {
  const options = (property.anyOf ?? [property]).flatMap((option) =>
    [option.type ?? ""].flat().map((type) => ({ ...option, type })),
  );
  const inner = options.find(({ type }) => type !== "null") ?? { ...property, type: "" };
  const nullable = options.some(({ type }) => type === "null");
  const kinds: Record<string, Kind> = {
    boolean: "boolean",
    number: "number",
    integer: "number",
    array: "list",
    object: "record",
  };
  const kind = inner.enum ? "choice" : (kinds[inner.type] ?? "string");
  return { kind, nullable, inner };
}

export const kebab = (key: string): string => key.replaceAll("_", "-");
const snake = (flag: string): string => flag.replaceAll("-", "_");

/** A flag for every key of the schema. */
export function flagsOf(schema: z.ZodObject): Flag[] {
  return Object.entries(propertiesOf(schema)).map(([key, property]) => {
    const { kind, nullable, inner } = kindOf(property);
    const flag = `--${kebab(key)}`;
    const placeholder = {
      boolean: "",
      number: "<number>",
      string: "<text>",
      choice: "<name>",
      list: "<a,b>",
      record: "<json>",
    };
    const value = property.default;
    const shown =
      value === undefined || value === null || value === "" || (kind === "boolean" && value === false)
        ? ""
        : ` (default: ${typeof value === "string" ? value : JSON.stringify(value)})`;
    const choices = inner.enum ? ` One of ${inner.enum.join(", ")}.` : "";
    return {
      key,
      usage: `${flag} ${placeholder[kind]}`.trim(),
      negative: kind === "boolean" ? `--no-${kebab(key)}` : null,
      description: `${property.description ?? inner.description ?? ""}${choices}${shown}`,
      read(text) {
        if (nullable && (text === "none" || text === "null")) return null;
        return readFlag(flag, kind, inner, text);
      },
    };
  });
}

function readFlag(flag: string, kind: Kind, inner: JsonProperty, text: string): unknown {
  if (kind === "number") return readNumber(flag, text);
  if (kind === "list") {
    const items = text
      .split(",")
      .map((item) => item.trim())
      .filter((item) => item !== "");
    return inner.items?.type === "number" || inner.items?.type === "integer"
      ? items.map((item) => readNumber(flag, item))
      : items;
  }
  if (kind === "record") {
    try {
      const record: unknown = JSON.parse(text);
      if (isRecord(record)) return record;
    } catch {}
    throw new UserError(`${flag} is '${text}'; expected a JSON object, as '{"key": 1}'.`);
  }
  return text;
}

function readNumber(flag: string, text: string): number {
  const number = Number(text);
  if (text.trim() === "" || !Number.isFinite(number)) throw new UserError(`${flag} is '${text}'; expected a number.`);
  return number;
}

/**
 * Flags that are none of ours, as keys of the `trainer` block: `--learning-rate 1e-5`, `--loss-type=dr_grpo`,
 * `--no-bf16`, `--bf16`. Words that belong to no flag come back as `rest`.
 * @throws UserError for a flag that is a near miss of one of `ours`.
 */
export function trainerFlags(
  args: readonly string[],
  ours: readonly string[],
): { trainer: ConfigValues; rest: string[] } {
  const trainer: ConfigValues = {};
  const rest: string[] = [];
  for (let index = 0; index < args.length; index++) {
    const arg = args[index]!;
    if (!arg.startsWith("--") || arg === "--") {
      rest.push(arg);
      continue;
    }
    const [name, inline] = splitOnce(arg.slice(2), "=");
    const key = snake(name);
    const near = nearMiss(key.replace(/^no_/, ""), ours);
    if (near) throw new UserError(`There is no flag --${name}. Did you mean --${kebab(near)}?`);
    const next = args[index + 1];
    if (inline !== null) trainer[key] = readScalar(inline);
    else if (next !== undefined && !isFlag(next) && !/\.ya?ml$/.test(next)) {
      trainer[key] = readScalar(next);
      index++;
    } else if (key.startsWith("no_")) trainer[key.slice(3)] = false;
    else trainer[key] = true;
  }
  return { trainer, rest };
}

/** "-1" is a value, "--max-steps" is not. */
const isFlag = (text: string): boolean => text.startsWith("-") && !/^-[\d.]/.test(text);

function splitOnce(text: string, separator: string): [string, string | null] {
  const at = text.indexOf(separator);
  return at < 0 ? [text, null] : [text.slice(0, at), text.slice(at + 1)];
}

/** A YAML scalar's reading of a flag's text; JSON lists and objects too. */
function readScalar(text: string): unknown {
  if (text === "true" || text === "false") return text === "true";
  if (/^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(text)) return Number(text);
  if (/^[[{]/.test(text)) {
    try {
      return JSON.parse(text) as unknown;
    } catch {}
  }
  return text;
}

/** Nearer than `nearest`: the other names of TRL's must not be taken for ours. */
function nearMiss(key: string, ours: readonly string[]): string | null {
  const near = nearest(key, ours);
  return near && editDistance(key, near) <= (key.length < 6 ? 1 : 2) ? near : null;
}

function isRecord(value: unknown): value is ConfigValues {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A YAML file that holds a mapping. @throws UserError with the file's name and the line. */
export function readYaml(path: string): ConfigValues {
  const text = readTextFile(path);
  let value: unknown;
  try {
    value = parseYaml(text);
  } catch (error) {
    const several = errorText(error).includes("multiple documents");
    throw new UserError(
      `${path}: ${several ? "there are several documents, parted by '---'; expected one." : errorText(error)}`,
    );
  }
  if (value === null) return {};
  if (!isRecord(value)) throw new UserError(`${path}: expected keys and values, as 'model: models/tiny'.`);
  return value;
}

export interface ConfigSource {
  /** The command the config is for; a YAML's `recipe` must agree. */
  recipe: string;
  schema: z.ZodObject;
  /** A YAML file, null for none. */
  file: string | null;
  /** From the command line, by key. `trainer` is merged into the file's. */
  flags: ConfigValues;
  /**
   * What the switches that are on stand for, given the values of all layers: each is merged under the layer that set it,
   * so that explicit values beside a switch win, and the switch wins over the file below it.
   */
  presets?: (values: ConfigValues) => readonly Preset[];
}

/** What one switch stands for. */
export interface Preset {
  switch: string;
  values: ConfigValues;
}

export interface LoadedConfig<Config> {
  config: Config;
  /** Keys that the user set, in the file or by flag: an option that a path would ignore is refused only then. */
  given: ReadonlySet<string>;
}

/** @throws UserError naming the file or flag, what came, what was expected, and the nearest valid name. */
export function loadConfig<Config>(source: ConfigSource): LoadedConfig<Config> {
  const { recipe, schema, file, flags } = source;
  const { recipe: fileRecipe, ...fromFile } = file ? readYaml(file) : ({} as ConfigValues);
  if (fileRecipe !== undefined && fileRecipe !== recipe)
    throw new UserError(
      `${file} is a config of '${String(fileRecipe)}', not of '${recipe}'. Run: trestle ${String(fileRecipe)} ${file}`,
    );
  const presets = source.presets?.(mergeValues(fromFile, flags)) ?? [];
  refuseContradictions(presets);
  const values = mergeValues(
    ...presets.filter((preset) => flags[preset.switch] === undefined).map(({ values }) => values),
    fromFile,
    ...presets.filter((preset) => flags[preset.switch] !== undefined).map(({ values }) => values),
    flags,
  );
  const parsed = schema.strict().safeParse(values);
  if (!parsed.success) {
    const problems = parsed.error.issues.map((issue) => describeIssue(issue, values, source));
    throw new UserError(problems.join("\n"));
  }
  return { config: parsed.data as Config, given: new Set([...Object.keys(fromFile), ...Object.keys(flags)]) };
}

/** @throws UserError where two presets say different things of one key */
function refuseContradictions(presets: readonly Preset[]): void {
  const said = new Map<string, { preset: Preset; value: unknown }>();
  for (const preset of presets) {
    for (const [path, value] of leaves(preset.values)) {
      const other = said.get(path);
      said.set(path, { preset, value });
      if (!other || other.value === value) continue;
      throw new UserError(
        `--${kebab(other.preset.switch)} and --${kebab(preset.switch)} contradict each other: ${path} is ` +
          `${shownValue(other.value)} in one and ${shownValue(value)} in the other. Leave one of them out.`,
      );
    }
  }
}

function leaves(values: ConfigValues, path = ""): [string, unknown][] {
  return Object.entries(values).flatMap(([key, value]): [string, unknown][] =>
    isRecord(value) ? leaves(value, `${path}${key}.`) : [[path + key, value]],
  );
}

/** Later ones win; mappings are merged key by key. */
export function mergeValues(...layers: ConfigValues[]): ConfigValues {
  const merged: ConfigValues = {};
  for (const layer of layers) {
    for (const [key, value] of Object.entries(layer)) {
      const below = merged[key];
      merged[key] = isRecord(value) && isRecord(below) ? mergeValues(below, value) : value;
    }
  }
  return merged;
}

function describeIssue(
  issue: z.core.$ZodIssue,
  values: ConfigValues,
  { schema, file, flags, recipe }: ConfigSource,
): string {
  const top = String(issue.path[0] ?? "");
  const where = Object.hasOwn(flags, top) || !file ? "" : `${file}: `;
  if (issue.code === "unrecognized_keys") {
    const keys = Object.keys(schema.shape);
    return issue.keys
      .map((key) => {
        const path = [...issue.path, key].join(".");
        const from = Object.hasOwn(flags, path) || !file ? "" : `${file}: `;
        const near = issue.path.length === 0 ? nearest(key, keys) : null;
        const inTrainer = issue.path.length === 0 && keys.includes("trainer");
        const hint = near
          ? `did you mean '${near}'?`
          : inTrainer
            ? "a key of TRL's config class stands under 'trainer:'."
            : `expected ${keys.join(", ")}.`;
        return `${from}${recipe} has no key '${path}'; ${hint}`;
      })
      .join("\n");
  }
  const name = issue.path.join(".");
  const value = issue.path.reduce<unknown>(
    (at, key) => (isRecord(at) || Array.isArray(at) ? (at as ConfigValues)[String(key)] : undefined),
    values,
  );
  const shown = Object.hasOwn(flags, top) ? `--${kebab(name)}` : name;
  if (value === undefined) return `${where}${shown} is missing; ${expectation(issue, value)}.`;
  return `${where}${shown} is ${shownValue(value)}; ${expectation(issue, value)}.`;
}

const withArticle = (noun: string): string => `${/^[aeio]/.test(noun) ? "an" : "a"} ${noun}`;

function shownValue(value: unknown): string {
  if (typeof value === "string") return `'${value}'`;
  return typeof value === "number" ? String(value) : JSON.stringify(value); // JSON has no NaN
}

function expectation(issue: z.core.$ZodIssue, value: unknown): string {
  if (issue.code === "invalid_value") {
    const near = typeof value === "string" ? nearest(value, issue.values.map(String)) : null;
    return `expected one of ${issue.values.map(String).join(", ")}${near ? ` (did you mean '${near}'?)` : ""}`;
  }
  if (issue.code === "invalid_type")
    return `expected ${issue.expected === "int" ? "a whole number" : withArticle(issue.expected)}`;
  if (issue.code === "invalid_union") {
    const kinds = issue.errors.flatMap(([first]) =>
      first?.code === "invalid_type" ? withArticle(first.expected) : [],
    );
    if (kinds.length > 0) return `expected ${[...new Set(kinds)].join(" or ")}`;
  }
  if (issue.code === "too_small" && issue.origin !== "string" && issue.origin !== "array")
    return `expected ${issue.inclusive ? `${issue.minimum} or more` : `more than ${issue.minimum}`}`;
  if (issue.code === "too_big" && issue.origin !== "string" && issue.origin !== "array")
    return `expected ${issue.inclusive ? `${issue.maximum} or less` : `less than ${issue.maximum}`}`;
  return issue.message.replace(/^Too (big|small): /, "").replace(/\.$/, "");
}
