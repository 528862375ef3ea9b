import { dictItem, withKeys } from "../data/python-ops.ts";
import { str } from "../data/python-text.ts";
import { PythonError, type PyValue } from "../data/python-values.ts";
import { findUser, withUser } from "../data/state.ts";
import { USER_ID } from "./arguments.ts";
import { airlineTool, number } from "./define.ts";

/** A user can be sent three in an episode. */
const IDS = ["certificate_3221322", "certificate_3221323", "certificate_3221324"];

export const sendCertificate = airlineTool({
  name: "send_certificate",
  description: "Send a customer a travel certificate. Use it with care.",
  parameters: { user_id: USER_ID, amount: number("Value of the certificate in dollars.") },
  writes: true,
  run(state, { user_id, amount }) {
    const user = findUser(state, user_id);
    if (!user) throw new PythonError("user not found");
    const methods = dictItem(user, "payment_methods");
    const id = IDS.find((candidate) => !methods.has(candidate));
    if (!id) throw new PythonError(`user ${str(user_id)} already has maximum number of certificates.`);
    const certificate = new Map<string, PyValue>([
      ["source", "certificate"],
      ["amount", amount],
      ["id", id],
    ]);
    const given = withKeys(user, [["payment_methods", withKeys(methods, [[id, certificate]])]]);
    return {
      state: withUser(state, user_id as string, given),
      text: `Certificate ${id} added to user ${str(user_id)} with amount ${str(amount)}.`,
    };
  },
});
