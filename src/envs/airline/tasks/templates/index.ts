import type { Template } from "../draft.ts";
import { bagsAndPassengers } from "./bags-and-passengers.ts";
import { booking } from "./booking.ts";
import { bookingBesides } from "./booking-besides.ts";
import { cancelling } from "./cancelling.ts";
import { changing } from "./changing.ts";
import { changingWithBags } from "./changing-with-bags.ts";
import { compensation } from "./compensation.ts";
import { makeoverTasks } from "./makeover.ts";
import { rebooking } from "./rebooking.ts";
import { refusedCancelling } from "./refused-cancelling.ts";
import { refusedChanging } from "./refused-changing.ts";
import { severalCabins } from "./several-cabins.ts";
import { severalCancelling } from "./several-cancelling.ts";
import { transfers } from "./transfers.ts";

/** A template for each of the 50 rows of airline.md 4.6, in its order. */
export const templates: readonly Template[] = [
  ...bagsAndPassengers,
  ...booking,
  ...bookingBesides,
  ...cancelling,
  ...changing,
  ...changingWithBags,
  ...compensation,
  ...makeoverTasks,
  ...rebooking,
  ...refusedCancelling,
  ...refusedChanging,
  ...severalCabins,
  ...severalCancelling,
  ...transfers,
].toSorted((a, b) => a.row - b.row);
