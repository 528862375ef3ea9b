"""Guards: each by the figures that trip it, and in a run by a policy or a host that does."""

import json
import math
import os
import socket
import subprocess
import sys

import pytest
import torch
from fake_host import FakeHost
from test_grpo import request_of as request_of
from test_grpo import rewards_by_trial, weights
from trainers import grpo, rollout_func
from trainers.callbacks import HostCallback
from trainers.grpo import RolloutCallback
from trainers.guards import LimitGuard, RewardVarianceGuard, repeats, replies_of, rollout_figures
from trainers.rollout import Rollout
from trainers.rollout_func import task_metrics
from transformers import TrainerControl, TrainerState

OFF = {
    "allow_zero_variance": True,
    "min_entropy_share": None,
    "max_repetition": None,
    "max_clipped_share": None,
    "collapse_patience": 2,
    "canary": None,
}
CANARY = {"task_ids": ["easy", "hard"], "generations": 4, "steps": 1, "min_reward": 0.5, "patience": 3}


def varied(episode):
    return episode.trial / 3


def constant(_):
    return 0.25


def reasons(guard, figure, values, first_step=1):
    """The reason after each value, None where the run goes on."""
    notices = [guard.observe(step, {figure: value}) for step, value in enumerate(values, start=first_step)]
    return [notice and notice.reason for notice in notices]


# ----------------------------------------------------------------------------------------------------- rules alone


@pytest.mark.parametrize("first_step", [1, 16, 17, 300])
def test_five_dead_logs_in_a_row_stop_the_run_and_the_step_decides_what_is_saved(first_step):
    guard = RewardVarianceGuard()
    notices = [guard.observe(first_step + index, {"frac_reward_zero_std": 1.0}) for index in range(5)]
    assert notices[:4] == [None] * 4
    in_grace = first_step + 4 <= 20
    expected = ("reward_variance_dead", False) if in_grace else ("reward_variance_window_saturated", True)
    assert (notices[4].reason, notices[4].save) == expected


@pytest.mark.parametrize(
    ("logs", "trips"),
    [
        (
            [{"frac_reward_zero_std": 1.0}] * 4
            + [{"frac_reward_zero_std": 0.99}]
            + [{"frac_reward_zero_std": 1.0}] * 4,
            False,
        ),
        ([{"reward_std": 0.0}] * 5, True),
        ([{"reward_std": 1e-9}] * 9, False),
        # where the share is there, the spread of all rewards is not asked: equal groups can earn different rewards
        ([{"frac_reward_zero_std": 0.5, "reward_std": 0.0}] * 9, False),
        ([{"frac_reward_zero_std": 1.0, "reward_std": 0.3}] * 5, True),
        # a log of steps that sampled nothing neither counts nor breaks the row
        ([{"frac_reward_zero_std": 1.0}, {"loss": 0.0}] * 5, True),
        ([{"loss": 0.0}] * 9, False),
    ],
)
def test_what_counts_as_a_dead_log(logs, trips):
    guard = RewardVarianceGuard()
    assert any(guard.observe(step, log) for step, log in enumerate(logs, start=1)) is trips


def test_a_limit_must_be_passed_a_number_of_times_in_a_row():
    guard = LimitGuard("why", "x", 0.5, 3, lambda value: f"x is {value}.")
    assert reasons(guard, "x", [0.6, 0.6, 0.5, 0.6, 0.6]) == [None] * 5
    assert reasons(guard, "x", [0.7]) == ["why"]
    below = LimitGuard("why", "x", 0.5, 2, str, below=True)
    assert reasons(below, "x", [0.5, 0.4, 0.5, 0.4, 0.4]) == [None, None, None, None, "why"]
    assert below.observe(9, {"y": 0.0}) is None, "what is not there does not count"


