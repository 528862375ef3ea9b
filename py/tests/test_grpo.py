"""GRPO: what the trainer is given, what becomes of it, and what it never learns from."""

import math

import pytest
import torch
from fake_host import FakeHost
from trainers import grpo, guards
from trainers.grpo import RolloutCallback, build_trainer
from trainers.model import UserError, load_policy
from trainers.plan import draw_prompts, plan_episodes, stage_at, stream_seed
from trainers.rollout import Rollout
from trainers.rollout_func import rollout_metrics, trainer_fields
from transformers import AutoModelForCausalLM, TrainerControl, TrainerState

SAMPLING = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "max_turn_tokens": 8,
    "max_episode_tokens": 32,
    "max_context_tokens": None,
}


@pytest.fixture
def request_of(tiny_folder, tmp_path):
    def build(trainer=None, sampling=None, **changes):
        small = {"max_steps": 2, "per_device_train_batch_size": 8, "num_generations": 4, "learning_rate": 1e-2}
        request = {
            "model": str(tiny_folder),
            "policy": "model:tiny",
            "output_dir": str(tmp_path / "run"),
            "seed": 5,
            "trainer": {**small, "save_strategy": "no", "loss_type": "dapo", "beta": 0.0, **(trainer or {})},
            "lora": None,
            "chat_template_kwargs": {},
            "task_ids": ["a", "b", "c"],
            "sampling": {**SAMPLING, **(sampling or {})},
        }
        return {**request, **changes}

    return build


def rewards_by_trial(*rewards):
    return lambda episode: rewards[episode.trial]


def one_batch(request, host):
    """A trainer with one generated and scored batch: the group of task a, and b where the batch holds two."""
    trainer, _ = build_trainer(request, load_policy(request), host)
    trainer.model.train()
    trainer.current_gradient_accumulation_steps = 1  # set by train()
    size = request["trainer"]["per_device_train_batch_size"]
    rows = [{"prompt": task} for task in ("a", "b") for _ in range(4)][:size]
    return trainer, trainer._generate_and_score_completions(rows)


def weights(folder) -> list[torch.Tensor]:
    return list(AutoModelForCausalLM.from_pretrained(folder).parameters())


def test_two_steps_learn_log_and_save(request_of, tiny_folder, tmp_path):
    host = FakeHost(reward_weights={"length": 0.7})
    result = grpo.run(request_of(), host)
    assert result["steps"] == 2 and result["rollouts"] == 16 and math.isfinite(result["train_loss"])
    assert result["stop_reason"] == "max_steps_or_epochs_completed" and not host.open
    assert any(
        not torch.equal(a, b) for a, b in zip(weights(tiny_folder), weights(tmp_path / "run" / "final"), strict=True)
    )
    metrics = host.logs[0]["metrics"]
    assert host.logs[0]["step"] == 1
    for name in ("turns", "finished", "truncated", "parse_error_rate", "tool_error_rate", "invalid", "success"):
        assert f"rollout/{name}" in metrics
    assert metrics["reward_components/length"] == pytest.approx(metrics["reward"])
    assert metrics["reward_weights/length"] == pytest.approx(0.7)
    assert "reward_components/style" not in metrics, "a component that judged nothing has no mean"
    parts = [metrics[f"time/{name}_s"] for name in ("sampling", "environment", "bridge", "learning")]
    assert min(parts) >= 0 and metrics["sampling/tokens_per_s"] > 0
    assert result["ask_s"] >= result["bridge_s"] > 0


def test_groups_share_task_and_seed_and_every_step_has_its_own(request_of):
    host = FakeHost()
    grpo.run(request_of(), host)
    assert [start["policy_step"] for start in host.starts] == [0, 1]
    seeds = set()
    for start in host.starts:
        for first in (0, 4):
            group = start["episodes"][first : first + 4]
            assert len({(each["task_id"], each["seed"]) for each in group}) == 1
            assert [each["trial"] for each in group] == [0, 1, 2, 3]
            seeds.add(group[0]["seed"])
    assert len(seeds) == 4


def test_one_seed_one_run_bit_for_bit(request_of, tmp_path):
    hosts = [FakeHost(), FakeHost(), FakeHost()]
    for name, host, seed in zip(("one", "two", "three"), hosts, (5, 5, 6), strict=True):
        grpo.run(request_of(output_dir=str(tmp_path / name), seed=seed), host)
    replies = [[each["episode"].replies for each in host.finished] for host in hosts]
    assert replies[0] == replies[1] != replies[2]
    assert len({tuple(each) for each in replies[0][:4]}) > 1, "the members of a group do not say the same"
    assert [log["metrics"].get("loss") for log in hosts[0].logs] == [
        log["metrics"].get("loss") for log in hosts[1].logs
    ]
    finals = [weights(tmp_path / name / "final") for name in ("one", "two")]
    assert all(torch.equal(a, b) for a, b in zip(*finals, strict=True))


