import type { JsonSchema, Tool } from "../../../core/tool.ts";
import { fromPlain, isDict, PythonError, type PyValue, typeName } from "../data/python-values.ts";
import type { DataState } from "../data/state.ts";

/** What a user may set about the tools (`env_options.tools`). */
export interface ToolOptions {
  /** The one-stop search shows the second leg's own day instead of the first leg's (airline.md 2.8). */
  fix_onestop?: boolean;
}

/** What a call of a tool did. */
export interface Invocation {
  state: DataState;
  /** The text that the model reads: JSON in Python's spelling, a plain sentence, or "Error: …". */
  observation: string;
  /** Whether it is an error. The state is then what it was, but for one quirk: see `ChangedError`. */
  failed: boolean;
}

/** An error that leaves a change behind. Only a certificate that is listed twice in a booking does that. */
export class ChangedError extends PythonError {
  readonly state: DataState;
  constructor(message: string, state: DataState) {
    super(message);
    this.state = state;
  }
}

/** A tool's arguments by name, in the order in which they are declared. */
type Arguments<Name extends string> = { readonly [Key in Name]: PyValue };

interface Definition<Name extends string> {
  name: string;
  description: string;
  /** JSON schemas of the arguments, all of them required. Nothing is checked against them (airline.md 2.1). */
  parameters: { readonly [Key in Name]: JsonSchema };
  /** Whether it can change the data. */
  writes: boolean;
  /** Whether the episode is over after it. */
  ends?: boolean;
  /** @throws PythonError: its text is the observation, behind "Error: ". */
  run(state: DataState, args: Arguments<Name>, options: ToolOptions): { state: DataState; text: string };
}

/** One of the 14 tools. `call` is `invoke` as the framework's interface has it: it never throws. */
export interface AirlineTool extends Tool<DataState> {
  ends: boolean;
  /** Names of the arguments in the order of the schema. */
  argument_names: readonly string[];
  /**
   * Runs the tool on any arguments at all: a Map or an object of Python values or plain ones. Numbers in a plain object
   * are ints where they are whole; to keep `50.0` a float parse the call's text with `parseJson`.
   */
  invoke(state: DataState, kwargs: unknown, options?: ToolOptions): Invocation;
}

export function airlineTool<const Name extends string>(definition: Definition<Name>): AirlineTool {
  const { name, description, parameters, writes, ends = false } = definition;
  const argument_names = Object.keys(parameters) as Name[];

  function invoke(state: DataState, kwargs: unknown, options: ToolOptions = {}): Invocation {
    try {
      const args = bind(name, argument_names, kwargs);
      const done = definition.run(state, args, options);
      return { state: done.state, observation: done.text, failed: false };
    } catch (error) {
      if (!(error instanceof PythonError)) throw error;
      const after = error instanceof ChangedError ? error.state : state;
      return { state: after, observation: `Error: ${error.message}`, failed: true };
    }
  }

  return {
    name,
    description,
    writes,
    ends,
    argument_names,
    parameters: { type: "object", properties: parameters, required: argument_names },
    invoke,
    async call(state, args) {
      const { state: next, observation } = invoke(state, args);
      return { state: next, output: observation };
    },
  };
}

/** BookReservation of book_reservation: the name that argument errors call a tool by. */
function className(name: string): string {
  return name.replace(/(?:^|_)([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

/** Levels of a record above an argument that it holds, and some more: with it in, it must still be written and hashed. */
const LEVELS_ABOVE = 8;

/**
 * Arguments by name, copied: what a tool stores is never the caller's own list.
 * @throws PythonError for the first unknown one in the caller's order, else for all that are missing.
 */
function bind<Name extends string>(tool: string, names: readonly Name[], kwargs: unknown): Arguments<Name> {
  const given = fromPlain(kwargs, LEVELS_ABOVE);
  const invoke = `${className(tool)}.invoke()`;
  if (!isDict(given)) throw new PythonError(`${invoke} argument after ** must be a mapping, not ${typeName(given)}`);
  for (const key of given.keys())
    if (!names.includes(key as Name)) throw new PythonError(`${invoke} got an unexpected keyword argument '${key}'`);
  const missing = names.filter((key) => !given.has(key)).map((key) => `'${key}'`);
  if (missing.length > 0)
    throw new PythonError(
      `${invoke} missing ${missing.length} required positional argument${missing.length > 1 ? "s" : ""}: ${listed(missing)}`,
    );
  return Object.fromEntries(given) as Arguments<Name>;
}

/** 'x'; 'x' and 'y'; 'x', 'y', and 'z'. */
function listed(names: readonly string[]): string {
  if (names.length < 3) return names.join(" and ");
  return `${names.slice(0, -1).join(", ")}, and ${names.at(-1)}`;
}

/** A text argument. */
export function text(description: string): JsonSchema {
  return { type: "string", description };
}

export function integer(description: string): JsonSchema {
  return { type: "integer", description };
}

export function number(description: string): JsonSchema {
  return { type: "number", description };
}

export function oneOf(values: readonly string[], description: string): JsonSchema {
  return { type: "string", enum: [...values], description };
}

/** A list of objects, all of whose fields are required. */
export function listOf(description: string, properties: Record<string, JsonSchema>): JsonSchema {
  return { type: "array", description, items: { type: "object", properties, required: Object.keys(properties) } };
}
