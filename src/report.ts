import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import * as Plot from "@observablehq/plot";
import { parseHTML } from "linkedom";
import { readManifest, writeWhole } from "./run-folder.ts";
import { readJsonLines } from "./trajectory-log.ts";

export interface Series {
  name: string;
  points: readonly { x: number; y: number }[];
}

export interface Chart {
  title: string;
  x_label: string;
  y_label: string;
  series: readonly Series[];
  /** Points averaged to a smoother line over the raw one; 1: no smoothing. */
  window?: number;
}

/** Okabe–Ito: told apart with any colour vision, and in grey. */
const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];
const SIZE = { width: 640, height: 300 };

/** A line chart as SVG text that stands on its own. Points that are not finite are left out. */
export function lineChart({ title, x_label, y_label, series, window = 1 }: Chart): string {
  const { document } = parseHTML("<!doctype html><html><body></body></html>");
  const rows = series.flatMap(({ name, points }) =>
    points.filter(({ y }) => Number.isFinite(y)).map(({ x, y }) => ({ name, x, y })),
  );
  const smooth = { x: "x", y: "y", z: "name", stroke: "name", strokeWidth: 2 };
  const plot = Plot.plot({
    document: document as never, // linkedom stands in for a browser
    ...SIZE,
    marginLeft: 56,
    style: { background: "white", color: "#222", fontFamily: "sans-serif", fontSize: "12px" },
    x: { label: x_label, grid: false, ticks: 6 },
    y: { label: y_label, grid: true, nice: true },
    color: { domain: series.map(({ name }) => name), range: COLOURS, legend: false },
    marks: [
      Plot.line(rows, {
        x: "x",
        y: "y",
        z: "name", // said, since Plot warns of one guessed from a stroke where each line has one point
        stroke: "name",
        strokeOpacity: window > 1 ? 0.3 : 1,
        strokeWidth: window > 1 ? 1 : 2,
      }),
      ...(window > 1 ? [Plot.line(rows, Plot.windowY({ k: window, reduce: "mean", anchor: "middle" }, smooth))] : []),
      ...(rows.length <= 30 ? [Plot.dot(rows, { x: "x", y: "y", fill: "name", r: 3 })] : []),
    ],
  });
  const svg = plot.tagName.toLowerCase() === "svg" ? plot : plot.querySelector("svg")!;
  svg.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  svg.setAttribute("viewBox", `0 -44 ${SIZE.width} ${SIZE.height + 44}`);
  svg.setAttribute("height", String(SIZE.height + 44));
  const legend = series
    .map(({ name }, index) => {
      const x = 16 + series.slice(0, index).reduce((sum, { name }) => sum + 34 + name.length * 7, 0);
      return (
        `<rect x="${x}" y="-18" width="12" height="3" fill="${COLOURS[index % COLOURS.length]}"/>` +
        `<text x="${x + 16}" y="-12">${escapeHtml(name)}</text>`
      );
    })
    .join("");
  const heading =
    `<rect x="0" y="-44" width="${SIZE.width}" height="44" fill="white"/>` +
    `<g font-family="sans-serif" font-size="12" fill="#222" text-anchor="start">` +
    `<text x="16" y="-27" font-size="14" font-weight="bold">${escapeHtml(title)}</text>${series.length > 1 ? legend : ""}</g>`;
  return svg.outerHTML.replace(/<\/svg>$/, `${heading}</svg>`);
}

/** Curves of `metrics.jsonl` by name; what is not finite becomes a gap. A line cut off by a kill is left out. */
export function readCurves(path: string): Map<string, { x: number; y: number }[]> {
  const curves = new Map<string, { x: number; y: number }[]>();
  for (const { value } of readJsonLines(path, { allow_cut_last_line: true })) {
    const { step, time: _, ...metrics } = value as Record<string, unknown>;
    for (const [name, y] of Object.entries(metrics)) {
      if (typeof y !== "number" || !Number.isFinite(y)) continue;
      curves.set(name, [...(curves.get(name) ?? []), { x: Number(step), y }]);
    }
  }
  return curves;
}

