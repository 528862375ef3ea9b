"""What is refused before a model loads, and what a refusal says."""

import os

import pytest
import torch
from fake_host import FakeHost, prompt_of
from trainers import preflight
from trainers.preflight import budget_problems, longest_run, trainer_problems


@pytest.fixture
def request_of(tiny_folder):
    def build(**changes):
        request = {
            "recipe": "grpo",
            "model": str(tiny_folder),
            "trainer": {},
            "lora": None,
            "chat_template_kwargs": {},
            "gold": [],
            "budgets": dict.fromkeys(("max_turn_tokens", "max_episode_tokens", "max_context_tokens", "max_length")),
        }
        return {**request, **changes}

    return build


def gold(reply: str, turns: int = 2) -> dict:
    observations = [{"role": "user", "content": "go on"}]
    played = [{"reply": reply, "observations": observations if turn < turns - 1 else []} for turn in range(turns)]
    return {"id": "g", "task_id": "g", "prompt": prompt_of("g"), "turns": played}


@pytest.mark.parametrize(
    ("recipe", "trainer", "says"),
    [
        ("grpo", {"num_generation": 4}, ["trainer.num_generation", "GRPOConfig", "num_generations"]),
        ("grpo", {"max_prompt_length": 512}, ["trainer.max_prompt_length", "max_context_tokens"]),
        ("sft", {"learnin_rate": 1e-4}, ["trainer.learnin_rate", "SFTConfig", "'learning_rate'"]),
        ("grpo", {"temperature": 0.7}, ["trainer.temperature", "--temperature"]),
        ("sft", {"packing": True}, ["trainer.packing"]),
        ("sft", {"output_dir": "x"}, ["trainer.output_dir", "run folder"]),
        ("grpo", {"loss_type": "dappo"}, ["trainer.loss_type is 'dappo'", "dapo"]),
        ("grpo", {"warmup_ratio": 0.1}, ["trainer.warmup_ratio", "'warmup_steps'"]),
        ("grpo", {"report_to": "tensorbord"}, ["'tensorbord'", "tensorboard"]),
        ("sft", {"lr_scheduler_type": "cosin"}, ["SFTConfig refuses", "cosin"]),
        ("sft", {"learning_rate": "abc"}, ["trainer.learning_rate is 'abc'; expected a number."]),
        ("sft", {"learning_rate": True}, ["trainer.learning_rate is True; expected a number."]),
        ("sft", {"learning_rate": float("nan")}, ["trainer.learning_rate is nan; expected a finite number."]),
        ("sft", {"learning_rate": -1e-5}, ["trainer.learning_rate is -1e-05; expected 0 or more."]),
        ("sft", {"max_steps": 1.5}, ["trainer.max_steps is 1.5; expected a whole number."]),
        ("sft", {"max_steps": -5}, ["trainer.max_steps is -5; expected -1 or more."]),
        (
            "grpo",
            {"max_steps": 0},
            ["trainer.max_steps is 0; expected 1 or more, or -1, where num_train_epochs counts."],
        ),
        ("sft", {"bf16": "maybe"}, ["trainer.bf16 is 'maybe'; expected true or false or null."]),
        ("sft", {"per_device_train_batch_size": 0}, ["expected 1 or more"]),
        ("grpo", {"num_generations": "abc"}, ["trainer.num_generations is 'abc'; expected a whole number or null."]),
        ("grpo", {"num_generations": 2.5}, ["trainer.num_generations is 2.5; expected a whole number"]),
        ("grpo", {"per_device_train_batch_size": -8}, ["expected 1 or more"]),
        ("grpo", {"beta": [0.1]}, ["trainer.beta is [0.1]; expected a number."]),
    ],
)
def test_ln_05_trainer_keys_that_do_not_fit_are_refused_with_what_to_do(recipe, trainer, says):
    problems, _ = trainer_problems(recipe, trainer)
    assert problems
    for text in says:
        assert text in " ".join(problems)


@pytest.mark.parametrize(
    ("trainer", "says"),
    [
        ({"num_generations": 3, "per_device_train_batch_size": 4}, ["4 rollouts", "groups of 3", "as 3"]),
        ({"num_generations": 1, "per_device_train_batch_size": 4}, ["num_generations is 1", "at least 2"]),
        ({"num_generations": 8, "per_device_train_batch_size": 4, "gradient_accumulation_steps": 3}, ["12 rollouts"]),
        ({"generation_batch_size": 8, "steps_per_generation": 2}, ["set one of them"]),
    ],
)
def test_tr_13_batches_that_do_not_hold_whole_groups_are_refused_with_the_numbers(trainer, says):
    (problem,), _ = trainer_problems("grpo", trainer)
    for text in says:
        assert text in problem


@pytest.mark.parametrize(
    "trainer",
    [
        {},
        {"num_generations": 4, "per_device_train_batch_size": 4, "loss_type": "dapo", "epsilon_high": 0.28},
        {"num_generations": 8, "per_device_train_batch_size": 4, "gradient_accumulation_steps": 2},
        {"num_generations": 8, "per_device_train_batch_size": 2, "generation_batch_size": 16},
        {"mask_truncated_completions": True, "importance_sampling_level": "sequence", "report_to": ["tensorboard"]},
    ],
)
def test_good_trainer_blocks_pass(trainer):
    assert trainer_problems("grpo", trainer)[0] == []


