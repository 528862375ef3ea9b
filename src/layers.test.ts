import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { expect, test } from "vitest";

// Imports go one way: cli → recipes, benchmark, eval → bridge, envs → core. A family never imports a family.

const root = join(import.meta.dirname, "..");

type Layer =
  | ("cli" | "recipes" | "logs" | "bridge" | "envs" | "family" | "setup" | "tiny" | "core" | "examples")
  | ("policies" | "llm");

/** What each layer may import besides itself. `logs`: files of a run, config and reports, beside cli.ts. */
const arrows: Record<Layer, readonly Layer[]> = {
  cli: ["recipes", "logs", "bridge", "envs", "family", "setup", "core"],
  recipes: ["logs", "bridge", "envs", "family", "tiny", "policies", "llm", "core"],
  logs: ["bridge", "envs", "family", "recipes", "policies", "core"],
  setup: ["bridge", "core"],
  bridge: ["core"],
  envs: ["family", "core"],
  family: ["llm", "core"],
  tiny: ["core"],
  policies: ["llm", "core"],
  llm: ["core"],
  examples: ["core"],
  core: [],
};

function layerOf(path: string): Layer | null {
  if (/^src\/(cli|index)\.ts$/.test(path)) return "cli";
  if (/^(src\/recipes|benchmark|eval)\//.test(path)) return "recipes";
  if (/^src\/[^/]+\.ts$/.test(path)) return "logs";
  if (path === "src/envs/index.ts") return "envs";
  const folder = /^(?:src\/)?(bridge|setup|tiny|policies|llm|core|envs|examples)\//.exec(path)?.[1];
  return folder === "envs" ? "family" : ((folder ?? null) as Layer | null);
}

function sources(folder: string): string[] {
  return readdirSync(join(root, folder), { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith(".ts") && !/\.test\.ts$/.test(entry.name))
    .map((entry) => relative(root, join(entry.parentPath, entry.name)))
    .filter((path) => !path.includes("/fixtures/"));
}

function importsOf(path: string): string[] {
  const text = readFileSync(join(root, path), "utf8");
  const found = text.matchAll(/(?:from|import)\s*\(?\s*"(\.[^"]+)"/g);
  return [...found].map(([, target]) => relative(root, resolve(root, dirname(path), target!)));
}

const files = ["src", "benchmark", "eval", "examples"].flatMap(sources);

test("every source file belongs to a layer", () => {
  expect(files.length).toBeGreaterThan(30);
  expect(files.filter((path) => layerOf(path) === null)).toEqual([]);
});

test("imports go one way", () => {
  const wrong = files.flatMap((path) => {
    const layer = layerOf(path)!;
    return importsOf(path)
      .filter((target) => {
        const other = layerOf(target);
        return other !== null && other !== layer && !arrows[layer].includes(other);
      })
      .map((target) => `${path} (${layer}) imports ${target} (${layerOf(target)})`);
  });
  expect(wrong).toEqual([]);
});

test("a family never imports a family", () => {
  const familyOf = (path: string) => /^src\/envs\/([^/]+)\//.exec(path)?.[1];
  const wrong = files.flatMap((path) =>
    importsOf(path)
      .filter((target) => familyOf(path) && familyOf(target) && familyOf(path) !== familyOf(target))
      .map((target) => `${path} imports ${target}`),
  );
  expect(wrong).toEqual([]);
});

test("pythonia is imported in one file", () => {
  const importing = files.filter((path) => /["']pythonia["']/.test(readFileSync(join(root, path), "utf8")));
  expect(importing).toEqual(["src/bridge/python.ts"]);
});

test("what plays arXiv episodes can't reach the network: it imports neither the builder nor a client, and calls no fetch", () => {
  const reached = new Set<string>();
  const visit = (path: string): void => {
    if (reached.has(path)) return;
    reached.add(path);
    importsOf(path).forEach(visit);
  };
  visit("src/envs/arxiv/env.ts");
  expect(reached.size).toBeGreaterThan(30);
  const builder = files.filter((path) => path.startsWith("src/envs/arxiv/builder/"));
  expect(builder.length).toBeGreaterThan(10);
  expect(builder.filter((path) => reached.has(path))).toEqual([]);
  const networked = (path: string) =>
    /\bfetch\(|["'](?:node:)?(?:https?|http2|net|tls|dgram|dns)["']|["']unpdf["']/.test(
      readFileSync(join(root, path), "utf8"),
    );
  expect(builder.filter(networked)).toEqual(["src/envs/arxiv/builder/http.ts", "src/envs/arxiv/builder/pdf-reader.ts"]);
  expect([...reached].filter(networked)).toEqual([]);
});
