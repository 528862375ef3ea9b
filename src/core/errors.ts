/** The user's mistake, in a config, a path or data. The CLI prints the message alone and exits with 2. */
export class UserError extends Error {
  override name = "UserError";
}

/** The model's mistake. Its text becomes the observation and the episode goes on. */
export class ToolError extends Error {
  override name = "ToolError";
}

/** The text of anything that was thrown. */
export function errorText(error: unknown): string {
  return error instanceof Error ? error.message || error.name : String(error);
}
