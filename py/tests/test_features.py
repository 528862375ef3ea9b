"""Versions outside the pins warn; only a feature that is missing refuses."""

import inspect
import types

import pytest
import trl
from trainers import features, preflight
from trainers.features import GRPO_SOURCE, LIBRARIES, SFT_SOURCE, VLLM_SOURCE, missing_features, pins, version_warnings


@pytest.fixture
def versions(monkeypatch):
    """Pretends that a library has another version."""
    real = features.installed

    def pretend(**given):
        monkeypatch.setattr(features, "installed", lambda name: given.get(name, real(name)))

    return pretend


@pytest.fixture
def without(monkeypatch):
    """TRL's source without a text."""
    real = inspect.getsource

    def pretend(text):
        monkeypatch.setattr(features.inspect, "getsource", lambda module: real(module).replace(text, ""))

    return pretend


@pytest.mark.parametrize("recipe", ["sft", "grpo"])
def test_what_is_installed_here_has_all(recipe):
    assert missing_features(recipe, use_vllm=True) == ([], [])
    assert missing_features("play") == ([], [])


def test_every_library_is_pinned():
    assert set(LIBRARIES) <= set(pins())


@pytest.mark.parametrize(
    ("recipe", "text", "meaning"),
    [("grpo", *each) for each in {**GRPO_SOURCE, **VLLM_SOURCE}.items()]
    + [("sft", *each) for each in SFT_SOURCE.items()],
)
def test_a_feature_that_an_older_trl_has_not_is_refused_by_name(recipe, text, meaning, versions, without):
    without(text)
    versions(trl="1.4.0")
    ([problem], warned) = missing_features(recipe, use_vllm=True)
    assert f"TRL 1.4.0 lacks {meaning}. Install TRL {pins()['trl']}" in problem and not warned
    assert preflight.trainer_problems(recipe, {"use_vllm": True} if recipe == "grpo" else {})[0] == [problem]
    versions(trl="2.0.0")  # may call it otherwise
    (problems, [warning]) = missing_features(recipe, use_vllm=True)
    assert not problems and f"TRL 2.0.0 may lack {meaning}" in warning


def test_vllms_features_count_only_with_vllm(without):
    without(next(iter(VLLM_SOURCE)))
    assert missing_features("grpo") == ([], [])
    assert missing_features("grpo", use_vllm=True)[0]


def test_a_config_key_that_we_set_and_a_missing_argument_are_refused(monkeypatch, versions):
    versions(trl="0.20.0")
    monkeypatch.setitem(features.SET_BY_US, "grpo", features.SET_BY_US["grpo"] + " flux_capacity")
    assert "TRL 0.20.0 lacks GRPOConfig.flux_capacity." in missing_features("grpo")[0][0]
    monkeypatch.undo()
    monkeypatch.setattr(trl.GRPOTrainer, "__init__", lambda self, model, args: None)
    assert "lacks GRPOTrainer's rollout_func." in missing_features("grpo")[0][0]


def test_a_trl_that_cannot_be_imported_is_refused_with_the_reason(monkeypatch):
    def broken():
        raise RuntimeError("Failed to import trl.trainer.grpo_trainer") from ModuleNotFoundError(
            "No module named 'requests'"
        )

    monkeypatch.setattr(features, "_trl_classes", lambda recipe: broken())
    assert "can't be imported here: No module named 'requests'" in missing_features("grpo")[0][0]


@pytest.mark.parametrize(
    "module",
    [
        types.SimpleNamespace(),
        types.SimpleNamespace(Cache=type("Cache", (), {"__init__": lambda self, key_cache: None}), DynamicLayer=object),
    ],
    ids=["before there were layers", "a cache of one piece"],
)
def test_a_transformers_without_caches_made_of_layers_is_refused(module):
    assert "lacks caches made of layers" in features._cache_problem(lambda: module)


def test_other_versions_are_one_warning_and_no_refusal(versions):
    assert version_warnings() == [] or "torch" in version_warnings()[0]
    versions(torch="2.11.0", transformers="5.17.0")
    [warning] = version_warnings()
    result = preflight.run({"recipe": "grpo", "trainer": {}, "model": "no/such/folder"}, None)
    assert result["warnings"] == [warning] and len(result["problems"]) == 1  # the folder
    assert f"torch 2.11.0 (tested: {pins()['torch']})" in warning
    assert f"transformers 5.17.0 (tested: {pins()['transformers']})" in warning
