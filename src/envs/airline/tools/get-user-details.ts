import { toJson } from "../data/python-json.ts";
import { PythonError } from "../data/python-values.ts";
import { findUser } from "../data/state.ts";
import { USER_ID } from "./arguments.ts";
import { airlineTool } from "./define.ts";

export const getUserDetails = airlineTool({
  name: "get_user_details",
  description: "Show a customer's profile: membership, payment methods, saved passengers, reservation codes.",
  parameters: { user_id: USER_ID },
  writes: false,
  run(state, { user_id }) {
    const user = findUser(state, user_id);
    if (!user) throw new PythonError("user not found");
    return { state, text: toJson(user) };
  },
});
