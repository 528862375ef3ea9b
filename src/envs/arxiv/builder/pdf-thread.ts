import { readFileSync } from "node:fs";
import { parentPort } from "node:worker_threads";
import { errorText } from "../../../core/errors.ts";
import { readPdf } from "./pdf-reader.ts";

// The other side of pdf-threads.ts: reads the PDFs whose paths it is sent.

parentPort?.on("message", (path: string) => {
  readPdf(new Uint8Array(readFileSync(path))).then(
    (reading) => parentPort?.postMessage({ reading }),
    (error: unknown) => parentPort?.postMessage({ error: errorText(error) }),
  );
});
