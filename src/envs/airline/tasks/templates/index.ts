import type { Template } from "../draft.ts";
import { cancelling } from "./cancelling.ts";

/** A template for each of the 50 rows of airline.md 4.6, in its order. */
export const templates: readonly Template[] = [...cancelling].toSorted((a, b) => a.row - b.row);
