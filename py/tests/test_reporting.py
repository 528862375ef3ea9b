"""Report backends: checked before a model loads, fed with the names that stand in metrics.jsonl."""

import os
import sys

import pytest
from fake_host import FakeHost
from test_grpo import request_of as request_of
from trainers import grpo, preflight, reporting
from trainers.reporting import report_problems, reporting_arguments


@pytest.fixture(autouse=True)
def nobody_is_logged_in(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    for name in list(os.environ):
        if name.startswith(("WANDB_", "SWANLAB_", "TENSORBOARD_")) or name in ("NETRC", "HF_TOKEN"):
            monkeypatch.delenv(name)
    for variable in reporting._USERS_OWN:
        monkeypatch.setitem(reporting._USERS_OWN, variable, None)
        monkeypatch.setenv(variable, "before")  # put back after the test
        monkeypatch.delenv(variable)
    return tmp_path / "home"


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """Makes packages of these names findable. They are never imported by the checks."""

    def install(*names):
        for name in names:
            folder = tmp_path / "packages" / name
            folder.mkdir(parents=True)
            (folder / "__init__.py").write_text("raise RuntimeError('imported')\n")
        monkeypatch.syspath_prepend(str(tmp_path / "packages"))

    return install


def problem(report_to, **trainer):
    found = report_problems({"report_to": report_to, **trainer})
    assert len(found) <= 1, found
    return found[0] if found else None


@pytest.mark.parametrize("fine", ["none", "auto", None, [], ["none"], "tensorboard", ["tensorboard"], " tensorboard "])
def test_what_needs_nothing_is_fine(fine):
    assert problem(fine) is None


def test_a_backend_must_be_known_and_installed():
    assert "'tensorbord'; expected one of none, auto, tensorboard, wandb, trackio, swanlab" in problem("tensorbord")
    assert "mlflow" in problem("tensorboard,mlflow")
    assert "leave it out" in problem(["none", "tensorboard"])
    missing = [name for name in reporting.BACKENDS if not reporting._is_installed(name)]
    for name in missing:
        assert f"'{name}', which is not installed: pip install {name}" in problem(name)
    assert len(report_problems({"report_to": "x,y"})) == 2


@pytest.mark.parametrize(
    ("name", "environment"),
    [
        ("wandb", {"WANDB_MODE": "offline"}),
        ("wandb", {"WANDB_MODE": "disabled"}),
        ("wandb", {"WANDB_API_KEY": "k"}),
        ("swanlab", {"SWANLAB_MODE": "offline"}),
        ("swanlab", {"SWANLAB_MODE": "local"}),
        ("swanlab", {"SWANLAB_API_KEY": "k"}),
    ],
)
def test_a_login_that_would_be_asked_for_in_the_run_is_told_before(name, environment, installed, monkeypatch):
    installed(name)
    assert "nobody is logged in to it here" in problem(name) and f"{name} login" in problem(name)
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    assert problem(name) is None


def test_a_login_of_before_is_found_where_the_tools_keep_it(installed, nobody_is_logged_in, monkeypatch):
    home = nobody_is_logged_in
    installed("wandb", "swanlab", "trackio")
    (home / ".netrc").write_text("machine api.wandb.ai login user password secret\n")
    assert problem("wandb") is None
    monkeypatch.setenv("WANDB_BASE_URL", "https://wandb.example.com")
    assert problem("wandb"), "logged in elsewhere"
    (home / ".netrc").write_text("this is no netrc\n")
    assert problem("wandb")
    (home / ".swanlab").mkdir()
    (home / ".swanlab" / ".netrc").write_text("machine api.swanlab.cn login x password y\n")
    assert problem("swanlab") is None
    assert problem("trackio") is None, "without a space it logs to this machine"
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    assert "trackio_space_id" in problem("trackio", trackio_space_id="me/space")


def test_auto_takes_what_can_work_here(installed, request_of):
    installed("swanlab")
    names = reporting_arguments({**request_of(), "trainer": {"report_to": "auto"}})["report_to"]
    assert "tensorboard" in names and "swanlab" not in names


def test_files_go_to_the_run_folder_unless_the_user_says_where(request_of, monkeypatch):
    for run in ("one", "two"):
        arguments = reporting_arguments(request_of(output_dir=f"/runs/{run}", trainer={"report_to": "tensorboard"}))
        assert arguments == {"report_to": ["tensorboard"], "run_name": run}
        assert os.environ["TENSORBOARD_LOGGING_DIR"] == f"/runs/{run}/tensorboard"
        assert "WANDB_DIR" not in os.environ
    monkeypatch.setitem(reporting._USERS_OWN, "TENSORBOARD_LOGGING_DIR", "/logs")
    reporting_arguments(request_of(trainer={"report_to": "tensorboard"}))
    assert os.environ["TENSORBOARD_LOGGING_DIR"] == "/logs"
    named = reporting_arguments(request_of(trainer={"run_name": "mine"}))
    assert named == {"report_to": ["none"], "run_name": "mine"}


def test_the_checks_of_a_recipe_ask_before_the_model_loads(request_of):
    problems, _ = preflight.trainer_problems("grpo", {"report_to": ["tensorboard", "nowhere"]})
    assert len(problems) == 1 and "'nowhere'" in problems[0]
    with pytest.raises(preflight.UserError, match="'nowhere'"):
        grpo.run(request_of(model="/nowhere", trainer={"report_to": "nowhere"}), FakeHost())


def test_tensorboard_gets_every_figure_of_the_log_under_its_name(request_of, tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    host = FakeHost(reward=lambda episode: episode.trial / 3, reward_weights={"length": 0.7})
    canary = {"task_ids": ["easy"], "generations": 2, "steps": 1, "min_reward": -0.9, "patience": 3}
    guards = {
        "allow_zero_variance": False,
        "min_entropy_share": 0.01,
        "max_repetition": 0.8,
        "max_clipped_share": 0.95,
        "collapse_patience": 10,
        "canary": canary,
    }
    grpo.run(request_of(trainer={"report_to": "tensorboard"}, guards=guards), host)
    [file] = (tmp_path / "run" / "tensorboard").glob("events.*")
    events = accumulator.EventAccumulator(str(file))
    events.Reload()
    names = {name.removeprefix("train/") for name in events.Tags()["scalars"]}
    logged = {name for log in host.logs for name in log["metrics"]}
    assert names == logged
    tasks = {start["episodes"][0]["task_id"] for start in host.starts if start["purpose"] == "training"}
    assert tasks
    for name in [
        "reward_components/length",
        "reward_weights/length",
        *(f"rollout/{each}" for each in ("turns", "finished", "parse_error_rate", "tool_error_rate")),
        *(f"reward_by_task/{task}/{each}" for task in tasks for each in ("mean", "std", "zero_std")),
        "canary/reward",
        "sampling/entropy",
    ]:
        assert name in names, name
    for log in host.logs[:2]:
        for name, value in log["metrics"].items():
            stored = {event.step: event.value for event in events.Scalars(f"train/{name}")}
            assert stored[log["step"]] == pytest.approx(value, rel=1e-5), name
        # the tasks of that step alone
        played = {
            each["task_id"]
            for start in host.starts
            if start["purpose"] == "training" and start["policy_step"] == log["step"] - 1
            for each in start["episodes"]
        }
        assert {name.split("/")[1] for name in log["metrics"] if name.startswith("reward_by_task/")} == played


def test_no_backend_is_imported_by_the_checks():
    assert not {"wandb", "swanlab", "trackio"} & sys.modules.keys()