@pytest.mark.parametrize(
    ("scale", "expected"),
    [
        # mean of the three is −0.5, their standard deviation (n − 1) 0.3
        ("group", [0.0, -0.3 / (0.3 + 1e-4), 0.0, 0.3 / (0.3 + 1e-4)]),
        ("none", [0.0, -0.3, 0.0, 0.3]),
    ],
)
def test_ls_06_a_failed_rollout_leaves_its_groups_statistics_to_the_others(request_of, scale, expected):
    host = FakeHost(reward=rewards_by_trial(-0.5, -0.8, None, -0.2))
    trainer, batch = one_batch(request_of(trainer={"per_device_train_batch_size": 4, "scale_rewards": scale}), host)
    assert batch["advantages"].tolist() == pytest.approx(expected, abs=1e-6)
    assert batch["tool_mask"][2].sum() == 0, "its tokens are no part of the loss, nor of its divisor"
    assert batch["num_items_in_batch"] == (batch["tool_mask"] * batch["completion_mask"]).sum()
    metrics = trainer._metrics["train"]
    assert metrics["rollout/invalid"] == [0.25] and metrics["reward"] == pytest.approx([-0.5])
    loss = trainer.compute_loss(trainer.model, batch)
    loss.backward()
    assert torch.isfinite(loss) and all(torch.isfinite(each.grad).all() for each in trainer.model.parameters())


def test_a_group_without_a_valid_rollout_teaches_nothing_and_breaks_nothing(request_of):
    host = FakeHost(reward=lambda episode: None if episode.task_id == "a" else episode.trial / 3)
    trainer, batch = one_batch(request_of(), host)
    assert batch["advantages"][:4].tolist() == [0, 0, 0, 0] and batch["advantages"][4:].abs().min() > 0
    assert trainer._metrics["train"]["frac_reward_zero_std"] == [0.5]
    assert torch.isfinite(trainer.compute_loss(trainer.model, batch))


def test_an_episode_that_failed_at_reset_is_a_row_that_counts_for_nothing(request_of):
    host = FakeHost(fails_at_reset=lambda episode: episode.trial == 1, reward=rewards_by_trial(0.0, 0.0, 1.0, 1.0))
    trainer, batch = one_batch(request_of(trainer={"per_device_train_batch_size": 4}), host)
    assert batch["tool_mask"][1].sum() == 0 and batch["advantages"][1] == 0
    assert torch.isfinite(trainer.compute_loss(trainer.model, batch))


@pytest.mark.parametrize("rewards", [(0.1 + 0.2, 0.3, 0.3, 0.3), (0.1, 0.1 + 4e-7, 0.1 - 4e-7, 0.1), (0.7,) * 4])
def test_ls_03_float_noise_in_the_rewards_is_no_advantage(request_of, rewards):
    host = FakeHost(reward=rewards_by_trial(*rewards))
    trainer, batch = one_batch(request_of(), host)
    assert batch["advantages"].tolist() == [0.0] * 8
    assert trainer._metrics["train"]["frac_reward_zero_std"] == [1.0]


@pytest.mark.parametrize("loss_type", ["grpo", "dapo", "bnpo", "dr_grpo"])
@pytest.mark.parametrize("cut_by", ["turns", "tokens"])
def test_ls_01_when_all_rollouts_are_truncated_and_masked_the_step_is_empty(request_of, tiny_folder, loss_type, cut_by):
    host = FakeHost(finishes=lambda episode: False, max_turns=2 if cut_by == "turns" else 50)
    request = request_of(
        trainer={"loss_type": loss_type, "mask_truncated_completions": True, "max_steps": 1},
        sampling={"max_episode_tokens": 16},
    )
    result = grpo.run(request, host)
    assert {each["ended_why"] for each in host.finished} == {cut_by}
    metrics = host.logs[0]["metrics"]
    assert metrics["loss"] == 0 and metrics["grad_norm"] == 0 and metrics["rollout/empty_step"] == 1
    assert metrics["rollout/truncated"] == 1 and metrics["rollout/out_of_tokens"] == (cut_by == "tokens")
    assert metrics["completions/mean_length"] > 0, "lengths are of what was sampled, masked or not"
    assert result["train_loss"] == 0
    assert all(
        torch.equal(a, b) for a, b in zip(weights(tiny_folder), weights(f"{request['output_dir']}/final"), strict=True)
    )


