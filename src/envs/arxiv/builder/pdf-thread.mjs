// Where the thread of pdf-threads.ts begins: a thread does not take over the TypeScript loader of the one that starts it.
import { register } from "tsx/esm/api";

register();
await import("./pdf-thread.ts");
