// Tables as compact Markdown.

const NONE = "None yet.";

/** The newest rows are shown, up to `limit`, and how many were left out is said. */
export function markdownTable(
  headings: readonly string[],
  rows: readonly (readonly string[])[],
  limit: number,
): string {
  if (rows.length === 0) return NONE;
  const left_out = Math.max(0, rows.length - limit);
  const lines = [headings, headings.map(() => "---"), ...rows.slice(left_out).map((row) => row.map(cell))];
  return [
    ...(left_out > 0 ? [`(${left_out} older row${left_out === 1 ? "" : "s"} left out)`] : []),
    ...lines.map((row) => `| ${row.join(" | ")} |`),
  ].join("\n");
}

/** A bar or a line break would be read as a cell's end. */
function cell(text: string): string {
  return text.replace(/\s+/g, " ").trim().replaceAll("|", "\\|");
}

/** The newest of a list in one line. */
export function newest(items: readonly string[], limit: number, separator: string): string {
  if (items.length === 0) return NONE;
  const left_out = Math.max(0, items.length - limit);
  return [...(left_out > 0 ? [`(${left_out} left out)`] : []), ...items.slice(left_out)].join(separator);
}
