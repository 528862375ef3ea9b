"""A run that was stopped and goes on is the run that was not, to the last bit."""

import json
from pathlib import Path

import pytest
import torch
from fake_host import FakeHost
from safetensors.torch import load_file
from test_dpo import pair
from test_grpo import SAMPLING
from test_sft import row
from trainers import dpo, grpo, sft
from trainers.checkpoints import COMPLETE, step_of

GRPO = {"per_device_train_batch_size": 8, "num_generations": 4, "learning_rate": 1e-2, "loss_type": "dapo", "beta": 0.0}
LORA = {"r": 4, "lora_alpha": 8, "lora_dropout": 0.2, "target_modules": "all-linear"}
DYNAMIC = {"metric": "reward", "std_threshold": 0.0, "max_resamples": 8, "on_exhausted": "fill_with_best_std"}
SHAPING = {
    "advantage": "lata",
    "alpha": 1.05,
    "alpha_unit": "token",
    "length_norm": None,
    "length_base": "tokens",
    "kl_estimator": "squared",
}
# What a clock or the machine decides
TIMES = ("runtime", "per_second", "_s", "step_time", "/s", "total_flos")


@pytest.fixture
def request_of(tiny_folder, tmp_path):
    def build(name, trainer, **changes):
        rows = tmp_path / "rows.jsonl"
        rows.write_text("\n".join(json.dumps(row(number, words=number % 5)) for number in range(10)))
        pairs = tmp_path / "pairs.jsonl"
        pairs.write_text("\n".join(json.dumps(pair(number)) for number in range(10)))
        return {
            "model": str(tiny_folder),
            "pairs_path": str(pairs),
            "policy": "model:tiny",
            "output_dir": str(tmp_path / name),
            "seed": 5,
            "trainer": {"max_steps": 6, "save_strategy": "no", **trainer},
            "lora": None,
            "chat_template_kwargs": {},
            "task_ids": ["a", "b", "c"],
            "sampling": SAMPLING,
            "rows_path": str(rows),
            "max_length": 512,
            "matrix_learning_rate": None,
            **changes,
        }

    return build


def weights(request) -> dict[str, torch.Tensor]:
    [file] = Path(request["output_dir"], "final").glob("*.safetensors")
    return load_file(file)


def curves(*hosts):
    """What was logged, without what a clock decides; the end of training is no step."""
    return [
        (log["step"], {name: value for name, value in log["metrics"].items() if not any(t in name for t in TIMES)})
        for host in hosts
        for log in host.logs
        if "train_loss" not in log["metrics"]
    ]


def played(*hosts):
    return [(start["policy_step"], start["episodes"]) for host in hosts for start in host.starts]


def interrupted(run, request, stop_at_step=3):
    """The run, stopped after a step and resumed by another process's trainer. Returns its result and both hosts."""
    first, second = FakeHost(stop_at_step=stop_at_step), FakeHost()
    run(request, first)
    checkpoints = sorted(Path(request["output_dir"]).glob("checkpoint-*"), key=step_of)
    assert (checkpoints[-1] / COMPLETE).is_file()
    return run({**request, "resume_from": str(checkpoints[-1])}, second), first, second


def same_as_unbroken(run, request_of, trainer, stop_at_step=3, **changes):
    whole, broken = request_of("whole", trainer, **changes), request_of("broken", trainer, **changes)
    host = FakeHost()
    expected = run(whole, host)
    result, first, second = interrupted(run, broken, stop_at_step)
    assert played(first, second) == played(host)
    assert curves(first, second) == curves(host)
    figures = ("steps", "train_loss", "stop_reason", "rollouts", "policy_tokens")
    assert {name: result.get(name) for name in figures} == {name: expected.get(name) for name in figures}
    for name, weight in weights(whole).items():
        assert torch.equal(weight, weights(broken)[name]), name
    return first, second


