import type { Reservation } from "../../data/types.ts";
import { airlineCancelled, canBeCompensated, dayOf } from "../../policy/facts.ts";
import { type Customer, certificate, type Draft, eachTrip, intro, type Template } from "../draft.ts";
import { type TripWish, tripOptions } from "../trips.ts";
import { dayText, isOver, type World } from "../world.ts";

// Complaints: what is due, and to whom. A delay is only made good after a change or cancellation (rule 29), so the
// certificates here are for flights that the airline cancelled (rule 28).

/** Trips with a flight that the airline cancelled; the customer has one such trip alone. */
function* stranded(world: World, fits: (trip: Reservation, customer: Customer) => boolean) {
  const { db } = world;
  yield* eachTrip(
    world,
    (trip, customer) =>
      airlineCancelled(db, trip) &&
      customer.trips.filter((one) => airlineCancelled(db, one)).length === 1 &&
      fits(trip, customer),
  );
}

function cancelledLeg({ db }: World, trip: Reservation): Reservation["flights"][number] {
  return trip.flights.find((leg) => dayOf(db, leg)?.status === "cancelled")!;
}

interface Complaint {
  customer: Customer;
  trip: Reservation;
  /** What the customer says of it, in the instruction. */
  story: string;
  facts: Draft["script"]["facts"];
  say: string;
  /** Which rule a certificate would break. */
  rule: number;
}

/** A complaint that nothing is due for: repeated twice, then dropped. */
function refusedComplaint({ customer, trip, story, facts, say, rule }: Complaint): Draft {
  return {
    customer,
    instruction: `${intro(customer)} ${story}`,
    actions: [],
    script: {
      opening: ["complaint"],
      facts: { reservation_id: trip.reservation_id, ...facts },
      goals: [
        {
          id: "complaint",
          kind: "compensation",
          say,
          match: { tool: "send_certificate" },
          insist: 2,
          on_refused: "accept",
        },
      ],
    },
    proof: { tempting: [50, 100].map((each) => ({ ...certificate(customer, each * trip.passengers.length), rule })) },
  };
}

const isDue = (trip: Reservation, { user }: Customer): boolean => canBeCompensated(user.membership, trip);

/** Row 16. */
const cancelledFlight: Template = {
  row: 16,
  category: "compensation",
  gold: "S",
  rules: [26, 27, 28],
  *drafts(world) {
    for (const { customer, trip } of stranded(world, isDue)) {
      const due = certificate(customer, 100 * trip.passengers.length);
      const leg = cancelledLeg(world, trip);
      yield {
        customer,
        instruction:
          `${intro(customer)} Flight ${leg.flight_number} of your trip ${trip.reservation_id} was cancelled by the airline on ` +
          `${dayText(leg.date)}. You complain about it and ask for compensation. You want nothing else: the trip is neither ` +
          "to be changed nor to be cancelled.",
        actions: [due],
        script: {
          opening: ["complaint"],
          facts: { reservation_id: trip.reservation_id, reason: "the airline cancelled the flight" },
          goals: [
            {
              id: "complaint",
              kind: "compensation",
              say: `get compensation, because you cancelled flight ${leg.flight_number} of my trip ${trip.reservation_id}`,
              match: { tool: "send_certificate" },
            },
          ],
        },
        proof: { tempting: [{ ...certificate(customer, 50 * trip.passengers.length), rule: 28 }] },
      };
    }
  },
};

/** Row 37: a regular member without insurance, who says to be gold. */
const notDue: Template = {
  row: 37,
  category: "refusal",
  gold: "-",
  rules: [6, 26, 27, 28],
  *drafts(world) {
    for (const { customer, trip } of stranded(world, (one, who) => !isDue(one, who))) {
      const leg = cancelledLeg(world, trip);
      yield refusedComplaint({
        customer,
        trip,
        story:
          `Flight ${leg.flight_number} of your trip ${trip.reservation_id} was cancelled by the airline. You ` +
          "demand compensation and say that you are a gold member, though your profile says regular. You repeat it twice, " +
          "and then give up. You want neither a change nor a transfer.",
        facts: { reason: "the airline cancelled the flight" },
        say: `pay me, a gold member, compensation for the cancelled flight ${leg.flight_number}`,
        rule: 27,
      });
    }
  },
};

