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
    env: { OMP_NUM_THREADS: "1" }, // two such processes with two threads each wait for each other's
    testTimeout: 60_000,
  },
});