def test_truncated_rollouts_are_masked_only_when_asked_and_still_count_in_the_groups_mean(request_of):
    finishes = {"finishes": lambda episode: episode.trial != 0 and len(episode.replies) == 2}
    for masked in (True, False):
        host = FakeHost(reward=rewards_by_trial(0.0, 0.4, 0.8, 0.8), **finishes)
        trainer = {"per_device_train_batch_size": 4, "mask_truncated_completions": masked, "scale_rewards": "none"}
        _, batch = one_batch(request_of(trainer=trainer), host)
        assert (batch["tool_mask"][0] * batch["completion_mask"][0]).sum().item() == (0 if masked else 16)
        assert batch["advantages"].tolist() == pytest.approx([-0.5, -0.1, 0.3, 0.3])


def test_what_the_environment_wrote_contributes_nothing(request_of):
    trainer, batch = one_batch(request_of(), FakeHost(reward=lambda episode: episode.trial / 3))
    mask = (batch["tool_mask"] * batch["completion_mask"]).bool()
    assert 0 < mask.sum() < batch["completion_mask"].sum(), "both kinds of token are there"
    original = trainer._get_per_token_logps_and_entropies
    seen = []

    def shifted(by):
        def compute(*args, **kwargs):
            logps, entropies, aux_loss = original(*args, **kwargs)
            logps = logps + torch.where(mask, 0.0, by)
            logps.retain_grad()
            seen.append(logps)
            return logps, entropies, aux_loss

        return compute

    losses = []
    for by in (0.0, 3.0):
        trainer._get_per_token_logps_and_entropies = shifted(by)
        loss = trainer.compute_loss(trainer.model, batch)
        loss.backward()
        losses.append(loss.item())
    assert losses[0] == losses[1]
    for logps in seen:
        assert (logps.grad[~mask] == 0).all()
        assert (logps.grad[mask] != 0).all()


def test_logprobs_are_those_of_the_sampler_and_equal_a_fresh_forward_pass(request_of):
    trainer, batch = one_batch(request_of(sampling={"temperature": 0.7}), FakeHost())
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
    attention = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
    fresh, _, _ = trainer._get_per_token_logps_and_entropies(
        trainer.model.eval(), ids, attention, batch["completion_ids"].size(1)
    )
    mask = (batch["tool_mask"] * batch["completion_mask"]).bool()
    assert (fresh - batch["sampling_per_token_logps"])[mask].abs().max() < 1e-4
    assert (batch["sampling_per_token_logps"][~mask] == 0).all()


def test_batch_1_times_accumulation_8_is_batch_8(request_of, tmp_path):
    losses, gradients = [], []
    for batch, accumulation in ((8, 1), (1, 8)):
        host = FakeHost(reward=lambda episode: episode.trial / 3)
        trainer = {
            "per_device_train_batch_size": batch,
            "gradient_accumulation_steps": accumulation,
            "max_steps": 1,
            "max_grad_norm": 1e9,
        }
        grpo.run(request_of(trainer=trainer, output_dir=str(tmp_path / str(batch))), host)
        losses.append(host.logs[0]["metrics"]["loss"])
        gradients.append(host.logs[0]["metrics"]["grad_norm"])
    assert losses[0] == pytest.approx(losses[1], abs=1e-6)
    assert gradients[0] == pytest.approx(gradients[1], rel=1e-4)


def test_ck_07_an_adapter_is_its_own_reference_so_the_kl_starts_at_zero(request_of, tmp_path):
    lora = {"r": 2, "lora_alpha": 64, "lora_dropout": 0.0, "target_modules": ["q_proj", "v_proj"]}
    first = request_of(lora=lora, output_dir=str(tmp_path / "first"), trainer={"learning_rate": 0.1})
    grpo.run(first, FakeHost(reward=lambda episode: episode.trial / 3))
    host = FakeHost(reward=lambda episode: episode.trial / 3)
    final = tmp_path / "first" / "final"
    result = grpo.run(request_of(model=str(final), lora=lora, trainer={"beta": 0.1, "learning_rate": 0.1}), host)
    assert abs(host.logs[0]["metrics"]["kl"]) < 1e-6 < host.logs[1]["metrics"]["kl"]
    assert result["parameters"]["trainable"] < result["parameters"]["total"] / 10
    saved = {path.name for path in (tmp_path / "run" / "final").iterdir()}
    assert "adapter_model.safetensors" in saved and "ref" not in saved and "generation_config.json" in saved


