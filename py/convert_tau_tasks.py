"""Reads tasks out of a tau-bench module such as tasks_test.py, without running any of it, and prints them as JSON.

    python -I py/convert_tau_tasks.py tasks_test.py > tasks.json

The module assigns a list of Task(...) to TASKS. It is parsed, not imported: only literals are taken, and whatever else
stands there is refused with its line. Standard library alone, so any Python 3.10 does.
"""

import ast
import json
import math
import sys

NAMES = ("TASKS", "TASKS_TEST", "tasks")
TASK_FIELDS = {"annotator": str, "user_id": str, "instruction": str, "actions": list, "outputs": list}
ACTION_FIELDS = {"name": str, "kwargs": dict}


class Refused(Exception):
    """What can't be taken as data; the message says where."""

    def __init__(self, node: ast.AST, message: str) -> None:
        super().__init__(f"line {getattr(node, 'lineno', '?')}: {message}")


def read_tasks(source: bytes) -> list[dict]:
    """The tasks of a module, as the records of a file of tasks. Raises Refused, SyntaxError, ValueError."""
    found = [value for target, value in assignments(ast.parse(source)) if target in NAMES]
    if len(found) != 1:
        message = f"expected one assignment to {NAMES[0]}, found {len(found)}"
        raise ValueError(message)
    if not isinstance(found[0], ast.List):
        raise Refused(found[0], f"{NAMES[0]} is no list")
    return [read_task(node, index) for index, node in enumerate(found[0].elts)]


def assignments(module: ast.Module):
    for node in module.body:
        if isinstance(node, ast.Assign):
            yield from ((target.id, node.value) for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            yield node.target.id, node.value


def read_task(node: ast.expr, index: int) -> dict:
    given = keywords(node, "Task", TASK_FIELDS)
    for name in ("user_id", "instruction", "actions"):
        if name not in given:
            raise Refused(node, f"task {index} has no {name}")
    if not isinstance(given["actions"], ast.List):
        raise Refused(given["actions"], "actions is no list")
    fields = {name: literal(value, name, TASK_FIELDS[name]) for name, value in given.items() if name != "actions"}
    for text in fields.get("outputs", []):
        if not isinstance(text, str):
            raise Refused(given["outputs"], f"an output is {text!r}, not a text")
    return {
        "task_index": index,
        "annotator": fields.get("annotator", ""),
        "user_id": fields["user_id"],
        "instruction": fields["instruction"],
        "actions": [read_action(action) for action in given["actions"].elts],
        "outputs": fields.get("outputs", []),
        "source": "tau",
    }


def read_action(node: ast.expr) -> dict:
    given = keywords(node, "Action", ACTION_FIELDS)
    for name in ACTION_FIELDS:
        if name not in given:
            raise Refused(node, f"an Action has no {name}")
    return {name: literal(given[name], name, kind) for name, kind in ACTION_FIELDS.items()}


def keywords(node: ast.expr, name: str, known: dict) -> dict[str, ast.expr]:
    """The keyword arguments of a call name(...), and of nothing else."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name):
        raise Refused(node, f"expected {name}(...), got {ast.unparse(node)[:60]}")
    if node.args:
        raise Refused(node, f"{name} takes keyword arguments alone")
    given: dict[str, ast.expr] = {}
    for keyword in node.keywords:
        if keyword.arg not in known:
            raise Refused(keyword.value, f"{name} has no argument {keyword.arg or '**'}; expected {', '.join(known)}")
        given[keyword.arg] = keyword.value
    return given


def literal(node: ast.expr, name: str, kind: type):
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        raise Refused(node, f"{name} is no literal: {ast.unparse(node)[:60]}") from None
    if not isinstance(value, kind):
        raise Refused(node, f"{name} is no {kind.__name__}")
    if not is_json(value):
        raise Refused(node, f"{name} holds what JSON can't: {ast.unparse(node)[:60]}")
    return value


def is_json(value) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and is_json(item) for key, item in value.items())
    if isinstance(value, list):
        return all(is_json(item) for item in value)
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, (str, bool, int))


def main(argv: list[str]) -> int:
    if len(argv) != 1:
        print("usage: convert_tau_tasks.py tasks_test.py", file=sys.stderr)
        return 2
    try:
        with open(argv[0], "rb") as file:
            tasks = read_tasks(file.read())
    except (Refused, SyntaxError, ValueError, RecursionError, MemoryError, OSError) as error:
        message = f"line {error.lineno}: {error.msg}" if isinstance(error, SyntaxError) else str(error)
        print(f"{argv[0]}: {message or 'it is nested too deep'}", file=sys.stderr)
        return 2
    print(json.dumps(tasks))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