def test_a_share_of_the_first_value_is_no_absolute_bound():
    """A tiny model begins at 0.06 nats, a large one at 1: neither is a collapse."""
    for first in (0.06, 1.0):
        guard = LimitGuard("why", "x", 0.01, 2, str, below=True, share_of_first=True)
        assert reasons(guard, "x", [first, 0.1 * first, 0.011 * first, 0.009 * first, 0.0]) == [None] * 4 + ["why"]
    guard = LimitGuard("why", "x", 0.01, 1, str, below=True, share_of_first=True)
    assert reasons(guard, "x", [0.0, 0.0, 0.0]) == [None] * 3, "it began without any: nothing has collapsed"


@pytest.mark.parametrize("cut", range(1, 6))
def test_a_guard_that_is_put_back_from_plain_data_goes_on_where_it_was(cut):
    makers = [
        RewardVarianceGuard,
        lambda: LimitGuard("why", "frac_reward_zero_std", 2.0, 5, str, below=True),
        lambda: LimitGuard("why", "frac_reward_zero_std", 0.5, 4, str, below=True, share_of_first=True),
    ]
    values = [3.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    for make in makers:
        unbroken = reasons(make(), "frac_reward_zero_std", values)
        before = make()
        first = reasons(before, "frac_reward_zero_std", values[:cut])
        after = make()
        after.load_state_dict(json.loads(json.dumps(before.state_dict())))
        assert first + reasons(after, "frac_reward_zero_std", values[cut:], first_step=cut + 1) == unbroken


def rollout(**changes):
    base = {"task_id": "a", "seed": 1, "trial": 0, "prompt_ids": [1], "reward": 0.0, "ended_by": "terminated"}
    return Rollout(**{**base, **changes})


def test_replies_are_the_stretches_that_the_policy_drew():
    one = rollout(completion_ids=[5, 6, 9, 9, 7, 8], env_mask=[1, 1, 0, 0, 1, 1], logprobs=[-0.5] * 6)
    assert replies_of(one) == [[5, 6], [7, 8]]
    assert replies_of(rollout()) == []


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ([1, 2, 3], (0, 0)),
        ([1, 2, 3, 4, 5], (0, 2)),
        ([7] * 13, (9, 10)),
        ([1, 2, 3] * 5, (9, 12)),
    ],
)
def test_repetition_counts_the_ngrams_that_stand_earlier_in_the_same_reply(reply, expected):
    assert repeats([reply]) == expected
    assert repeats([reply, reply]) == (2 * expected[0], 2 * expected[1]), "another reply may say the same"


def test_figures_are_of_the_tokens_that_were_drawn_and_of_valid_episodes():
    looping = rollout(
        completion_ids=[7] * 13 + [0], env_mask=[1] * 13 + [0], logprobs=[-0.5] * 13 + [0.0], turns=2, cut_replies=1
    )
    clipped = rollout(ended_by="truncated", ended_why="tokens", turns=2)
    turned = rollout(ended_by="truncated", ended_why="turns")
    failed = rollout(ended_by="error", reward=None)
    assert rollout_figures([looping, clipped, turned, failed]) == {
        "sampling/entropy": 0.5,
        "sampling/repetition": 0.9,
        "sampling/cut_replies": 0.25,
        "sampling/clipped_episodes": pytest.approx(1 / 3),
    }
    assert rollout_figures([failed]) == {}


def test_rewards_by_task():
    assert task_metrics(["a", "a", "a", "b", "b", "c", "d"], [0.0, 1.0, None, 0.3, 0.1 + 0.2, None, 2.0]) == {
        "reward_by_task/a/mean": 0.5,
        "reward_by_task/a/std": pytest.approx(math.sqrt(0.5)),
        "reward_by_task/a/zero_std": 0.0,
        "reward_by_task/b/mean": pytest.approx(0.3),
        "reward_by_task/b/std": pytest.approx(0.0, abs=1e-9),
        "reward_by_task/b/zero_std": 1.0,
        "reward_by_task/d/mean": 2.0,
        "reward_by_task/d/std": 0.0,
        "reward_by_task/d/zero_std": 1.0,
    }


