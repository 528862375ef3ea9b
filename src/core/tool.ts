import { z } from "zod";
import { ToolError } from "./errors.ts";

/** What a tool gives back: the next state, and the output that becomes the observation. */
export interface ToolResult<State> {
  state: State;
  output: unknown;
}

/** A tool as a family declares it. `run` is a function from a state to the next; it never changes the one it got. */
export interface ToolDefinition<State, Input extends z.ZodObject> {
  /** Name by which a model calls it, snake_case. */
  name: string;
  description: string;
  /** The only description of the arguments: the model's JSON schema, the parser and the types come from it. */
  input: Input;
  /** Whether it changes the state. */
  writes: boolean;
  /** @throws ToolError for the model's mistakes; the state then stays as it was. */
  run(state: State, args: z.output<Input>): ToolResult<State> | Promise<ToolResult<State>>;
}

/** A tool with its argument types sealed in, so that tools of all kinds fit one list. */
export interface Tool<State> {
  name: string;
  description: string;
  /** JSON schema (draft 2020-12) of the arguments, for a model's tool list. */
  parameters: JsonSchema;
  writes: boolean;
  /**
   * Checks `args` against the schema and runs the tool.
   * @throws ToolError where the arguments do not fit, or the tool refuses.
   */
  call(state: State, args: unknown): Promise<ToolResult<State>>;
}

export type JsonSchema = { [key: string]: unknown };

/** A tool as chat templates and endpoints take it. */
export interface FunctionTool {
  type: "function";
  function: { name: string; description: string; parameters: JsonSchema };
}

export function defineTool<State, Input extends z.ZodObject>(definition: ToolDefinition<State, Input>): Tool<State> {
  const { name, description, input, writes } = definition;
  return {
    name,
    description,
    writes,
    parameters: z.toJSONSchema(input, { io: "input" }) as JsonSchema,
    async call(state, args) {
      if (typeof args !== "object" || args === null || Array.isArray(args)) {
        throw new ToolError(`${name}: arguments must be a JSON object, got ${JSON.stringify(args) ?? String(args)}.`);
      }
      const parsed = input.safeParse(args);
      if (!parsed.success) throw new ToolError(`${name}: ${describeIssues(parsed.error)}`);
      return definition.run(state, parsed.data);
    },
  };
}

/** One line a problem of a schema check: `max_results: Too big: expected number to be <=100`. */
export function describeIssues(error: z.ZodError): string {
  return error.issues
    .map((issue) => (issue.path.length > 0 ? `${issue.path.join(".")}: ${issue.message}` : issue.message))
    .join("; ");
}
