import { iterate } from "../data/python-ops.ts";
import { PythonError } from "../data/python-values.ts";
import { evaluate } from "./calculator.ts";
import { airlineTool, text } from "./define.ts";

export const calculate = airlineTool({
  name: "calculate",
  description: "Compute an arithmetic expression; the result is rounded to two decimals.",
  parameters: {
    expression: text("Expression of numbers, + - * / ( ) and blanks, such as '3 * (120 - 78)'."),
  },
  writes: false,
  run(state, { expression }) {
    if (typeof expression === "string") return { state, text: evaluate(expression) };
    iterate(expression);
    throw new PythonError("eval() arg 1 must be a string, bytes or code object");
  },
});
