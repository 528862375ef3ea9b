import * as Plot from "@observablehq/plot";
import { parseHTML } from "linkedom";
import {
  type Ablation,
  type AblationRow,
  BASELINE,
  type Figure,
  HIGHLIGHTED,
} from "../src/envs/airline/evaluation/ablation.ts";

// The two plots of an ablation as SVG that stands on its own (airline.md 11.5). Every point is a row of the table; a value
// that was not measured is left out and said to be.

const SIZE = { width: 960, height: 576 }; // 10 × 6 inches
const INK = "#222222";
const GREY = "#95a5a6";

interface Look {
  label: string;
  colour: string;
  symbol: "circle" | "square" | "diamond" | "triangle";
}

const looks: Record<string, Look> = {
  vanilla: { label: "Vanilla", colour: "#e74c3c", symbol: "circle" },
  turn_discount: { label: "Turn-Discount", colour: "#f39c12", symbol: "circle" },
  prm_lite: { label: "PRM-Lite", colour: "#9b59b6", symbol: "triangle" },
  lata: { label: "LATA", colour: "#3498db", symbol: "square" },
  joint: { label: "Joint", colour: "#2ecc71", symbol: "diamond" },
};
const others = ["#34495e", "#16a085", "#d35400", "#7f8c8d"];

function lookOf(name: string, names: readonly string[]): Look {
  const known = Object.hasOwn(looks, name) ? looks[name] : undefined;
  if (known) return known;
  const unknown = names.filter((other) => !Object.hasOwn(looks, other));
  return { label: name, colour: others[unknown.indexOf(name) % others.length]!, symbol: "circle" };
}

/** Four panels of bars over the headline rows; the joint run stands out; bars are ± one standard error. */
export function ablationComparison({ rows }: Ablation): string {
  const shown = rows.filter(({ headline }) => headline);
  const panels: [title: string, of: (row: AblationRow) => Figure, digits: number, unit: boolean][] = [
    ["(a) overall pass^1", ({ overall }) => overall, 3, true],
    ["(b) generalisation pass^1", ({ generalisation }) => generalisation, 3, true],
    ["(c) tool stability = 1 − error rate", ({ stability }) => stability, 3, true],
    ["(d) tokens per turn, p50", ({ turn_tokens_p50 }) => turn_tokens_p50, 0, false],
  ];
  const [width, height] = [SIZE.width / 2, (SIZE.height - HEADING) / 2];
  const drawn = panels.map(([title, of, digits, unit], index) => {
    const svg = panel(shown, { title, of, digits, unit, width, height });
    return place(svg, (index % 2) * width, HEADING + Math.floor(index / 2) * height);
  });
  return page("Ablation: each run at its latest step", drawn);
}

const HEADING = 36;
const LEGEND = 24;

interface Panel {
  title: string;
  of(row: AblationRow): Figure;
  digits: number;
  /** A share, [0, 1]. */
  unit: boolean;
  width: number;
  height: number;
}

function panel(rows: readonly AblationRow[], { title, of, digits, unit, width, height }: Panel): string {
  const names = rows.map(({ name }) => name);
  const bars = rows.map((row) => {
    const { value, se } = of(row);
    const label = lookOf(row.name, names).label;
    const fill = row.name === HIGHLIGHTED ? looks[HIGHLIGHTED]!.colour : GREY;
    const [low, high] = value === null ? [0, 0] : [value - (se ?? 0), value + (se ?? 0)];
    return { label, fill, value, low: Math.max(0, low), high: unit ? Math.min(1, high) : high };
  });
  const measured = bars.filter(({ value }) => value !== null);
  const top = Math.max(unit ? 0.05 : 1, ...measured.map(({ high }) => high)) * 1.15;
  return svgOf({
    width,
    height,
    marginLeft: 52,
    marginBottom: 30,
    marginTop: 34,
    x: { type: "band", domain: bars.map(({ label }) => label), label: null, padding: 0.25 },
    y: { domain: [0, top], label: null, grid: true, ticks: 5 },
    marks: [
      Plot.barY(measured, { x: "label", y: "value", fill: "fill" }),
      Plot.ruleX(
        measured.filter(({ low, high }) => high > low),
        { x: "label", y1: "low", y2: "high", stroke: INK, strokeWidth: 1.5 },
      ),
      Plot.text(bars, {
        x: "label",
        y: ({ value, high }: (typeof bars)[number]) => (value === null ? 0 : high),
        text: ({ value }: (typeof bars)[number]) => (value === null ? "not measured" : value.toFixed(digits)),
        dy: -8,
        fill: INK,
        fontSize: 11,
      }),
      Plot.ruleY([0], { stroke: INK }),
      Plot.text([title], { frameAnchor: "top", dy: -22, fill: INK, fontSize: 13, fontWeight: "bold" }),
    ],
  });
}

interface Point {
  low: number;
  high: number;
}