# ------------------------------------------------------------------------------------------------------- in a run


def run(request_of, host, guards=None, trainer=None, sampling=None, **changes):
    request = request_of(
        trainer={"max_steps": 30, **(trainer or {})},
        sampling=sampling,
        guards=None if guards is None else {**OFF, **guards},
        **changes,
    )
    return grpo.run(request, host)


def test_rewards_without_variance_end_the_run_early_and_nothing_is_saved(request_of, tmp_path):
    host = FakeHost(reward=constant)
    result = run(request_of, host, {"allow_zero_variance": False}, {"save_strategy": "steps", "save_steps": 5})
    assert (result["stop_reason"], result["steps"]) == ("reward_variance_dead", 5)
    assert "Nothing is saved" in result["stop_detail"] and host.notes[-1] == result["stop_detail"]
    assert not list((tmp_path / "run").iterdir()), "neither final/ nor the checkpoint that was due"
    assert result["verification"] is None


def test_rewards_that_lose_their_variance_later_end_the_run_with_the_model(request_of, tmp_path, monkeypatch):
    monkeypatch.setattr(RewardVarianceGuard.__init__, "__defaults__", (5, 2))
    host = FakeHost(reward=constant)
    result = run(request_of, host, {"allow_zero_variance": False})
    assert (result["stop_reason"], result["steps"]) == ("reward_variance_window_saturated", 5)
    assert (tmp_path / "run" / "final" / "model.safetensors").is_file()
    assert (tmp_path / "run" / "checkpoint-5" / "trainer_state.json").is_file()


@pytest.mark.parametrize("settings", [None, {"allow_zero_variance": True}])
def test_without_the_guard_constant_rewards_train_to_the_end(request_of, settings):
    result = run(request_of, FakeHost(reward=constant), settings, {"max_steps": 7})
    assert (result["stop_reason"], result["steps"], result["stop_detail"]) == (
        "max_steps_or_epochs_completed",
        7,
        None,
    )


def canary_host(reward_at, by_task=lambda episode: varied(episode)):
    """Training's episodes earn by trial, the canary's `reward_at(step)`."""
    host = FakeHost()

    def reward(episode):
        payload = host.starts[-1]
        return reward_at(payload["policy_step"]) if payload["purpose"] == "canary" else by_task(episode)

    host.reward = reward
    return host


def canaries(host):
    return [start for start in host.starts if start["purpose"] == "canary"]


def test_a_canary_below_its_threshold_three_times_in_a_row_stops_the_run(request_of, tmp_path):
    # steps 2, 4, … : low, low, high, low, low, low
    host = canary_host(lambda step: 0.9 if step == 6 else 0.1)
    result = run(request_of, host, {"canary": {**CANARY, "steps": 2}})
    assert (result["stop_reason"], result["steps"]) == ("canary_threshold", 12)
    assert "0.100" in result["stop_detail"] and (tmp_path / "run" / "final").is_dir()
    assert [start["policy_step"] for start in canaries(host)] == [2, 4, 6, 8, 10, 12]
    for start in canaries(host):
        episodes = start["episodes"]
        assert [each["task_id"] for each in episodes] == ["easy"] * 4 + ["hard"] * 4
        assert [each["trial"] for each in episodes] == [0, 1, 2, 3] * 2
        assert len({each["seed"] for each in episodes}) == 2
    logged = {log["step"]: log["metrics"]["canary/reward"] for log in host.logs if "canary/reward" in log["metrics"]}
    assert logged == pytest.approx({2: 0.1, 4: 0.1, 6: 0.9, 8: 0.1, 10: 0.1, 12: 0.1})


