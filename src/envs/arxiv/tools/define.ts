import { z } from "zod";
import { defineTool, describeIssues, type Tool, type ToolDefinition } from "../../../core/tool.ts";
import { ArgumentError } from "../replay.ts";
import type { ArxivState } from "../types.ts";

/** Set by the framework, never by a model: dropped where a model sends them all the same. */
const FRAMEWORK_ARGUMENTS = ["session_id", "_resolved_paper_id"];

/** A tool of this family: one that ignores the framework's arguments, and tells arguments that don't fit from other errors. */
export function arxivTool<Input extends z.ZodObject>(definition: ToolDefinition<ArxivState, Input>): Tool<ArxivState> {
  const tool = defineTool(definition);
  return {
    ...tool,
    async call(state, args) {
      if (typeof args !== "object" || args === null || Array.isArray(args)) {
        throw new ArgumentError(`${tool.name}: arguments must be an object.`);
      }
      const given = Object.fromEntries(Object.entries(args).filter(([name]) => !FRAMEWORK_ARGUMENTS.includes(name)));
      const parsed = definition.input.safeParse(given);
      if (!parsed.success) throw new ArgumentError(`${tool.name}: ${describeIssues(parsed.error)}.`);
      return definition.run(state, parsed.data);
    },
  };
}

/** A tool's arguments: no others are taken. */
export function input<Shape extends z.ZodRawShape>(shape: Shape) {
  return z.strictObject(shape, {
    error: (issue) => {
      if (issue.code !== "unrecognized_keys") return undefined;
      const unknown = (issue.keys as string[]).map((key) => JSON.stringify(key.slice(0, 60))).slice(0, 5);
      return `unknown argument ${unknown.join(", ")}; it takes ${Object.keys(shape).join(", ")}`;
    },
  });
}

/** How a call names a paper. */
export const ref = z.union([z.int(), z.string(), z.null()], {
  error: "expected a position (an integer), a text (id or title words) or null",
});

export const REF_DESCRIPTION = "Position in the list from 1, id, title words, or null for the paper used last.";

/** A number sent as a text is meant as a number. */
export function whole<Inner extends z.ZodType>(inner: Inner) {
  return z.preprocess(
    (value) => (typeof value === "string" && /^\s*-?\d{1,9}\s*$/.test(value) ? Number(value) : value),
    inner,
  );
}

/** A name in any case, blanks around it. */
export function word<Inner extends z.ZodType>(inner: Inner) {
  return z.preprocess((value) => (typeof value === "string" ? value.trim().toLowerCase() : value), inner);
}

/** A list of values as an error message names it. */
export function oneOf(values: readonly string[]): string {
  return `expected one of ${values.join(", ")}`;
}