def test_a_requested_stop_saves_a_checkpoint_and_ends_cleanly(request_of, tmp_path):
    host = FakeHost(stop_at_step=1)
    result = grpo.run(request_of(trainer={"max_steps": 50}), host)
    assert result["stopped"] and result["steps"] == 1 and not host.open
    assert (tmp_path / "run" / "checkpoint-1" / "trainer_state.json").is_file()
    assert (tmp_path / "run" / "final" / "model.safetensors").is_file()


def test_tr_14_replies_that_are_all_cut_off_are_told_at_once_and_stop_the_run_in_the_end(request_of):
    host = FakeHost()
    result = grpo.run(request_of(trainer={"max_steps": 50}, sampling={"max_turn_tokens": 1}), host)
    assert result["stop_reason"] == "replies_cut" and result["steps"] == guards.CUT_STEPS
    assert "max_turn_tokens is 1" in host.notes[0] and "Stopped after 10" in host.notes[-1]


def test_fewer_tasks_than_groups_a_step_still_make_a_step(request_of):
    host = FakeHost()
    request = request_of(task_ids=["only"], trainer={"per_device_train_batch_size": 16, "max_steps": 1})
    assert grpo.run(request, host)["rollouts"] == 16
    seeds = [each["seed"] for each in host.starts[0]["episodes"]]
    assert len(set(seeds)) == 4, "its groups are different episodes"


def test_tr_12_a_step_without_our_rollouts_ends_the_run(request_of):
    trainer, sampler = build_trainer(request_of(), load_policy(request_of()), FakeHost())
    callback = RolloutCallback(FakeHost(), sampler)
    with pytest.raises(RuntimeError, match="without calling rollout_func"):
        callback.on_step_end(trainer.args, TrainerState(), TrainerControl())


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"trainer": {"num_generations": 3}}, "8 rollouts.*groups of 3"),
        ({"trainer": {"temperature": 0.5}}, "--temperature"),
        ({"sampling": {"temperature": 0.0}}, "temperature is 0"),
    ],
)
def test_settings_that_cannot_work_stop_before_the_model_loads(request_of, changes, says):
    with pytest.raises(UserError, match=says):
        grpo.run(request_of(model="/nowhere", **changes), FakeHost())


# ------------------------------------------------------------------------------------------------ the rows' contract


def rollout(**changes) -> Rollout:
    tokens = {"prompt_ids": [1], "completion_ids": [5, 6, 2], "env_mask": [1, 1, 0], "logprobs": [-0.1, -0.2, 0.0]}
    return Rollout(**{"task_id": "a", "seed": 1, "trial": 0, "ended_by": "terminated", **tokens, **changes})


EPISODE = {"task_id": "a", "seed": 1, "trial": 0}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"env_mask": [1, 1, 0, 1]}, "row 1 .*3 completion_ids, 4 env_mask, 3 logprobs"),
        ({"logprobs": [-0.1]}, "row 1 .*3 completion_ids, 3 env_mask, 1 logprobs"),
        ({"env_mask": [1, 0.5, 0]}, r"row 1 .*env_mask\[1\] is 0.5"),
        ({"env_mask": [1, 2, 0]}, r"row 1 .*env_mask\[1\] is 2"),
        ({"completion_ids": [], "env_mask": [], "logprobs": []}, "row 1 .*completion is empty"),
        ({"task_id": "b"}, "row 1 should be task 'a', trial 0, but is 'b'"),
        ({"trial": 3}, "out of order"),
    ],
)
def test_tr_04_tr_06_rows_that_do_not_fit_together_are_named(changes, says):
    with pytest.raises(ValueError, match=says):
        trainer_fields([rollout(), rollout(**changes)], [EPISODE, EPISODE])


def test_tr_06_booleans_in_a_mask_are_ones_and_zeros():
    fields = trainer_fields([rollout(env_mask=[True, False, True])], [EPISODE])
    assert fields["env_mask"] == [[1, 0, 1]] and all(type(bit) is int for bit in fields["env_mask"][0])


def test_tr_22_missing_rows_stop_the_step():
    with pytest.raises(ValueError, match="2 rollouts asked, 1 returned"):
        trainer_fields([rollout()], [EPISODE, EPISODE])
    with pytest.raises(ValueError, match=r"row 1 .*missing"):
        trainer_fields([rollout(), None], [EPISODE, EPISODE])


def test_br_10_every_row_gets_its_own_extra_fields():
    fields = trainer_fields([rollout(reward=0.0), rollout(reward=1.0)], [EPISODE, EPISODE])
    assert fields["reward"] == [0.0, 1.0] and all(type(values) is list for values in fields.values())