def test_longest_run():
    assert longest_run([0, 1, 1, 0, 1, 1, 1]) == 3
    assert longest_run([]) == 0


LONGEST = {"prompt": 100, "turn": 61, "policy": 150, "observation": 200, "total": 450, "least_total": 400}


def test_a_budget_too_small_for_the_gold_solution_is_refused_with_64_tokens_to_spare():
    problems, _ = budget_problems(LONGEST, {"max_turn_tokens": 48, "max_episode_tokens": 149}, None)
    assert (
        "max_turn_tokens is 48" in problems[0] and "61 tokens" in problems[0] and "--max-turn-tokens 125" in problems[0]
    )
    assert "--max-episode-tokens 214" in problems[1]


def test_a_budget_that_only_just_fits_is_a_warning():
    problems, (warning,) = budget_problems(LONGEST, {"max_turn_tokens": 62}, None)
    assert not problems and "62" in warning


def test_the_models_own_context_is_a_limit_too():
    problems, _ = budget_problems(LONGEST, {"max_context_tokens": None}, 400)
    assert "400 positions" in problems[0] and "450" in problems[0]


def test_rows_longer_than_max_length_are_refused_where_all_that_were_sent_are():
    assert budget_problems(LONGEST, {"max_length": 420}, None) == ([], [])  # the longest may be left out
    (problem,), _ = budget_problems(LONGEST, {"max_length": 399}, None)
    assert "max_length is 399" in problem and "--max-length 450" in problem


def test_gold_solutions_are_measured_in_the_models_own_tokens(request_of):
    result = preflight.run(request_of(gold=[gold("yes"), gold("yes " * 30, turns=3)]), FakeHost())
    assert result["ok"], result["problems"]
    longest = result["longest"]
    assert longest["turn"] > 30 and longest["policy"] == 3 * longest["turn"]
    assert 0 < longest["least_total"] < longest["total"]
    assert longest["total"] == longest["prompt"] + longest["policy"] + longest["observation"]


def test_all_problems_are_named_at_once(request_of):
    budgets = {"max_turn_tokens": 5, "max_episode_tokens": 5}
    result = preflight.run(
        request_of(trainer={"num_generation": 4}, gold=[gold("yes " * 30)], budgets=budgets), FakeHost()
    )
    assert not result["ok"] and len(result["problems"]) == 3


def test_a_missing_model_and_a_tokenizer_without_a_template_are_problems_not_crashes(request_of, tmp_path, tiny_folder):
    assert "no such folder" in preflight.run(request_of(model=str(tmp_path / "none")), FakeHost())["problems"][0]
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_folder)
    tokenizer.chat_template = None
    tokenizer.save_pretrained(tmp_path / "base")
    (tmp_path / "base" / "config.json").write_text((tiny_folder / "config.json").read_text())
    (problem,) = preflight.run(request_of(model=str(tmp_path / "base")), FakeHost())["problems"]
    assert "chat template" in problem


def test_loras_keys_and_target_modules_are_checked_without_weights(request_of):
    assert preflight.run(request_of(lora={"r": 4, "target_modules": ["q_proj"]}), FakeHost())["problems"] == []
    for lora, says in (({"target_modules": ["nope"]}, "lora.target_modules ['nope']"), ({"rank": 4}, "lora.rank")):
        (problem,) = preflight.run(request_of(lora=lora), FakeHost())["problems"]
        assert says in problem


def test_a_batch_of_all_processes_holds_whole_groups(request_of):
    trainer = {"per_device_train_batch_size": 2, "num_generations": 4}
    assert trainer_problems("grpo", trainer, 2) == ([], [])
    assert trainer_problems("grpo", {"per_device_train_batch_size": 4, "num_generations": 8}, 4) == ([], [])
    ((problem,), _) = trainer_problems("grpo", {**trainer, "num_generations": 3}, 2)
    assert problem.startswith("4 rollouts a step (per_device_train_batch_size 2 × 1 × 2 processes) do not divide")
    assert preflight.run(request_of(trainer=trainer, processes=1), FakeHost())["problems"]
    assert preflight.run(request_of(trainer=trainer, processes=2), FakeHost())["problems"] == []


def test_checking_under_a_launcher_waits_for_no_other_process(monkeypatch):
    place = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    for name, value in {**place, "ACCELERATE_USE_FSDP": "true"}.items():
        monkeypatch.setenv(name, value)
    assert trainer_problems("grpo", {"per_device_train_batch_size": 4, "num_generations": 8}) == ([], [])
    assert trainer_problems("sft", {}) == ([], [])
    assert not torch.distributed.is_initialized()
    assert {name: os.environ[name] for name in place} == place and os.environ["ACCELERATE_USE_FSDP"] == "true"


@pytest.mark.parametrize(
    ("gpus", "processes", "trainer", "refused"),
    [(1, 2, {}, True), (2, 2, {}, False), (0, 2, {}, False), (1, 2, {"use_cpu": True}, False), (1, 1, {}, False)],
)
def test_each_process_takes_a_gpu_of_its_own(monkeypatch, gpus, processes, trainer, refused):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    problems = preflight.device_problems(processes, trainer)
    assert bool(problems) == refused
    if refused:
        assert problems[0].startswith("2 processes on this machine, which has 1 GPU: each takes one. Set --nproc 1,")
