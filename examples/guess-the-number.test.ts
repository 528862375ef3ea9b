import { envContract } from "../src/core/env-contract.ts";
import { spec } from "./guess-the-number.ts";

envContract(spec, { disjoint: [["train", "test"]] });
