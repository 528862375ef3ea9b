import { AIRPORTS } from "../../data/airports.ts";
import { isDirectRoute } from "../trips.ts";
import type { World } from "../world.ts";

/** A route and a day of the world's own choice. */
export function drawRoute(
  { db, random }: World,
  direct: boolean,
): { origin: string; destination: string; date: string } {
  for (;;) {
    const [origin, destination] = [random.pick(AIRPORTS)[0], random.pick(AIRPORTS)[0]];
    if (origin !== destination && isDirectRoute(db, origin, destination) === direct)
      return { origin, destination, date: `2024-05-${random.int(17, 29)}` };
  }
}
