#!/usr/bin/env node
// Runs the command in this same process: no child that a signal could miss.
import { register as registerCommonJs } from "tsx/cjs/api";
import { register } from "tsx/esm/api";

register();
registerCommonJs(); // a user's environment in a folder whose package.json does not say "type": "module"
const { runProcess } = await import("../src/cli.ts");
await runProcess();
