import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { z } from "zod";
import { adapterKeys, adapterOf } from "./adapters.ts";

const schema = z.object(adapterKeys);
const asked = (values: z.input<typeof schema>) => adapterOf(schema.parse(values), new Set(Object.keys(values)));

test.each([
  [{}, { lora: null, qlora: false, precision: "auto" }],
  [{ lora: true }, { lora: {}, qlora: false, precision: "auto" }],
  [{ qlora: true }, { lora: {}, qlora: true, precision: "auto" }],
  [
    { qlora: true, lora_r: 8 },
    { lora: { r: 8 }, qlora: true, precision: "auto" },
  ],
  [
    { lora: true, lora_alpha: 4, lora_dropout: 0, precision: "bf16" as const },
    { lora: { lora_alpha: 4, lora_dropout: 0 }, qlora: false, precision: "bf16" },
  ],
  [{ lora: true, lora_target_modules: ["all-linear"] }, { lora: { target_modules: "all-linear" } }],
  [{ lora: true, lora_target_modules: ["q_proj"] }, { lora: { target_modules: ["q_proj"] } }],
])("%j asks Python for what the user set, and no more", (values, request) => {
  expect(asked(values)).toMatchObject(request);
});

test("a key that would be ignored is refused", () => {
  expect(() => asked({ lora_r: 8 })).toThrow("lora_r is set, but LoRA is off. Add --lora, or leave it out.");
  expect(() => asked({ qlora: true, lora: false })).toThrow("qlora is set, but lora is off");
});

test("the defaults that --help shows are the ones that Python fills in", () => {
  const python = readFileSync(join(import.meta.dirname, "../../py/trainers/adapters.py"), "utf8");
  const { lora_r, lora_alpha, lora_dropout, lora_target_modules } = schema.parse({});
  expect(python).toContain(
    `LORA_DEFAULTS = {"r": ${lora_r}, "lora_alpha": ${lora_alpha}, "lora_dropout": ${lora_dropout}, "target_modules": LORA_TARGETS}`,
  );
  const targets = lora_target_modules.map((name) => `"${name}"`).join(", ");
  expect(python).toContain(`LORA_TARGETS = [${targets}]`);
});