/** The charts of a run, in the order in which one reads them; names that a run lacks are left out. */
const CHARTS: readonly { title: string; y_label: string; names: RegExp }[] = [
  { title: "Reward", y_label: "mean of a step", names: /^reward$/ },
  {
    title: "Success and endings",
    y_label: "share of rollouts",
    names: /^rollout\/(success|finished|truncated|invalid)$/,
  },
  { title: "Reward components", y_label: "mean of a step", names: /^reward_components\// },
  { title: "Groups without signal", y_label: "share of groups", names: /^frac_reward_zero_std$/ },
  { title: "Canary", y_label: "mean of the canary tasks", names: /^canary\/(reward|success)$/ },
  { title: "Loss", y_label: "loss", names: /^loss$/ },
  { title: "Rewards of the pairs", y_label: "nats × beta", names: /^rewards\/(chosen|rejected|margins)$/ },
  { title: "Pairs told apart", y_label: "share of pairs", names: /^rewards\/accuracies$/ },
  { title: "Entropy", y_label: "nats a token", names: /^entropy$/ },
  { title: "KL to the reference", y_label: "nats a token", names: /^kl$/ },
  { title: "Reverse KL to the teacher", y_label: "nats a token", names: /^opd\/reverse_kl$/ },
  { title: "Turns", y_label: "mean of a rollout", names: /^rollout\/turns$/ },
  {
    title: "Hacking: calls again and again",
    y_label: "times a rollout",
    names: /^rollout\/hack_(excess_calls|exact_repeats|error_repeats)$/,
  },
  {
    title: "Hacking: what is made up",
    y_label: "times a rollout",
    names: /^rollout\/hack_(invented_tools|placeholders|accidental_chain)$/,
  },
  {
    title: "Hacking: words for nothing",
    y_label: "times a rollout",
    names: /^rollout\/hack_(empty_thinking|fake_thinking|padding)$/,
  },
  {
    title: "Hacking: how it ends",
    y_label: "times a rollout",
    names: /^rollout\/hack_(early_transfer|double_termination|score_without_outcome)$/,
  },
];

const SMOOTH_FROM = 20;

/** The learning curve alone: reward and success over steps; null where the run logged neither. */
export function learningCurve(title: string, metricsPath: string): string | null {
  const curves = readCurves(metricsPath);
  const series = ["reward", "rollout/success", "loss"]
    .flatMap((name) => (curves.has(name) ? [{ name: name.split("/").at(-1)!, points: curves.get(name)! }] : []))
    .filter(({ name }, _, all) => name !== "loss" || all.length === 1);
  if (series.length === 0) return null;
  const window = series[0]!.points.length >= SMOOTH_FROM ? Math.ceil(series[0]!.points.length / 10) : 1;
  return lineChart({ title, x_label: "optimizer step", y_label: "mean of a step", series, window });
}

/** Writes `report.html` and `learning-curve.svg` of a run; returns their paths, the ones that could be made. */
export function writeReport(dir: string, tables: readonly { title: string; text: string }[] = []): string[] {
  const metrics = join(dir, "metrics.jsonl");
  const manifest = readManifest(dir);
  const curves = existsSync(metrics) ? readCurves(metrics) : new Map<string, { x: number; y: number }[]>();
  const written: string[] = [];
  const title = manifest?.name ?? dir;

  const curve = curves.size > 0 ? learningCurve(title, metrics) : null;
  if (curve) {
    writeWhole(join(dir, "learning-curve.svg"), curve);
    written.push(join(dir, "learning-curve.svg"));
  }
  const charts = CHARTS.flatMap(({ title, y_label, names }) => {
    const series = [...curves]
      .filter(([name]) => names.test(name))
      .map(([name, points]) => ({ name: name.split("/").at(-1)!, points }));
    if (series.length === 0) return [];
    const window = series[0]!.points.length >= SMOOTH_FROM ? Math.ceil(series[0]!.points.length / 10) : 1;
    return [lineChart({ title, x_label: "optimizer step", y_label, series, window })];
  });
  const records = ["manifest.json", "config.json"].filter((file) => existsSync(join(dir, file)));
  const page = [
    "<!doctype html>",
    `<html lang="en"><head><meta charset="utf-8"><title>${escapeHtml(title)}</title>`,
    "<style>body{font:15px/1.5 sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}",
    "figure{display:inline-block;margin:0 1rem 1rem 0}pre{background:#f5f5f5;padding:1rem;overflow:auto}</style></head><body>",
    `<h1>${escapeHtml(title)}</h1>`,
    manifest
      ? `<p>${escapeHtml(manifest.recipe)}, ${escapeHtml(manifest.status)}. Started ${escapeHtml(manifest.started)}: ` +
        `<code>${escapeHtml(manifest.command)}</code></p>`
      : "",
    ...tables.map(({ title, text }) => `<h2>${escapeHtml(title)}</h2><pre>${escapeHtml(text)}</pre>`),
    ...charts.map((svg) => `<figure>${svg}</figure>`),
    ...records.map((file) => `<h2>${file}</h2><pre>${escapeHtml(readFileSync(join(dir, file), "utf8"))}</pre>`),
    "</body></html>",
  ];
  writeWhole(join(dir, "report.html"), `${page.filter(Boolean).join("\n")}\n`);
  return [...written, join(dir, "report.html")];
}

/** Rows in columns, the first row the heading; numbers stand right. */
export function textTable(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  const line = (row: readonly string[]) =>
    row
      .map((cell, column) =>
        /^[-+]?[\d.]|^n\/a/.test(cell) ? cell.padStart(widths[column]!) : cell.padEnd(widths[column]!),
      )
      .join("  ")
      .trimEnd();
  return [line(rows[0]!), widths.map((width) => "-".repeat(width)).join("  "), ...rows.slice(1).map(line)].join("\n");
}

function escapeHtml(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}