@pytest.mark.parametrize("lora", [None, {"r": 2, "lora_alpha": 64, "lora_dropout": 0.1, "target_modules": ["q_proj"]}])
def test_a_run_with_a_canary_trains_bit_for_bit_like_one_without(request_of, tmp_path, lora):
    said, finals = [], []
    for name, canary in (("with", {**CANARY, "min_reward": -0.9}), ("without", None)):
        host = canary_host(lambda step: 0.5)
        result = run(request_of, host, {"canary": canary}, {"max_steps": 3}, output_dir=str(tmp_path / name), lora=lora)
        assert result["steps"] == 3 and len(canaries(host)) == (3 if canary else 0)
        trained = {
            handle
            for handle, start in enumerate(each for start in host.starts for each in [start] * len(start["episodes"]))
            if start["purpose"] == "training"
        }
        said.append([host.episodes[handle].replies for handle in sorted(trained)])
        saved = tmp_path / name / "final" / ("model.safetensors" if lora is None else "adapter_model.safetensors")
        finals.append(saved.read_bytes())
    assert said[0] == said[1] and len(said[0]) == 24
    assert finals[0] == finals[1]


def test_a_policy_that_talks_in_loops_stops_the_run(request_of, tiny_folder, tmp_path):
    folder = looping_policy(tiny_folder, tmp_path)
    host = FakeHost(reward=varied)
    result = run(
        request_of,
        host,
        {"max_repetition": 0.8},
        {"learning_rate": 0.0},
        {"max_turn_tokens": 40, "max_episode_tokens": 100, "temperature": 0.01},
        model=str(folder),
    )
    assert (result["stop_reason"], result["steps"]) == ("repetition", 2)
    assert host.logs[0]["metrics"]["sampling/repetition"] > 0.9


def test_a_policy_whose_entropy_collapses_stops_the_run(request_of, tmp_path):
    """A fake collapse: from the second step on the sampler draws as if it were sure."""
    host = FakeHost(reward=varied)
    request = request_of(trainer={"max_steps": 30}, guards={**OFF, "min_entropy_share": 0.05})
    original = rollout_func.play_batch

    def sure(*args, policy_step, **kwargs):
        rollouts = original(*args, policy_step=policy_step, **kwargs)
        for each in rollouts if policy_step >= 3 else []:
            each.logprobs = [value / 1000 for value in each.logprobs]
        return rollouts

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rollout_func, "play_batch", sure)
        result = grpo.run(request, host)
    assert (result["stop_reason"], result["steps"]) == ("entropy_collapse", 5)
    entropies = [log["metrics"]["sampling/entropy"] for log in host.logs if "sampling/entropy" in log["metrics"]]
    assert len(entropies) == 5 and entropies[0] > 1 > entropies[4]


def test_the_samplers_entropy_agrees_with_the_trainers(request_of):
    """Its estimate is of the distribution that was drawn from, which at temperature 1 is the policy's."""
    host = FakeHost(reward=varied)
    run(request_of, host, {}, {"max_steps": 1, "per_device_train_batch_size": 32}, {"max_turn_tokens": 30})
    metrics = host.logs[0]["metrics"]
    assert metrics["sampling/entropy"] == pytest.approx(metrics["entropy"], rel=0.05)


def test_episodes_that_all_run_out_of_tokens_stop_the_run(request_of):
    host = FakeHost(reward=varied, finishes=lambda episode: False, max_turns=50)
    result = run(request_of, host, {"max_clipped_share": 0.95}, sampling={"max_episode_tokens": 16})
    assert (result["stop_reason"], result["steps"]) == ("clipped_episodes", 2)
    assert "max_clipped_share" in result["stop_detail"]


def test_one_batch_that_serves_two_steps_counts_once(request_of):
    host = FakeHost(reward=varied, finishes=lambda episode: False, max_turns=50)
    result = run(
        request_of, host, {"max_clipped_share": 0.95}, {"num_iterations": 2}, sampling={"max_episode_tokens": 16}
    )
    assert (result["stop_reason"], result["steps"]) == ("clipped_episodes", 3)