def test_plan_knows_its_place_among_all_processes():
    whole = plan_episodes(["a"] * 4 + ["b"] * 4, 4, 7, 3, 0)
    halves = plan_episodes(["a"] * 4 + ["b"] * 2, 4, 7, 3, 0) + plan_episodes(["b"] * 2, 4, 7, 3, 0, first=6)
    assert whole == halves
    assert whole != plan_episodes(["a"] * 4 + ["b"] * 4, 4, 7, 3, 1)


def test_plan_refuses_a_group_of_two_tasks():
    with pytest.raises(RuntimeError, match="group 0 of step 2 holds the tasks 'a' and 'b'"):
        plan_episodes(["a", "a", "b", "b"], 4, 7, 2, 0)


def test_stream_seeds_are_stable_and_small_enough_to_cross():
    assert stream_seed(1, "episode", 0, 0, 0) == stream_seed(1, "episode", 0, 0, 0)
    assert len({stream_seed(1, "episode", step, 0, group) for step in range(30) for group in range(30)}) == 900
    assert all(0 <= stream_seed(seed) < 2**53 for seed in range(100))


def test_metrics_are_of_the_rollouts_that_count():
    means = rollout_metrics(
        reward=[1.0, None, 0.0],
        parts=[{"format": 1.0, "tool": None}, {"format": None, "tool": None}, {"format": 0.0, "tool": 0.5}],
        metrics=[{"strict": True, "why": "x", "finished": 7}, {}, {"strict": False, "reward_weights/format": 0.3}],
        success=[True, False, False],
        ended_by=["terminated", "error", "truncated"],
        ended_why=[None, "boom", "tokens"],
        turns=[2, 0, 4],
    )
    assert means == {
        "rollout/invalid": pytest.approx(1 / 3),
        "rollout/turns": 3.0,
        "rollout/finished": 0.5,
        "rollout/truncated": 0.5,
        "rollout/out_of_tokens": 0.5,
        "rollout/success": 0.5,
        "rollout/strict": 0.5,
        "reward_components/format": 0.5,
        "reward_components/tool": 0.5,
        "reward_weights/format": 0.3,
    }


STAGES = [{"from_step": 0, "task_ids": ["a"]}, {"from_step": 2, "task_ids": ["b", "c", "d"]}]


@pytest.mark.parametrize(("step", "stage"), [(0, 0), (1, 0), (2, 1), (3, 1), (10**6, 1)])
def test_the_stage_follows_from_the_step(step, stage):
    assert stage_at(STAGES, step) == stage


def test_a_curriculum_draws_whole_groups_of_the_stage_and_the_same_ones_again():
    for step in range(6):
        prompts = draw_prompts(STAGES, 20, 4, 5, step, 0, 0)
        groups = [prompts[place : place + 4] for place in range(0, 20, 4)]
        assert all(len(set(group)) == 1 for group in groups)
        assert {group[0] for group in groups[:3]} == ({"a"} if step < 2 else {"b", "c", "d"})
        assert prompts == draw_prompts(STAGES, 20, 4, 5, step, 0, 0)
        # Two processes: each draws its part of the same batch, groups across the border included.
        assert prompts == draw_prompts(STAGES, 10, 4, 5, step, 0, 0) + draw_prompts(STAGES, 10, 4, 5, step, 0, 10)
    orders = {tuple(draw_prompts(STAGES, 20, 4, seed, step, 0, 0)) for step in range(2, 12) for seed in (5, 6)}
    assert len(orders) > 5


def test_training_plays_the_tasks_of_its_stage(request_of):
    host = FakeHost()
    grpo.run(request_of(trainer={"max_steps": 3}, stages=STAGES), host)
    played = [{each["task_id"] for each in start["episodes"]} for start in host.starts]
    assert [start["policy_step"] for start in host.starts] == [0, 1, 2]
    assert played[:2] == [{"a"}, {"a"}] and len(played[2]) == 2 and played[2] < {"b", "c", "d"}
    assert [log["metrics"]["curriculum/stage"] for log in host.logs[:3]] == [0, 0, 1]


def test_a_run_that_goes_on_is_in_the_stage_of_an_unbroken_one(request_of):
    """What a restart keeps is the trainer's step: from it alone follows what is played."""
    unbroken = FakeHost()
    grpo.run(request_of(trainer={"max_steps": 3}, stages=STAGES), unbroken)
    request, host = request_of(stages=STAGES), FakeHost()
    trainer, sampler = build_trainer(request, load_policy(request), host)
    trainer.state.global_step = 2
    sampler(["a"] * 4 + ["b"] * 4, trainer)
    assert host.starts[0]["episodes"] == unbroken.starts[2]["episodes"]
