#!/usr/bin/env node
// Runs the command in this same process: no child that a signal could miss.
import { register } from "tsx/esm/api";

register();
const { main } = await import("../src/cli.ts");
process.exitCode = await main(process.argv.slice(2));
