"""Playing without training: every episode once, in batches, the same under the same seed."""

import pytest
from fake_host import FakeHost
from trainers import play


@pytest.fixture
def request_of(tiny_folder):
    sampling = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "max_context_tokens": None}

    def build(size: int = 2, episodes: int = 5, **changes):
        plan = [{"task_id": f"t{number // 2}", "seed": number // 2, "trial": number % 2} for number in range(episodes)]
        return {
            "model": str(tiny_folder),
            "policy": "model:tiny",
            "seed": 11,
            "chat_template_kwargs": {},
            "batches": [plan[start : start + size] for start in range(0, episodes, size)],
            "sampling": {**sampling, "max_turn_tokens": 6, "max_episode_tokens": 20},
            **changes,
        }

    return build


def test_every_episode_is_played_once_in_batches_and_counted(request_of):
    host = FakeHost()
    result = play.run(request_of(), host)
    assert result["episodes"] == 5 and not result["stopped"] and not host.open
    assert [len(start["episodes"]) for start in host.starts] == [2, 2, 1]
    assert all(start["policy_step"] is None and start["policy"] == "model:tiny" for start in host.starts)
    assert result["policy_tokens"] == sum(each["tokens"]["policy"] for each in host.finished) > 0
    assert result["play_s"] > result["ask_s"] > 0 and result["tokens_per_s"] > 0


def test_what_is_said_depends_on_the_seed_and_not_on_the_batch(request_of):
    said = []
    for changes in ({}, {"size": 5}, {"seed": 12}):
        host = FakeHost()
        play.run(request_of(**changes), host)
        said.append([each["episode"].replies for each in host.finished])
    assert said[0] == said[1] != said[2]


def test_a_requested_stop_ends_after_the_batch_under_way(request_of):
    class Stopping(FakeHost):
        def _wants_stop(self) -> bool:
            return len(self.finished) > 0

    host = Stopping()
    result = play.run(request_of(), host)
    assert result["stopped"] and result["episodes"] == 2 and not host.open


def test_a_batch_played_alone_says_what_it_said_among_the_others(request_of):
    host, alone = FakeHost(), FakeHost()
    request = request_of()
    play.run(request, host)
    play.run({**request, "batches": request["batches"][1:2]}, alone)
    assert [each["episode"].replies for each in alone.finished] == [
        each["episode"].replies for each in host.finished[2:4]
    ]
