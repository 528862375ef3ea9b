"""The converter reads literals, and runs nothing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "convert_tau_tasks.py"
GOOD = """
from tau_bench.types import Action, Task

TASKS = [
    Task(
        annotator="3",
        user_id="kim_lee_1234",
        instruction=("Two " "parts é"),
        actions=[Action(name="send_certificate", kwargs={"user_id": "kim_lee_1234", "amount": 50})],
        outputs=["1,786"],
    ),
    Task(user_id="a_b_1", instruction="", actions=[]),
]
"""


def convert(tmp_path: Path, text: str | bytes) -> subprocess.CompletedProcess:
    path = tmp_path / "tasks_test.py"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return subprocess.run([sys.executable, "-I", SCRIPT, path], capture_output=True, text=True, check=False, timeout=60)


def test_tasks_are_read_and_integers_stay_integers(tmp_path):
    done = convert(tmp_path, GOOD)
    assert done.returncode == 0, done.stderr
    first, second = json.loads(done.stdout)
    assert first == {
        "task_index": 0,
        "annotator": "3",
        "user_id": "kim_lee_1234",
        "instruction": "Two parts é",
        "actions": [{"name": "send_certificate", "kwargs": {"user_id": "kim_lee_1234", "amount": 50}}],
        "outputs": ["1,786"],
        "source": "tau",
    }
    assert '"amount": 50}' in done.stdout
    assert second["task_index"] == 1 and second["outputs"] == [] and second["annotator"] == ""


TASK = "TASKS = [Task(user_id='a_b_1', instruction='', actions=[%s])]"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TASK % "Action(name='x', kwargs=dict(a=1))", "line 1: kwargs is no literal: dict(a=1)"),
        (TASK % "Action(name='x', kwargs={'a': open('/etc/passwd').read()})", "kwargs is no literal"),
        (TASK % "Action(name='x', kwargs={'a': f'{1}'})", "kwargs is no literal"),
        (TASK % "Action(name='x')", "an Action has no kwargs"),
        (TASK % "Action(kwargs={})", "an Action has no name"),
        (TASK % "Action('x', {})", "Action takes keyword arguments alone"),
        (TASK % "Action(name='x', kwargs={}, more=1)", "Action has no argument more"),
        (TASK % "Action(**{'name': 'x', 'kwargs': {}})", "Action has no argument **"),
        (TASK % "print('x')", "expected Action(...)"),
        (TASK % "Action(name='x', kwargs={'a': {1}})", "kwargs holds what JSON can't"),
        (TASK % "Action(name='x', kwargs={'a': 1e999})", "kwargs holds what JSON can't"),
        (TASK % "Action(name='x', kwargs={1: 2})", "kwargs holds what JSON can't"),
        (TASK % "Action(name=7, kwargs={})", "name is no str"),
        ("TASKS = [Task(instruction='', actions=[])]", "task 0 has no user_id"),
        ("TASKS = [Task(user_id='a', instruction='', actions=[], extra=1)]", "Task has no argument extra"),
        ("TASKS = [Task(user_id='a', instruction='', actions=[], outputs=[4])]", "an output is 4, not a text"),
        ("TASKS = [Task(user_id='a', instruction='', actions=ACTIONS)]", "actions is no list"),
        ("TASKS = [t for t in ()]", "TASKS is no list"),
        ("TASKS = []\nTASKS = []", "expected one assignment to TASKS, found 2"),
        ("x = 1", "expected one assignment to TASKS, found 0"),
        ("TASKS = [", "line 1: '[' was never closed"),
        (b"TASKS = [\0]", "null byte"),
        ("TASKS = " + "[" * 5000 + "]" * 5000, ""),
    ],
)
def test_what_is_no_literal_is_refused_with_its_place(tmp_path, text, message):
    done = convert(tmp_path, text)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_code_in_the_file_does_not_run(tmp_path):
    trap = tmp_path / "ran"
    write = f"__import__('pathlib').Path({str(trap)!r}).write_text('x')"
    for text in (
        f"{write}\n{GOOD}",
        f"TASKS = [Task(user_id={write}, instruction='', actions=[])]",
        TASK % f"Action(name='x', kwargs={{'a': {write}}})",
        f"class Task:\n    {write}\n{GOOD}",
    ):
        convert(tmp_path, text)
        assert not trap.exists()
