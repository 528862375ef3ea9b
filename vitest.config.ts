import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: [
      "src/**/*.test.ts",
      "benchmark/**/*.test.ts",
      "eval/**/*.test.ts",
      "scripts/**/*.test.ts",
      "examples/**/*.test.ts",
    ],
    pool: "forks",
    maxWorkers: 2, // tests start real Python processes; more of them would only wait for cores
    testTimeout: 60_000,
  },
});
