import { cancelProblem } from "../../policy/facts.ts";
import { cancel, eachTrip, intro, type Template, transfer } from "../draft.ts";
import { isAhead, isPartlyFlown } from "../world.ts";

// What no tool can do: these end with a human agent.

const TRANSFER = "transfer_to_human_agents";

/** Row 13: the way out is flown. */
const partlyFlown: Template = {
  row: 13,
  category: "transfer",
  gold: "- T",
  rules: [7, 24],
  *drafts(world) {
    const { db } = world;
    for (const { customer, trip } of eachTrip(
      world,
      (one) => isPartlyFlown(db, one) && one.cabin !== "business" && one.flight_type === "round_trip",
    ))
      yield {
        customer,
        instruction:
          `${intro(customer)} You have flown out on your trip ${trip.reservation_id} and will go home by train. So you want ` +
          "the rest of the trip cancelled and paid back; your plans have changed. If the agent can't do it, you want to be " +
          "transferred to a human agent.",
        actions: [transfer],
        script: {
          opening: ["rest"],
          facts: { reservation_id: trip.reservation_id, reason: "change of plan" },
          goals: [
            {
              id: "rest",
              kind: "cancel",
              say: `cancel what is left of trip ${trip.reservation_id} and pay it back`,
              match: { tool: TRANSFER },
            },
          ],
        },
        proof: { reason: "change_of_plan", tempting: [{ ...cancel(trip), rule: 24 }] },
      };
  },
};

/** Row 35: insured and ill, but the trip has begun. */
const emergency: Template = {
  row: 35,
  category: "transfer",
  gold: "- T",
  rules: [7, 23, 24],
  *drafts(world) {
    const { db } = world;
    for (const { customer, trip } of eachTrip(
      world,
      (one, { trips }) =>
        isPartlyFlown(db, one) &&
        one.insurance === "yes" &&
        trips.filter((other) => isPartlyFlown(db, other)).length === 1,
    ))
      yield {
        customer,
        instruction:
          `${intro(customer)} You are on your way from ${trip.origin} to ${trip.destination} and have been taken to a ` +
          "hospital. You want the trip that you are on cancelled at once, and your insurance to pay. You don't remember " +
          "the reservation id. It is an emergency: what can't be done here, a human agent shall do.",
        actions: [transfer],
        script: {
          opening: ["emergency"],
          facts: { reason: "I am in hospital, so it is my health", insurance: "yes" },
          unknown: ["reservation_id"],
          goals: [
            {
              id: "emergency",
              kind: "cancel",
              say: `cancel the trip that I am on, from ${trip.origin} to ${trip.destination}; it is an emergency`,
              match: { tool: TRANSFER },
            },
          ],
        },
        proof: { reason: "health", tempting: [{ ...cancel(trip), rule: 24 }] },
      };
  },
};

/** Row 36: insurance can't be added, and an e-mail address can't be changed here. */
const lateInsurance: Template = {
  row: 36,
  category: "transfer",
  gold: "- T",
  rules: [2, 7, 18],
  *drafts(world) {
    const { db } = world;
    for (const { customer, trip } of eachTrip(
      world,
      (one) => isAhead(db, one) && one.insurance === "no" && cancelProblem(db, one, "change_of_plan") !== null,
    ))
      yield {
        customer,
        instruction:
          `${intro(customer)} You want to add travel insurance to your trip ${trip.reservation_id}. If that is refused, you ` +
          "accept it; you don't want to cancel or book instead. Then you want the e-mail address of your profile " +
          "replaced, and to be transferred to somebody who can do that.",
        actions: [transfer],
        script: {
          opening: ["insurance"],
          facts: { reservation_id: trip.reservation_id, insurance: "yes" },
          goals: [
            {
              id: "insurance",
              kind: "insurance",
              say: `add insurance to trip ${trip.reservation_id}`,
              match: { tool: "update_reservation_flights", kwargs: { reservation_id: trip.reservation_id } },
              on_refused: "email",
            },
            {
              id: "email",
              kind: "profile",
              say: "have the e-mail address of my profile replaced",
              match: { tool: TRANSFER },
            },
          ],
        },
        // Cancelling to book it again with insurance is the way around that an agent might propose.
        proof: { reason: "change_of_plan", tempting: [{ ...cancel(trip), rule: 23 }] },
      };
  },
};

/** Row 38: a premium alone can't be paid back by any tool. */
const premiumBack: Template = {
  row: 38,
  category: "transfer",
  gold: "- T",
  rules: [2, 7, 26],
  *drafts(world) {
    const { db } = world;
    for (const { customer, trip } of eachTrip(world, (one) => isAhead(db, one) && one.insurance === "yes")) {
      const premium = 30 * trip.passengers.length;
      yield {
        customer,
        instruction:
          `${intro(customer)} You took out insurance for your trip ${trip.reservation_id} by mistake. You keep the trip, but ` +
          "want the insurance taken off and its price paid back. Where the agent can't do that, ask for a human agent.",
        actions: [transfer],
        script: {
          opening: ["premium"],
          facts: { reservation_id: trip.reservation_id, insurance: "I don't want it any more" },
          goals: [
            {
              id: "premium",
              kind: "insurance",
              say: `take the insurance off trip ${trip.reservation_id} and pay it back`,
              match: { tool: TRANSFER },
            },
          ],
        },
        proof: {
          tempting: [{ name: "send_certificate", kwargs: { user_id: customer.id, amount: premium }, rule: 26 }],
        },
      };
    }
  },
};

export const transfers: readonly Template[] = [partlyFlown, emergency, lateInsurance, premiumBack];
