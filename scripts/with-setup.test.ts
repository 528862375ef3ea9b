import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { afterAll, beforeAll, expect, test } from "vitest";

// A project in miniature: its one npm package is a folder called tsx, its cli.ts says what it was asked to do.
let root: string;
beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), "trestle-"));
  for (const folder of ["scripts", "src", "tsx"]) mkdirSync(join(root, folder));
  cpSync(join(import.meta.dirname, "with-setup.mjs"), join(root, "scripts", "with-setup.mjs"));
  writeFileSync(
    join(root, "src", "cli.ts"),
    `console.log("cli", process.argv.slice(2).join(" "), process.env.VIRTUAL_ENV ?? "-");
     if (process.argv.includes("--fail")) process.exit(3);`,
  );
  writeFileSync(join(root, "tsx", "index.mjs"), loader);
  json("tsx/package.json", { name: "tsx", version: "1.0.0", type: "module", exports: "./index.mjs" });
  json("package.json", {
    name: "p",
    type: "module",
    scripts: { check: "echo checked" },
    dependencies: { tsx: "file:tsx" },
  });
  lock("p");
});
afterAll(() => rmSync(root, { recursive: true }));

// Node 20 does not read .ts by itself.
const loader = `import { register } from "node:module";
const hooks = \`import { readFileSync } from "node:fs";
export async function load(url, context, next) {
  if (!url.endsWith(".ts")) return next(url, context);
  return { format: "module", shortCircuit: true, source: readFileSync(new URL(url)) };
}\`;
register("data:text/javascript," + encodeURIComponent(hooks));
`;

const json = (file: string, value: object) => writeFileSync(join(root, file), JSON.stringify(value));

function lock(name: string) {
  const own = { name, dependencies: { tsx: "file:tsx" } };
  const packages = { "": own, "node_modules/tsx": { resolved: "tsx", link: true }, tsx: { version: "1.0.0" } };
  json("package-lock.json", { name, lockfileVersion: 3, requires: true, packages });
}

async function withSetup(...args: string[]) {
  const env = { VIRTUAL_ENV: "/somewhere", npm_config_offline: "true", npm_execpath: "" };
  const { all, exitCode } = await execa(process.execPath, [join(root, "scripts", "with-setup.mjs"), ...args], {
    env,
    all: true,
    reject: false,
    stdin: "ignore",
    cwd: tmpdir(),
  });
  return { text: all, exitCode, installed: all.includes("npm ci") };
}

test("a fresh clone: npm packages, then setup, then the work with its flags; the active environment is not used", async () => {
  const { text, exitCode, installed } = await withSetup("quickstart", "--seed", "3");
  expect(text).toMatch(/npm ci[\s\S]*\ncli setup -\ncli quickstart --seed 3 -$/);
  expect({ exitCode, installed }).toEqual({ exitCode: 0, installed: true });
});

test("the second time npm is not asked; check runs npm's check", async () => {
  const { text, installed } = await withSetup("check");
  expect(text).toMatch(/cli setup -[\s\S]*checked$/);
  expect(installed).toBe(false);
});

test("a changed lock, and an installation that was interrupted, are both installed anew", async () => {
  lock("q");
  expect((await withSetup("check")).installed).toBe(true);
  rmSync(join(root, "node_modules"), { recursive: true }); // as npm ci itself does first of all
  const { installed, exitCode } = await withSetup("check");
  expect({ exitCode, installed }).toEqual({ exitCode: 0, installed: true });
});

test("packages that a plain npm install put there count, when they are whole", async () => {
  rmSync(join(root, "node_modules", ".trestle-lock-hash"));
  expect((await withSetup("check")).installed).toBe(false);
  rmSync(join(root, "node_modules", ".trestle-lock-hash"));
  rmSync(join(root, "node_modules", "tsx"));
  expect((await withSetup("check")).installed).toBe(true);
  expect(existsSync(join(root, "node_modules", "tsx"))).toBe(true);
});

test("the exit code is the work's own; anything else but check and quickstart is refused", async () => {
  expect((await withSetup("quickstart", "--fail")).exitCode).toBe(3);
  expect(await withSetup("train")).toMatchObject({ exitCode: 2, text: expect.stringContaining("check | quickstart") });
});
