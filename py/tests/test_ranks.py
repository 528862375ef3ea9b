"""Two real processes, gloo between them: what they decide together, and what becomes of one where the other is gone."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from fake_host import FakeHost
from trainers import grpo, ranks, sft
from transformers import AutoModelForCausalLM

PROGRAM = Path(__file__).parent / "ranks_program.py"
LOST = ranks.RANK_LOST_EXIT_CODE
SAMPLING = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "max_turn_tokens": 8,
    "max_episode_tokens": 32,
    "max_context_tokens": None,
}


def start_ranks(plans: list[dict]) -> list[subprocess.Popen]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
    return [
        subprocess.Popen(
            [sys.executable, str(PROGRAM), json.dumps(plans)],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(map(str, (PROGRAM.parent, PROGRAM.parents[1]))),
                **{"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"},
                **{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1"},
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]


def row(number: int) -> dict:
    prompt = [{"role": "user", "content": f"Task {number}. {'Think. ' * (number % 7)}"}]
    turns = [
        {"reply": f"look {number}", "observations": [{"role": "user", "content": "seen"}]},
        {"reply": "done " * (1 + number % 3), "observations": []},
    ]
    return {"id": f"r{number}", "task_id": "t", "prompt": prompt, "turns": turns}


@pytest.fixture(scope="module")
def request_of(tiny_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    rows = folder / "rows.jsonl"
    rows.write_text("\n".join(json.dumps(row(number)) for number in range(16)))

    def build(name: str, recipe: str, trainer: dict, **changes) -> dict:
        common = {"save_strategy": "no", "learning_rate": 1e-2, "max_steps": 2}
        own = {
            "sft": {"rows_path": str(rows), "max_length": 512, "matrix_learning_rate": None},
            "grpo": {"policy": "model:tiny", "task_ids": ["a", "b", "c"], "sampling": SAMPLING},
        }
        return {
            "model": str(tiny_folder),
            "output_dir": str(folder / name),
            "seed": 5,
            "lora": None,
            "chat_template_kwargs": {},
            "trainer": {**common, **trainer},
            **own[recipe],
            **changes,
        }

    return build


GROUP = {"num_generations": 8, "loss_type": "dapo", "beta": 0.1}


@pytest.fixture(scope="module")
def answers(request_of, tmp_path_factory):
    """Runs every case in one pair of processes: starting them is what takes the time."""
    out = tmp_path_factory.mktemp("answers")
    half = {"per_device_train_batch_size": 4}
    by_length = {**half, "train_sampling_strategy": "group_by_length"}
    plans = [
        {"case": "together"},
        {"case": "whole", "request": request_of("whole", "sft", half)},
        {"case": "order", "request": request_of("order", "sft", by_length)},
        {"case": "sft", "request": request_of("sft-2", "sft", half)},
        {"case": "grpo", "request": request_of("grpo-2", "grpo", {**half, **GROUP})},
        {
            "case": "grpo",
            "name": "lora",
            "request": request_of("lora", "grpo", {**half, **GROUP}, lora={"r": 2, "lora_dropout": 0.1}),
        },
        {
            "case": "grpo",
            "name": "stop",
            "stop": True,
            "request": request_of("stop", "grpo", {**half, **GROUP, "max_steps": 9}),
        },
    ]
    processes = start_ranks([{"out": str(out), **plan} for plan in plans])
    for process in processes:
        _, stderr = process.communicate(timeout=240)
        assert process.returncode == 0, stderr[-3000:]

    def answer(name: str) -> list[dict]:
        return [json.loads((out / f"{name}-{rank}.json").read_text()) for rank in range(2)]

    return answer


def losses(logs: list[dict]) -> list[float]:
    return [log["metrics"]["loss"] for log in logs if "loss" in log["metrics"]]


def weights(folder) -> list[torch.Tensor]:
    return list(AutoModelForCausalLM.from_pretrained(folder).parameters())


def assert_close(one, two) -> None:
    for a, b in zip(weights(one), weights(two), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-4)


def test_what_ranks_decide_together_is_the_same_on_all(answers):
    first, second = answers("together")
    assert first == second
    assert first["agree"] == [True, False, True]
    assert first["highest"] == 1 and first["mean"] == 0.5 and first["totals"] == [3, 2**41 + 1]
    assert first["pooled"] == {"a": 0.5, "sampling/policy_tokens": 10, "only": 3}


def test_alone_nothing_is_asked():
    assert ranks.agree(True) and not ranks.agree(False)
    assert ranks.totals([1, 2]) == [1, 2] and ranks.mean(3.0) == 3 and ranks.pooled({"a": 1.0}) == {"a": 1.0}
    with ranks.watched():
        pass


def test_sft_of_two_ranks_is_that_of_one_with_the_doubled_batch(answers, request_of):
    first, second = answers("sft")
    request = request_of("sft-1", "sft", {"per_device_train_batch_size": 8})
    host = FakeHost()
    sft.run(request, host)
    assert losses(first["logs"]) == pytest.approx(losses(host.logs), abs=1e-5)
    assert second["logs"] == [], "rank 0 alone logs"
    assert_close(request["output_dir"] + "/final", request_of("sft-2", "sft", {})["output_dir"] + "/final")


def test_rows_by_length_are_each_trained_once_an_epoch_by_one_of_the_ranks(answers, request_of):
    first, second = (answer["lengths"] for answer in answers("order"))
    everything = sorted(first[0] + second[0])
    assert len(everything) == 16
    assert sorted(first[1] + second[1]) == everything
    assert first[0] != first[1] or second[0] != second[1], "each epoch has its own order"


def test_grpo_of_two_ranks_is_that_of_one_with_the_doubled_batch_though_the_group_lies_across(answers, request_of):
    first, second = answers("grpo")
    request = request_of("grpo-1", "grpo", {"per_device_train_batch_size": 8, **GROUP})
    host = FakeHost(reward=lambda episode: episode.trial % 5 / 4)
    alone = grpo.run(request, host)
    for left, right, whole in zip(first["starts"], second["starts"], host.starts, strict=True):
        assert left["episodes"] + right["episodes"] == whole["episodes"]
        assert len({(each["task_id"], each["seed"]) for each in whole["episodes"]}) == 1
        assert [each["trial"] for each in right["episodes"]] == [4, 5, 6, 7]
    assert losses(first["logs"]) == pytest.approx(losses(host.logs), abs=1e-5)
    assert abs(losses(host.logs)[1]) > 1e-3, "there is something to compare"
    assert second["logs"] == []
    assert_close(request["output_dir"] + "/final", request_of("grpo-2", "grpo", {})["output_dir"] + "/final")
    for name in ("rollouts", "policy_tokens", "groups", "groups_without_signal", "invalid"):
        assert first["result"][name] == second["result"][name] == alone[name]
    for mine, theirs in zip(first["logs"][:2], host.logs[:2], strict=True):
        for name in ("reward", "reward_std", "entropy", "sampling/policy_tokens", "rollout/masked", "rollout/turns"):
            assert mine["metrics"][name] == pytest.approx(theirs["metrics"][name], abs=1e-5)


def test_an_adapter_and_its_reference_train_on_two_ranks(answers):
    first, second = answers("lora")
    assert first["result"]["steps"] == second["result"]["steps"] == 2
    assert all(map(torch.isfinite, torch.tensor(losses(first["logs"]))))
    assert first["logs"][1]["metrics"]["kl"] > 0


def test_a_stop_that_one_rank_hears_of_stops_all_after_the_same_step(answers, request_of):
    for answer in answers("stop"):
        assert answer["result"]["stop_reason"] == "stop_requested" and answer["result"]["steps"] == 2
    assert weights(request_of("stop", "grpo", {})["output_dir"] + "/final")


def test_a_sharded_model_is_sampled_from_a_whole_copy_of_it_as_it_is_now(answers):
    first, second = answers("whole")
    assert first["moved"] and first["loss"][0] == pytest.approx(first["loss"][1], abs=1e-6)
    assert first["loss"] == second["loss"]
    assert first["parts"] < first["whole"] and first["parts"] + second["parts"] == first["whole"]


@pytest.mark.parametrize(
    ("how", "rank_0", "why"),
    [
        ("dies", "waits", "its process was killed or is out of reach"),
        ("dies", "computes", "its process was killed or is out of reach"),
        ("fails", "sleeps", "ValueError: no more"),
        ("fails", "waits", "ValueError: no more"),
    ],
)
def test_a_rank_ends_with_another_whatever_it_is_doing(tmp_path, how, rank_0, why):
    first, second = start_ranks([{"case": "ends", "out": str(tmp_path), "how": how, "rank_0": rank_0}])
    code = second.wait(timeout=60)
    begin = time.monotonic()
    _, stderr = first.communicate(timeout=10)
    assert time.monotonic() - begin < 3
    assert first.returncode == LOST
    assert stderr.endswith(f"{ranks.REASON_MARK}Rank 1 of 2 is gone: {why}.\n")
    assert code == (9 if how == "dies" else 1)
    if how == "fails":
        assert "ValueError: no more" in second.stderr.read()


def test_a_rank_that_is_done_is_not_taken_for_dead(tmp_path):
    for process in start_ranks([{"case": "leaves", "out": str(tmp_path)}]):
        _, stderr = process.communicate(timeout=60)
        assert process.returncode == 0, stderr