/** Overall pass^1 over the training step, a line a run; the latest vanilla run is the dashed level. null: no step is known. */
export function ablationProgression({ rows }: Ablation): string | null {
  const names = [...new Set(rows.map(({ name }) => name))];
  const points = rows
    .filter((row) => row.name !== BASELINE && row.step !== null && row.overall.value !== null)
    .map(({ name, step, overall: { value, se } }) => ({
      ...{ name, step: step!, value: value!, low: value! - (se ?? 0), high: value! + (se ?? 0) },
      ...lookOf(name, names),
    }));
  if (points.length === 0) return null;
  const baseline = rows.find((row) => row.name === BASELINE && row.headline) ?? null;
  const level = baseline?.overall.value ?? null;
  const values = [...points.map(({ value }) => value), ...(level === null ? [] : [level])];
  const drawn = names.filter((name) => points.some((point) => point.name === name)).map((name) => lookOf(name, names));
  const axes = progressionAxes(points, values);
  const within = (value: number) => Math.min(axes.y[1], Math.max(axes.y[0], value)); // Plot's own clip has a new id each time
  const svg = svgOf({
    width: SIZE.width,
    height: SIZE.height - HEADING - LEGEND,
    marginLeft: 60,
    marginBottom: 44,
    marginTop: 20,
    marginRight: 24,
    x: {
      domain: axes.x,
      label: "training step",
      ticks: [...new Set(points.map(({ step }) => step))],
      tickFormat: "d",
      grid: true,
    },
    y: { domain: axes.y, label: "overall pass^1", grid: true },
    symbol: { type: "identity" } as Plot.ScaleOptions,
    marks: [
      ...(level === null
        ? []
        : [Plot.ruleY([level], { stroke: looks[BASELINE]!.colour, strokeDasharray: "6 4", strokeWidth: 2 })]),
      ...drawn.flatMap((look, index) => {
        const own = points.filter(({ label }) => label === look.label);
        return [
          Plot.ruleX(own, {
            x: "step",
            y1: ({ low }: Point) => within(low),
            y2: ({ high }: Point) => within(high),
            stroke: look.colour,
            strokeWidth: 1.5,
            dx: 4 * (index - (drawn.length - 1) / 2), // bars at one step stand beside each other
          }),
          Plot.line(own, { x: "step", y: "value", stroke: look.colour, strokeWidth: 2 }),
          Plot.dot(own, { x: "step", y: "value", fill: look.colour, symbol: look.symbol, r: 6 }),
        ];
      }),
    ],
  });
  const legend = [
    ...drawn.map((look) => ({ ...look, dashed: false })),
    ...(baseline && level !== null
      ? [{ ...looks[BASELINE]!, label: `Vanilla${baseline.step === null ? "" : ` at ${baseline.step}`}`, dashed: true }]
      : []),
  ];
  return page("Overall pass^1 by training step", [place(svg, 0, HEADING + LEGEND), legendOf(legend)]);
}

/** The reference's limits where all points lie within them, else those that the points need. */
export function progressionAxes(
  points: readonly { step: number }[],
  values: readonly number[],
): { x: [number, number]; y: [number, number] } {
  const fitted = (all: readonly number[], [low, high]: [number, number], least: number): [number, number] => {
    const [min, max] = [Math.min(...all), Math.max(...all)];
    if (min >= low && max <= high) return [low, high];
    const margin = Math.max((max - min) * 0.15, least);
    return [min - margin, max + margin];
  };
  const steps = points.map(({ step }) => step);
  const y = fitted(values, [0.1, 0.28], 0.05);
  return { x: fitted(steps, [190, 310], 1), y: [Math.max(0, y[0]), Math.min(1, y[1])] };
}

// -------------------------------------------------------------------------------------------------------------- SVG

function svgOf(options: Plot.PlotOptions): string {
  const { document } = parseHTML("<!doctype html><html><body></body></html>");
  const plot = Plot.plot({
    document: document as never, // linkedom stands in for a browser
    style: { background: "white", color: INK, fontFamily: "sans-serif", fontSize: "12px" },
    ...options,
  });
  const svg = plot.tagName.toLowerCase() === "svg" ? plot : plot.querySelector("svg")!;
  return svg.outerHTML;
}

const place = (svg: string, x: number, y: number): string => svg.replace(/^<svg/, `<svg x="${x}" y="${y}"`);

function page(title: string, parts: readonly string[]): string {
  const { width, height } = SIZE;
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" ` +
    `font-family="sans-serif" font-size="12" fill="${INK}"><rect width="${width}" height="${height}" fill="white"/>` +
    `<text x="${width / 2}" y="24" text-anchor="middle" font-size="16" font-weight="bold">${title}</text>${parts.join("")}</svg>\n`
  );
}

/** In the upper right corner, above the points. */
function legendOf(entries: readonly (Look & { dashed: boolean })[]): string {
  const y = HEADING + LEGEND / 2;
  const widths = entries.map(({ label }) => 52 + label.length * 7.5);
  const left = SIZE.width - 24 - widths.reduce((sum, width) => sum + width, 0);
  return entries
    .map(({ label, colour, symbol, dashed }, index) => {
      const x = left + widths.slice(0, index).reduce((sum, width) => sum + width, 0);
      const dashes = dashed ? ' stroke-dasharray="6 4"' : "";
      const line = `<line x1="${x}" x2="${x + 28}" y1="${y}" y2="${y}" stroke="${colour}" stroke-width="2"${dashes}/>`;
      return `${line}${dashed ? "" : marker(symbol, x + 14, y, colour)}<text x="${x + 36}" y="${y + 4}">${escapeXml(label)}</text>`;
    })
    .join("");
}

function marker(symbol: Look["symbol"], x: number, y: number, fill: string): string {
  const shapes = {
    circle: `<circle cx="${x}" cy="${y}" r="5"`,
    square: `<rect x="${x - 5}" y="${y - 5}" width="10" height="10"`,
    diamond: `<path d="M${x} ${y - 7}L${x + 5} ${y}L${x} ${y + 7}L${x - 5} ${y}Z"`,
    triangle: `<path d="M${x} ${y - 6}L${x + 6} ${y + 5}L${x - 6} ${y + 5}Z"`,
  };
  return `${shapes[symbol]} fill="${fill}"/>`;
}

function escapeXml(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