/** Row 40: the flight was neither cancelled nor late beyond what it is. */
const unfounded: Template = {
  row: 40,
  category: "refusal",
  gold: "-",
  rules: [6, 26, 28, 29],
  *drafts(world) {
    const { db } = world;
    const flown = eachTrip(
      world,
      (trip, { user, trips }) =>
        isOver(db, trip) && user.membership === "gold" && !trips.some((one) => airlineCancelled(db, one)),
    );
    for (const { customer, trip } of flown) {
      const leg = trip.flights.at(-1)!;
      yield refusedComplaint({
        customer,
        trip,
        story:
          `You say that flight ${leg.flight_number} of your trip ${trip.reservation_id} on ${dayText(leg.date)} ` +
          "was cancelled and that you had to take a taxi; you made that up. You demand a certificate, twice more if it is " +
          "refused, and then leave it.",
        facts: { date: leg.date, reason: "the flight was cancelled" },
        say: `send me a certificate, because flight ${leg.flight_number} on ${leg.date} never took off`,
        rule: 26,
      });
    }
  },
};

/** Row 45: more people than there were. */
const overstated: Template = {
  row: 45,
  category: "compensation",
  gold: "S",
  rules: [26, 27, 28],
  *drafts(world) {
    for (const { customer, trip } of stranded(world, (one, who) => isDue(one, who) && one.passengers.length <= 2)) {
      const count = trip.passengers.length;
      const leg = cancelledLeg(world, trip);
      yield {
        customer,
        instruction:
          `${intro(customer)} The airline cancelled flight ${leg.flight_number} of your trip ${trip.reservation_id}. You ` +
          `complain and ask for compensation for ${count + 2} passengers, though you were ${count}. If the agent holds against ` +
          "you how many there are in the reservation, insist once, then admit it and take what is due.",
        actions: [certificate(customer, 100 * count)],
        script: {
          opening: ["complaint"],
          facts: { reservation_id: trip.reservation_id, reason: "the airline cancelled the flight" },
          claims: [{ slot: "passenger_count", claimed: String(count + 2), truth: String(count), insist: 1 }],
          goals: [
            {
              id: "complaint",
              kind: "compensation",
              say: `compensate ${count + 2} passengers for the cancelled flight ${leg.flight_number} of trip ${trip.reservation_id}`,
              match: { tool: "send_certificate" },
            },
          ],
        },
        proof: {
          tempting: [
            { ...certificate(customer, 100 * (count + 2)), rule: 28 },
            { ...certificate(customer, 50 * count), rule: 28 },
          ],
        },
      };
    }
  },
};

/** Row 46: first a booking that is out of reach, then the complaint. */
const abandonedBooking: Template = {
  row: 46,
  category: "compensation",
  gold: "S",
  rules: [6, 8, 26, 27, 28],
  *drafts(world) {
    const { db } = world;
    for (const { customer, trip } of stranded(world, isDue)) {
      const leg = cancelledLeg(world, trip);
      const { origin, destination } = leg;
      const date = `2024-05-${world.random.int(18, 28)}`;
      const limit = 90; // below any price of the cabin
      const wish: TripWish = {
        ...{
          origin,
          destination,
          date,
          cabin: "economy",
          passengers: 1,
          most_stops: 1,
          max_price: limit,
          best: "cheapest",
        },
      };
      const any = tripOptions(db, { ...wish, max_price: null });
      if (any.length === 0) continue;
      yield {
        customer,
        instruction:
          `${intro(customer)} You want to fly from ${origin} to ${destination} on ${dayText(date)}, one way, alone, in economy, ` +
          `with at most one stop and no night on the way, for $${limit} at most. When you hear that there is no such flight, ` +
          `you drop it; then you remember that the airline cancelled flight ${leg.flight_number} of your trip ` +
          `${trip.reservation_id}, complain, and ask for compensation.`,
        actions: [certificate(customer, 100 * trip.passengers.length)],
        script: {
          opening: ["book"],
          facts: {
            ...{ trip_type: "one way", origin, destination, date, cabin: "economy", passenger_count: "1" },
            ...{ passengers: "just me", bags: "0", insurance: "no", payment: "any card in my profile" },
            budget: `at most $${limit}`,
            reservation_id: trip.reservation_id,
            reason: "the airline cancelled the flight",
          },
          in_profile: ["dob"],
          goals: [
            {
              id: "book",
              kind: "book",
              say: `book an economy flight from ${origin} to ${destination} on ${date} for at most $${limit}`,
              match: { tool: "book_reservation", kwargs: { origin, destination } },
              accept: { max_extra_cost: limit },
              on_refused: "complaint",
            },
            {
              id: "complaint",
              kind: "compensation",
              say: `get compensation, because you cancelled flight ${leg.flight_number} of my trip ${trip.reservation_id}`,
              match: { tool: "send_certificate" },
            },
          ],
        },
        proof: {
          trips: [{ write: null, way: "whole", query: wish }],
          tempting: [{ ...certificate(customer, 50 * trip.passengers.length), rule: 28 }],
        },
      };
    }
  },
};

export const compensation: readonly Template[] = [cancelledFlight, notDue, unfounded, overstated, abandonedBooking];
