"""The table of options in docs/grpo-options.md against the installed TRL, and the values that a run ends up with."""

import dataclasses
import re
from pathlib import Path

import pytest
from fake_host import FakeHost
from trainers import preflight
from trainers.preflight import ELSEWHERE, ELSEWHERE_BY_RECIPE, effective_values, trainer_problems
from trl import GRPOConfig

DOCS = (Path(__file__).parents[2] / "docs/grpo-options.md").read_text()
FIELDS = {field.name: field.default for field in dataclasses.fields(GRPOConfig)}
REFUSED = ELSEWHERE | ELSEWHERE_BY_RECIPE["grpo"]
OURS = {"logging_steps": 1}  # what build_trainer sets where nothing is given


def documented() -> dict[str, str]:
    """Key → default of every table of TRL's keys."""
    tables = DOCS[DOCS.index("\n## Algorithm") :]
    return dict(re.findall(r"^\| `(\w+)` +\| (.*?) +\|", tables, re.MULTILINE))


def test_every_key_that_can_be_set_stands_in_the_docs_and_no_other():
    usable = FIELDS.keys() - REFUSED.keys()
    assert documented().keys() - usable == set(), "the docs have keys that are refused, or that TRL does not have"
    assert usable - documented().keys() == set(), "add them to docs/grpo-options.md, or refuse them in preflight.py"


@pytest.mark.parametrize("key", sorted(documented()))
def test_the_docs_have_trls_default(key):
    default = OURS.get(key, FIELDS[key])
    if isinstance(default, bool):
        shown = str(default).lower()
    elif isinstance(default, float):
        shown = f"{default:g}"
    else:
        shown = {None: "none", "": "''"}.get(default, str(default))
    assert documented()[key] == shown


def test_what_is_refused_says_what_to_do_instead():
    for key, instead in REFUSED.items():
        if key in FIELDS:
            (problem,), _ = trainer_problems("grpo", {key: 1})
            assert problem == f"trainer.{key} cannot be set here: {instead}."


def test_effective_values_are_those_of_the_config_class():
    values = effective_values(GRPOConfig, {"gradient_accumulation_steps": 4, "scale_rewards": False, "beta": 0.1})
    assert values["steps_per_generation"] == 4 and values["generation_batch_size"] == 32
    assert values["scale_rewards"] == "none" and values["beta"] == 0.1 and values["loss_type"] == "dapo"
    assert values["lr_scheduler_type"] == "linear" and type(values["lr_scheduler_type"]) is str
    assert "output_dir" not in values and "bf16" not in values


def test_preflight_hands_them_on(tiny_folder):
    request = {"recipe": "grpo", "model": str(tiny_folder), "lora": None, "chat_template_kwargs": {}, "gold": []}
    budgets = dict.fromkeys(("max_turn_tokens", "max_episode_tokens", "max_context_tokens", "max_length"))
    good = preflight.run({**request, "budgets": budgets, "trainer": {"epsilon": 0.1}}, FakeHost())
    assert good["effective"]["epsilon"] == 0.1 and good["effective"]["delta"] is None
    bad = preflight.run({**request, "budgets": budgets, "trainer": {"epsilonn": 0.1}}, FakeHost())
    assert bad["effective"] == {} and not bad["ok"]