@pytest.mark.parametrize(
    "trainer, changes",
    [
        ({}, {}),
        ({"gradient_accumulation_steps": 2, "lr_scheduler_type": "cosine", "optim": "adamw_torch"}, {}),
        ({"steps_per_generation": 2, "num_iterations": 2}, {}),
        ({"logging_steps": 4, "beta": 0.1}, {}),
        ({"beta": 0.1}, {"lora": LORA}),
        ({}, {"stages": [{"from_step": 0, "task_ids": ["a"]}, {"from_step": 4, "task_ids": ["a", "b", "c"]}]}),
        ({}, {"task_ids": list("abcdefghi")}),
        ({}, {"task_ids": list("abcdefghi"), "dynamic_sampling": DYNAMIC}),
        ({"beta": 0.1}, {"task_ids": list("abcdef"), "dynamic_sampling": DYNAMIC, "lora": LORA}),
        ({"beta": 0.1, "steps_per_generation": 2, "num_iterations": 2}, {"shaping": SHAPING}),
    ],
    ids=[
        "plain",
        "accumulation",
        "rollouts used again",
        "logs of several steps",
        "lora",
        "curriculum",
        "within an epoch",
        "dynamic sampling",
        "dynamic sampling of an adapter",
        "shaped",
    ],
)
def test_grpo_goes_on_as_if_it_had_never_stopped(request_of, trainer, changes):
    same_as_unbroken(grpo.run, request_of, {**GRPO, **trainer}, **changes)


@pytest.mark.parametrize("stop_at_step", [1, 2, 5])
@pytest.mark.parametrize(
    "trainer, changes",
    [
        ({}, {}),
        ({"train_sampling_strategy": "group_by_length"}, {"matrix_learning_rate": 0.01}),
        ({}, {"lora": LORA}),
    ],
    ids=["random order", "length batches and muon", "lora"],
)
def test_ck_03_sft_goes_on_in_a_later_epoch(request_of, trainer, changes, stop_at_step):
    settings = {"per_device_train_batch_size": 4, "learning_rate": 1e-2, **trainer}  # an epoch is three steps
    same_as_unbroken(sft.run, request_of, settings, stop_at_step, **changes)


@pytest.mark.parametrize(
    "trainer, changes",
    [
        ({"sync_ref_model": True, "ref_model_sync_steps": 2}, {}),
        ({"disable_dropout": False}, {"lora": LORA}),
    ],
    ids=["moving reference", "lora"],
)
def test_dpo_goes_on(request_of, trainer, changes):
    settings = {"per_device_train_batch_size": 4, "learning_rate": 1e-3, **trainer}
    same_as_unbroken(dpo.run, request_of, settings, **changes)


def test_old_checkpoints_go_once_the_new_one_is_whole(request_of):
    request = request_of(
        "run", {**GRPO, "max_steps": 4, "save_strategy": "steps", "save_steps": 1, "save_total_limit": 2}
    )
    folder = Path(request["output_dir"])
    seen = []

    class Watching(FakeHost):
        def _checkpoint(self, payload):
            seen.append(sorted(path.parent.name for path in folder.glob(f"checkpoint-*/{COMPLETE}")))
            return super()._checkpoint(payload)

    grpo.run(request, Watching())
    assert seen[-1] == ["checkpoint-2", "checkpoint-3"], "the new one is not whole yet, and both old ones are there"
    assert sorted(path.name for path in folder.glob("checkpoint-*")) == ["checkpoint-3", "checkpoint-4"]
    mark = json.loads((folder / "checkpoint-4" / COMPLETE).read_text())
    sizes = {
        path.relative_to(folder / "checkpoint-4").as_posix(): path.stat().st_size
        for path in (folder / "checkpoint-4").rglob("*")
        if path.is_file() and path.name != COMPLETE
    }
    assert mark == {"step": 4, "ranks": 1, "files": sizes}
    assert {"model.safetensors", "optimizer.pt", "rng_state.pth", "rank-0.pt", "rank-0.json"} <= sizes.keys()


def test_ck_02_names_are_numbers():
    assert [step_of(Path(name)) for name in ("checkpoint-900", "checkpoint-1000", "checkpoint-best", "x")] == [
        900,
        1000,
        -1,
        -1,
    ]
