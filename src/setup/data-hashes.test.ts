import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const data = fileURLToPath(new URL("../../data/", import.meta.url));

// To bring it up to date: cd data && find . -type f ! -name SHA256SUMS | sort | xargs sha256sum > SHA256SUMS
test("data/SHA256SUMS, which doctor checks, names every file with its hash", () => {
  const files = readdirSync(data, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name !== "SHA256SUMS")
    .map((entry) => join(entry.parentPath, entry.name).slice(data.length));
  const hashes = files.map(
    (file) =>
      `${createHash("sha256")
        .update(readFileSync(join(data, file)))
        .digest("hex")}  ./${file}`,
  );
  expect(readFileSync(join(data, "SHA256SUMS"), "utf8").trim().split("\n").sort()).toEqual(hashes.sort());
});
