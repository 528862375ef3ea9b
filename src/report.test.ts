import { mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openMetrics } from "./metrics.ts";
import { lineChart, readCurves, textTable, writeReport } from "./report.ts";
import { openRun } from "./run-folder.ts";

test("a chart is one SVG with a line a series; points that are not finite are left out", () => {
  const svg = lineChart({
    title: "a < b",
    x_label: "step",
    y_label: "reward",
    series: [
      {
        name: "one",
        points: [
          { x: 0, y: 0 },
          { x: 1, y: Number.NaN },
          { x: 2, y: 1 },
        ],
      },
      {
        name: "two",
        points: [
          { x: 0, y: 1 },
          { x: 2, y: 0 },
        ],
      },
    ],
  });
  expect(svg).toMatch(/^<svg [^>]*xmlns="http:\/\/www.w3.org\/2000\/svg"/);
  expect(svg.endsWith("</svg>")).toBe(true);
  expect(svg).toContain("a &lt; b");
  expect(svg).not.toContain("NaN");
  expect(svg.match(/<path [^>]*d="M/g)!.length).toBeGreaterThanOrEqual(2);
});

test("curves of one point each are drawn without a warning", () => {
  const series = ["one", "two", "three"].map((name) => ({ name, points: [{ x: 1, y: 0.5 }] }));
  expect(lineChart({ title: "t", x_label: "x", y_label: "y", series })).not.toContain("warning");
});

test("a run's report holds its curves, records and tables, and asks for nothing from outside", () => {
  const dir = join(mkdtempSync(join(tmpdir(), "report-")), "grpo-1");
  const run = openRun({
    dir,
    recipe: "grpo",
    config: { beta: 0 },
    command: "grpo <x>",
    seed: 1,
    versions: {},
    data: {},
  });
  const metrics = openMetrics(run.path("metrics.jsonl"));
  for (let step = 1; step <= 30; step++)
    metrics.write(step, { reward: step / 30, loss: step === 3 ? Number.NaN : 1 / step, "rollout/success": step / 60 });
  metrics.close();
  const files = writeReport(dir, [{ title: "Results", text: "pass^1 0.5" }]);
  run.close();
  expect(files).toEqual([join(dir, "learning-curve.svg"), join(dir, "report.html")]);
  expect(readCurves(run.path("metrics.jsonl")).get("loss")).toHaveLength(29);
  const page = readFileSync(join(dir, "report.html"), "utf8");
  expect(page).toContain("grpo &lt;x&gt;");
  expect(page).toContain("pass^1 0.5");
  expect(page.match(/<svg /g)).toHaveLength(3);
  expect(page).not.toMatch(/src=|href="http/);
});

test("a table's columns line up", () => {
  expect(
    textTable([
      ["split", "pass^1"],
      ["dev", "0.5"],
      ["iid_test", "n/a"],
    ]),
  ).toBe(["split     pass^1", "--------  ------", "dev          0.5", "iid_test     n/a"].join("\n"));
});
