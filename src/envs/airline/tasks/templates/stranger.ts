import type { Passenger, Reservation } from "../../data/types.ts";
import { fullName } from "../draft.ts";
import type { World } from "../world.ts";

/** Somebody who is not on the trip. */
export function stranger({ random, customers }: World, trip: Reservation): Passenger {
  for (;;) {
    const { user } = random.pick(customers);
    const name = fullName(user.name);
    if (!trip.passengers.some((one) => fullName(one) === name))
      return { first_name: user.name.first_name, last_name: user.name.last_name, dob: user.dob };
  }
}