def test_a_lost_loss_outweighs_every_other_reason():
    for log in ({"loss": math.nan, "frac_reward_zero_std": 1.0}, {"loss": math.inf}):
        callback = HostCallback(FakeHost(), guards=[RewardVarianceGuard(patience=1, grace=0)])
        control, state = TrainerControl(), TrainerState(global_step=3, max_steps=9)
        callback._stop(control)
        callback.on_log(None, state, control, dict(log))
        assert (callback.stop_reason, control.should_save, control.should_training_stop) == (
            "loss_not_finite",
            False,
            True,
        )


def test_the_first_reason_counts():
    callback = HostCallback(FakeHost(), guards=[RewardVarianceGuard(patience=1, grace=9)])
    control, state = TrainerControl(), TrainerState(global_step=3, max_steps=9)
    callback._stop(control)
    callback.on_log(None, state, control, {"loss": 0.1, "frac_reward_zero_std": 1.0})
    assert (callback.stop_reason, control.should_save) == ("stop_requested", True)


def test_the_callbacks_memory_is_plain_data_and_survives(request_of):
    class Sampler:
        gauge, policy = None, None
        request = request_of(guards={**OFF, "allow_zero_variance": False, "max_repetition": 0.5, "canary": None})

    callback = RolloutCallback(FakeHost(), Sampler())
    for step in range(3):
        for guard in callback.guards:
            guard.observe(step, {"frac_reward_zero_std": 1.0, "sampling/cut_replies": 1.0, "sampling/repetition": 1.0})
    other = RolloutCallback(FakeHost(), Sampler())
    other.load_state_dict(json.loads(json.dumps(callback.state_dict())))
    assert other.state_dict() == callback.state_dict()
    assert other.state_dict()["reward_variance"] == {"dead": 3}
    other.load_state_dict({"a guard of another version": {}})
    assert other.state_dict() == callback.state_dict()


def looping_policy(tiny_folder, tmp_path):
    """A policy that says one token for ever: its last layer answers with the same token whatever it reads."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model, tokenizer = AutoModelForCausalLM.from_pretrained(tiny_folder), AutoTokenizer.from_pretrained(tiny_folder)
    token = tokenizer.convert_tokens_to_ids("a")
    with torch.no_grad():
        # Every hidden state gets the same direction, and only this token's row points along it.
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
        model.model.embed_tokens.weight.copy_(torch.ones_like(model.model.embed_tokens.weight))
        model.lm_head.weight.zero_()
        model.lm_head.weight[token] = 1.0
    folder = tmp_path / "looping"
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


# --------------------------------------------------------------------------------------------------- verification


def test_verification_plays_with_the_trained_policy_and_gives_figures(request_of):
    host = FakeHost(reward=rewards_by_trial(0.0, 0.5, 1.0, 1.0))
    plan = {"policy": "model:tiny", "task_ids": ["x", "y"], "samples": 2, "sampling": request_of()["sampling"]}
    plan["sampling"]["temperature"] = 0.3
    result = grpo.run(request_of(verification=plan), host)
    assert result["verification"] == {
        "episodes": 4,
        "valid": 4,
        "mean_reward": 0.25,
        "parse_rate": 0.5,  # the fake host calls half of the turns unreadable
        "success": 0.0,
    }
    last = host.starts[-1]
    assert last["purpose"] == "verification" and last["policy_step"] == 2
    assert [each["task_id"] for each in last["episodes"]] == ["x", "x", "y", "y"]
    assert not host.open


def test_an_invalid_episode_of_an_exam_is_left_out_and_none_left_is_no_figure(request_of):
    plan = {"policy": "p", "task_ids": ["x", "y"], "samples": 1, "sampling": request_of()["sampling"]}
    for failing, expected in ((("x",), (1, 0.25)), (("x", "y"), (0, None))):
        host = FakeHost(reward=lambda episode, failing=failing: None if episode.task_id in failing else 0.25)
        verification = grpo.run(request_of(verification=plan), host)["verification"]
        assert (verification["valid"], verification["mean_reward"]) == expected


def test_a_run_that_was_stopped_is_not_verified(request_of):
    host = FakeHost(stop_at_step=1)
    plan = {"policy": "p", "task_ids": ["x"], "samples": 1, "sampling": request_of()["sampling"]}
    assert grpo.run(request_of(verification=plan), host)["verification"] is None
    assert all(start["purpose"] == "training" for start in host.starts)


def test_verification_changes_no_weight(request_of, tmp_path):
    plan = {"policy": "p", "task_ids": ["x"], "samples": 2, "sampling": request_of()["sampling"]}
    for name, verification in (("with", plan), ("without", None)):
        host = FakeHost(reward=varied)
        grpo.run(request_of(verification=verification, output_dir=str(tmp_path / name)), host)
    finals = [weights(tmp_path / name / "final") for name in ("with", "without")]
    assert all(torch.equal(a, b) for a, b in zip(*finals, strict=True))


# ---------------------------------------------------------------------------------------------- several processes

RANK = """
import json, sys, torch
from accelerate import PartialState
from fake_host import FakeHost
from trainers.exam import play_exam
from trainers.guards import rollout_figures
from trainers.model import load_policy
from trainers.rollout import Rollout
from trainers.rollout_func import task_metrics

