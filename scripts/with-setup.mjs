// `npm test` and `npm run quickstart` on a fresh clone: npm packages, then .venv, then the work itself.
// Plain Node, since it runs before any package is there.
//   node scripts/with-setup.mjs check
//   node scripts/with-setup.mjs quickstart [flags of quickstart]

import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { constants } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../", import.meta.url));
const stamp = join(root, "node_modules", ".trestle-lock-hash");

/** Runs a command in the project with our stdio; ends this process where it fails. */
async function run(command, args) {
  const child = spawn(command, args, {
    cwd: root,
    stdio: "inherit",
    shell: process.platform === "win32",
    env: { ...process.env, TRESTLE_LAUNCHER: String(process.pid) }, // so that it ends with us
  });
  // A terminal's Ctrl-C reaches the child a second time; the bridge knows that.
  const pass = (signal) => child.kill(signal);
  process.on("SIGTERM", pass).on("SIGINT", pass);
  const [code, signal] = await new Promise((resolve) => {
    child.once("exit", (...how) => resolve(how));
    child.once("error", (error) => {
      console.error(`${command} could not be started: ${error.message}`);
      resolve([1, null]);
    });
  });
  process.off("SIGTERM", pass).off("SIGINT", pass);
  if (signal) process.exit(128 + constants.signals[signal]);
  if (code !== 0) process.exit(code);
}

const trestle = (...args) => run(process.execPath, ["--import", "tsx", join("src", "cli.ts"), ...args]);

function npm(...args) {
  const own = process.env.npm_execpath; // set where npm started us
  return own?.endsWith(".js") ? run(process.execPath, [own, ...args]) : run("npm", args);
}

function lockHash() {
  return createHash("sha256")
    .update(readFileSync(join(root, "package-lock.json")))
    .digest("hex");
}

/** True where node_modules is what package-lock.json describes: by our stamp, or, made by a plain `npm install`, by npm's own list. */
function packagesInPlace() {
  if (existsSync(stamp)) return readFileSync(stamp, "utf8") === lockHash();
  try {
    const wanted = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")).packages;
    const found = JSON.parse(readFileSync(join(root, "node_modules", ".package-lock.json"), "utf8")).packages;
    return (
      Object.entries(wanted).every(([path, { version, optional }]) =>
        path === "" || optional ? true : found[path] && found[path].version === version,
      ) && Object.keys(found).every((path) => wanted[path] && existsSync(join(root, path, "package.json")))
    );
  } catch {
    return false;
  }
}

const [work, ...flags] = process.argv.slice(2);
if (work !== "check" && work !== "quickstart") {
  console.error("Use: node scripts/with-setup.mjs check | quickstart [flags]");
  process.exit(2);
}
if (Number(process.versions.node.split(".")[0]) < 20) {
  console.error(`Trestle needs Node 20 or newer; this is ${process.versions.node}.`);
  process.exit(2);
}

if (!packagesInPlace()) {
  console.error("Installing npm packages (npm ci).");
  rmSync(stamp, { force: true }); // an interrupted installation leaves none
  await npm("ci", "--no-audit", "--no-fund");
}
writeFileSync(stamp, lockHash());

// The environment that this makes is the one to use, also where another is active: that one may have none of our packages.
if (process.env.VIRTUAL_ENV) console.error(`Using the project's .venv, not the active ${process.env.VIRTUAL_ENV}.`);
delete process.env.VIRTUAL_ENV;
await trestle("setup");
if (work === "check") await npm("run", "check");
else await trestle("quickstart", ...flags);