torch.set_num_threads(1)
model, rows, out = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
state = PartialState(cpu=True)
own = rows[state.process_index :: state.num_processes]
class Args: bf16 = fp16 = False
host = FakeHost(reward=lambda episode: {"x": 0.0, "y": 0.5, "z": 1.0}[episode.task_id])
sampling = {"temperature": 1.0, "max_turn_tokens": 4, "max_episode_tokens": 8}
policy = load_policy({"model": model, "seed": 1, "device": "cpu"})
settings = {"task_ids": ["x", "y", "z"], "samples": 1, "seed": 7, "policy_name": "p", "policy_step": 1}
exam = play_exam("canary", policy, host, Args, sampling=sampling, **settings)
played = [each["task_id"] for start in host.starts for each in start["episodes"]]
result = {"figures": rollout_figures([Rollout(**row) for row in own]), "exam": exam, "played": played,
    "tasks": task_metrics([row["task_id"] for row in own], [row["reward"] for row in own])}
open(f"{out}/{state.process_index}.json", "w").write(json.dumps(result))
state.destroy_process_group()
"""


def test_every_process_judges_the_same_figures(tiny_folder, tmp_path):
    rows = [
        {
            **{"task_id": "a", "seed": 1, "trial": trial, "prompt_ids": [1], "completion_ids": [7] * (8 + trial)},
            **{"env_mask": [1] * (8 + trial), "logprobs": [-0.25 * trial] * (8 + trial), "turns": 1 + trial},
            **{
                "cut_replies": trial % 2,
                "ended_by": "truncated" if trial == 2 else "terminated",
                "ended_why": "tokens",
            },
            "reward": [0.0, 1.0, None, 0.5][trial],
        }
        for trial in range(4)
    ]
    results = {}
    for world in (1, 2):
        out = tmp_path / str(world)
        out.mkdir()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        shared = {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1", "WORLD_SIZE": str(world)}
        shared |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)} if world > 1 else {}
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", RANK, str(tiny_folder), json.dumps(rows), str(out)],
                env={**os.environ, **shared, **({"RANK": str(rank), "LOCAL_RANK": str(rank)} if world > 1 else {})},
                stderr=subprocess.PIPE,
            )
            for rank in range(world)
        ]
        errors = [process.communicate(timeout=120)[1].decode() for process in processes]
        assert all(process.returncode == 0 for process in processes), errors
        results[world] = [json.loads((out / f"{rank}.json").read_text()) for rank in range(world)]
    [alone], (first, second) = results[1], results[2]
    assert first["played"] == ["x", "z"] and second["played"] == ["y"], "each plays its share"
    for name in ("figures", "exam", "tasks"):
        assert first[name] == second[name], "equal on both, to the last bit"
        assert first[name] == pytest.approx(alone[name]), "and what one process alone has"
    assert alone["exam"]["mean_reward"] == 0.5
