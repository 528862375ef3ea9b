"""Dynamic sampling: what is rejected, what replaces it, on one process and on several, and how it ends."""

import json
import os
import random
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from fake_host import FakeHost
from trainers import grpo
from trainers.dynamic_sampling import (
    EXHAUSTED,
    Exhausted,
    Group,
    Settings,
    TaskMemory,
    complete_batch,
    dealt,
    draw_tasks,
    judge_groups,
    pool_warnings,
    spread_of,
)
from trainers.grpo import build_trainer
from trainers.model import load_policy
from trainers.rollout_func import RolloutSampler

SETTINGS = Settings(metric="reward", std_threshold=0.0, max_resamples=32, on_exhausted="fail")
REQUEST = {"metric": "reward", "std_threshold": 0.0, "max_resamples": 32, "on_exhausted": "fail"}


def judged(*rewards, settings=SETTINGS, success=None) -> Group:
    success = success or [False] * len(rewards)
    rows = [("a", reward, won) for reward, won in zip(rewards, success, strict=True)]
    return judge_groups(rows, len(rows), settings)[0]


# ------------------------------------------------------------------------------------------------------- the verdicts


@pytest.mark.parametrize(
    ("rewards", "threshold", "accepted"),
    [
        ((0.0, 0.0, 0.0, 1.0), 0.0, True),
        ((0.5, 0.5, 0.5, 0.5), 0.0, False),
        ((0.1 + 0.2, 0.3, 0.3, 0.3), 0.0, False),  # LS-03: float noise
        ((0.1, 0.1 + 4e-7, 0.1 - 4e-7, 0.1), 0.0, False),
        ((0.0, 2e-6), 0.0, True),
        ((-0.5, -0.8, None, -0.2), 0.3, False),  # exactly 0.3, but for rounding
        ((-0.5, -0.8, None, -0.2), 0.299, True),
        ((0.0, None, None, None), 0.0, False),  # a single valid one
        ((None, None), 0.0, False),
        ((0.0, None, None, 1.0), 0.0, True),  # the invalid ones are no members
    ],
)
def test_a_group_is_accepted_where_its_valid_rewards_spread_beyond_the_threshold(rewards, threshold, accepted):
    assert judged(*rewards, settings=replace(SETTINGS, std_threshold=threshold)).accepted is accepted


def test_the_spread_is_the_sample_standard_deviation():
    values = [0.2, -0.4, 0.9, 0.1]
    assert spread_of(values) == pytest.approx(torch.tensor(values, dtype=torch.float64).std(correction=1).item())
    assert judged(*values).spread == judged(*values).signal == spread_of(values)


@pytest.mark.parametrize(
    ("rewards", "success", "accepted"),
    [
        ((0.1, 0.9), (False, False), False),
        ((0.5, 0.5), (False, True), True),
        ((0.1, 0.9), (True, True), False),
        ((0.5, None), (False, True), False),  # an invalid rollout's success is nobody's
    ],
)
def test_by_success_a_group_is_accepted_where_its_members_do_not_agree(rewards, success, accepted):
    group = judged(*rewards, success=success, settings=replace(SETTINGS, metric="success"))
    assert group.accepted is accepted


@pytest.mark.parametrize(
    ("rows", "size", "says"),
    [
        ([("a", 1.0, True)], 1, "at least 2 rollouts"),
        ([("a", 1.0, True)] * 3, 2, "3 rollouts are no whole groups of 2"),
        ([("a", 1.0, True), ("a", 1.0, True), ("a", 1.0, True), ("b", 1.0, True)], 2, "group 1 holds the tasks a, b"),
    ],
)
def test_rows_that_are_no_groups_are_refused(rows, size, says):
    with pytest.raises(ValueError, match=says):
        judge_groups(rows, size, SETTINGS)


# ------------------------------------------------------------------------------------------------------ whole batches


class World:
    """Tasks that are informative or not, decided by name, and what was played."""

    def __init__(self, share: float, seed: int):
        self.share, self.seed = share, seed
        self.played: list[str] = []

    def group(self, task_id: str) -> Group:
        draw = random.Random(f"{self.seed} {task_id}").random()
        spread = 0.5 if draw < self.share else 0.0
        return Group(task_id, spread, spread, spread > 0)

    def play(self, task_ids, _attempts):
        self.played += task_ids
        return [self.group(task_id) for task_id in task_ids]


def batch(world: World, pool, wanted, settings, memory=None, step=0):
    own = [world.group(task_id) for task_id in pool[:wanted]]
    return complete_batch(own, pool, settings, memory or TaskMemory(), (7, step, 0), world.play)


@pytest.mark.parametrize("case", range(150))
def test_a_batch_is_whole_or_nothing_and_no_task_is_in_it_twice(case):
    chance = random.Random(case)
    wanted, size = chance.randint(1, 8), chance.randint(8, 60)
    pool = [f"t{index}" for index in range(size)]
    share = chance.choice([0.0, 0.05, 0.3, 0.7, 1.0])
    settings = Settings("reward", 0.0, chance.randint(1, 40), chance.choice(["fail", "fill_with_best_std"]))
    world, again = World(share, case), World(share, case)
    memory = TaskMemory()
    try:
        selection = batch(world, pool, wanted, settings, memory)
    except Exhausted as error:
        assert world.played and len(world.played) == min(settings.max_resamples, size - wanted)
        accepted = error.numbers["accepted_groups"]
        assert accepted < wanted and (settings.on_exhausted == "fail" or accepted == 0)
        with pytest.raises(Exhausted, match=str(error)[:60]):
            batch(again, pool, wanted, settings)
    else:
        assert len(selection.chosen) == wanted == len(set(selection.chosen))
        tasks = [*pool[:wanted], *world.played]
        verdicts = [world.group(task_id) for task_id in tasks]
        kept = [verdicts[index] for index in selection.chosen]
        assert sum(not group.accepted for group in kept) == selection.filled == wanted - selection.accepted
        assert selection.filled == 0 or settings.on_exhausted == "fill_with_best_std"
        own = [place for place in range(wanted) if verdicts[place].accepted]
        assert [selection.chosen[place] for place in own] == own, "an accepted group keeps its place"
        assert selection.attempts == len(world.played)
        assert selection.accepted + selection.rejected == len(tasks)
        assert batch(again, pool, wanted, settings) == selection
    assert len(world.played) == len(set(world.played)) <= settings.max_resamples
    assert world.played == again.played and not set(world.played) & set(pool[:wanted])
    assert sum(record.attempts for record in memory.tasks.values()) == wanted + len(world.played)
    assert all(record.attempts == record.accepted + record.rejected for record in memory.tasks.values())


def test_ls_05_all_groups_constant_stops_after_the_cap_with_the_numbers():
    pool = [f"t{index}" for index in range(100)]
    world = World(0.0, 0)
    with pytest.raises(Exhausted) as caught:
        batch(world, pool, 8, replace(SETTINGS, max_resamples=3))
    assert len(world.played) == 3 and caught.value.reason == EXHAUSTED
    assert caught.value.numbers == {
        "wanted_groups": 8,
        "accepted_groups": 0,
        "rejected_groups": 11,
        "attempts": 3,
        "pool_size": 100,
        "zero_std_share": 1.0,
    }
    for text in ("0 of the 8 groups", "11 were rejected", "all 3 attempts", "pool of 100 tasks", "100%"):
        assert text in str(caught.value)


def test_a_pool_that_is_used_up_says_so():
    with pytest.raises(Exhausted, match="3 of 32 attempts were made, and all 5 tasks"):
        batch(World(0.0, 0), ["a", "b", "c", "d", "e"], 2, SETTINGS)


def test_filling_takes_the_rejected_groups_of_greatest_spread():
    spreads = {"a": 0.1, "b": 0.0, "c": 0.3, "d": 0.9, "e": 0.2, "f": 0.05}
    settings = Settings("reward", 0.5, 3, "fill_with_best_std")
    groups = {name: Group(name, spread, spread, spread > 0.5) for name, spread in spreads.items()}
    played = []

    def play(task_ids, _):
        played.extend(task_ids)
        return [groups[name] for name in task_ids]

    own = [groups[name] for name in ("a", "b", "d")]
    selection = complete_batch(own, list(groups), settings, TaskMemory(), (1, 0, 0), play)
    names = [*"abd", *played]
    assert [names[index] for index in selection.chosen] == ["c", "e", "d"] and selection.filled == 2


def test_filling_never_makes_a_batch_that_teaches_nothing():
    with pytest.raises(Exhausted, match="0 of the 2 groups"):
        batch(World(0.0, 0), ["a", "b", "c"], 2, Settings("reward", 0.0, 32, "fill_with_best_std"))
    # By success nothing differs, but the rewards do: there is something to learn.
    own = [Group("a", 0.0, 0.0, False), Group("b", 0.0, 0.2, False)]
    settings = Settings("success", 0.0, 32, "fill_with_best_std")
    selection = complete_batch(own, ["a", "b"], settings, TaskMemory(), (1, 0, 0), World(0, 0).play)
    assert sorted(selection.chosen) == [0, 1] and selection.filled == 2


# --------------------------------------------------------------------------------------------------------- the memory


def test_the_draw_prefers_what_was_informative_or_never_seen_to_what_was_always_rejected():
    memory = TaskMemory()
    for _ in range(8):
        memory.add([Group("dull", 0.0, 0.0, False), Group("good", 0.4, 0.4, True)])
    assert memory.weight("good") == 0.9 and memory.weight("new") == 0.5 and memory.weight("dull") == 0.1
    firsts = [draw_tasks(["dull", "good", "new"], set(), 1, memory, seed)[0] for seed in range(3000)]
    for name, weight in (("good", 0.9), ("new", 0.5), ("dull", 0.1)):
        assert firsts.count(name) / 3000 == pytest.approx(weight / 1.5, abs=0.03)


def test_a_draw_is_without_replacement_and_never_of_a_tried_task():
    pool = [f"t{index}" for index in range(20)]
    drawn = draw_tasks(pool, {"t3", "t4"}, 30, TaskMemory(), 1)
    assert sorted(drawn) == sorted(set(pool) - {"t3", "t4"})
    assert draw_tasks(pool, set(), 0, TaskMemory(), 1) == []
    assert draw_tasks(pool, set(), 5, TaskMemory(), 1) != draw_tasks(pool, set(), 5, TaskMemory(), 2)


def test_a_memory_that_was_saved_and_loaded_goes_on_with_the_same_draws(tmp_path):
    pool = [f"t{index}" for index in range(40)]
    unbroken, world = TaskMemory(), World(0.3, 3)
    settings = replace(SETTINGS, on_exhausted="fill_with_best_std")
    for step in range(4):
        batch(world, pool[step:] + pool[:step], 4, settings, unbroken, step)
    torch.save(unbroken.state_dict(), tmp_path / "memory.pt")
    resumed, fresh = TaskMemory(), TaskMemory()
    resumed.load_state_dict(torch.load(tmp_path / "memory.pt", weights_only=True))
    assert resumed == unbroken
    plays = []
    for memory in (unbroken, resumed, fresh):
        here = World(0.3, 3)
        for step in range(4, 8):
            batch(here, pool[step:] + pool[:step], 4, settings, memory, step)
        plays.append(here.played)
    assert plays[0] == plays[1] != plays[2]
    assert resumed == unbroken


def test_a_memory_that_cannot_be_read_leaves_the_old_one():
    memory = TaskMemory()
    memory.add([Group("a", 0.1, 0.1, True)])
    for state in ({}, {"tasks": {"a": [1, 2, 3, 4, 5]}}, {"tasks": []}):
        with pytest.raises(ValueError, match="memory of dynamic sampling"):
            memory.load_state_dict(state)
    assert memory.tasks["a"].accepted == 1


def test_a_small_pool_is_told():
    assert pool_warnings([["a"] * 50], 4) and "draws from 1 tasks for 4 groups" in pool_warnings([["a"] * 50], 4)[0]
    assert pool_warnings([[str(index) for index in range(40)]], 4) == []
    assert "draws from 3 tasks" in pool_warnings([[str(index) for index in range(99)], ["a", "b", "c"]], 4)[0]


# -------------------------------------------------------------------------------------------------------- in training


SAMPLING = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "max_turn_tokens": 4,
    "max_episode_tokens": 8,
    "max_context_tokens": None,
}
TASKS = [f"t{index}" for index in range(30)]


@pytest.fixture
def request_of(tiny_folder, tmp_path):
    def build(trainer=None, **changes):
        small = {"max_steps": 2, "per_device_train_batch_size": 8, "num_generations": 2, "learning_rate": 1e-2}
        request = {
            "model": str(tiny_folder),
            "policy": "model:tiny",
            "output_dir": str(tmp_path / "run"),
            "seed": 5,
            "trainer": {**small, "save_strategy": "no", "loss_type": "dapo", "beta": 0.0, **(trainer or {})},
            "lora": None,
            "chat_template_kwargs": {},
            "task_ids": TASKS,
            "dynamic_sampling": REQUEST,
            "sampling": SAMPLING,
        }
        return {**request, **changes}

    return build


def teaches(task_id: str, share=0.4) -> bool:
    return random.Random(task_id).random() < share


def reward_of(episode) -> float:
    return float(episode.trial if teaches(episode.task_id) else 0.5)


def tasks_of(start: dict) -> list[str]:
    return [each["task_id"] for each in start["episodes"]]


def test_every_step_learns_from_whole_groups_with_a_difference(request_of):
    host = FakeHost(reward=reward_of)
    trainer, sampler = build_trainer(request_of(), load_policy(request_of()), host)
    prompts = [task_id for task_id in TASKS[:4] for _ in range(2)]
    fields = sampler(prompts, trainer)
    groups = [fields["task_id"][place : place + 2] for place in range(0, 8, 2)]
    assert all(first == second and teaches(first) for first, second in groups)
    assert fields["reward"] == [0.0, 1.0] * 4
    assert not host.open, "what was rejected is finished and logged like the rest"

    played = [task_id for start in host.starts for task_id in tasks_of(start)]
    assert len(played) == 2 * len(set(played)) == sampler.rollouts > 8, "no task is played twice for a batch"
    assert {each["policy_step"] for each in host.starts} == {0}
    seeds = {(each["task_id"], each["seed"]) for start in host.starts for each in start["episodes"]}
    assert len(seeds) == len(played) / 2, "a group's members share their seed"

    figures = sampler.gauge.take()
    assert figures["dynamic_sampling/accepted_groups"] == 4 and figures["dynamic_sampling/filled_groups"] == 0
    assert figures["dynamic_sampling/attempts"] == len(played) / 2 - 4
    assert figures["dynamic_sampling/rejected_groups"] == len(played) / 2 - 4
    assert figures["dynamic_sampling/kept_share"] == pytest.approx(8 / len(played))
    assert figures["dynamic_sampling/drawn_reward"] == pytest.approx(0.5)
    tokens = sum(each["tokens"]["policy"] for each in host.finished)
    assert figures["sampling/policy_tokens"] == sampler.policy_tokens == tokens, "all that was played counts as cost"


def test_two_steps_train_and_say_what_they_took(request_of):
    host = FakeHost(reward=reward_of)
    result = grpo.run(request_of(), host)
    totals = result["dynamic_sampling"]
    assert result["steps"] == totals["batches"] == 2 and totals["accepted_groups"] == 8
    assert totals["exhausted"] is None and totals["attempts"] == totals["rejected_groups"] > 0
    assert result["rollouts"] == 2 * (8 + totals["attempts"]) == len(host.finished)
    metrics = host.logs[0]["metrics"]
    assert metrics["frac_reward_zero_std"] == 0 and metrics["dynamic_sampling/accepted_groups"] == 4
    assert metrics["time/learning_s"] > 0 and metrics["time/sampling_s"] > 0
    assert "draws from 30 tasks for 4 groups" in host.notes[0]


def test_the_same_seed_replaces_the_same_tasks(request_of):
    hosts = [FakeHost(reward=reward_of) for _ in range(3)]
    for host, seed in zip(hosts, (5, 5, 6), strict=True):
        grpo.run(request_of(seed=seed), host)
    starts = [[tasks_of(start) for start in host.starts] for host in hosts]
    assert starts[0] == starts[1] != starts[2]


def test_constant_rewards_stop_before_the_first_step_and_leave_nothing_half_done(request_of, tmp_path):
    host = FakeHost(reward=lambda _: 0.5)
    result = grpo.run(request_of(dynamic_sampling={**REQUEST, "max_resamples": 3}), host)
    assert result["stop_reason"] == EXHAUSTED and result["steps"] == 0 and result["train_loss"] is None
    numbers = result["dynamic_sampling"]["exhausted"]
    assert numbers["wanted_groups"] == 4 and numbers["attempts"] == 3 and numbers["zero_std_share"] == 1
    assert "0 of the 4 groups" in host.notes[-1] and result["rollouts"] == 14
    assert not host.open and not (tmp_path / "run" / "final").exists()


def test_a_run_that_stops_later_keeps_what_it_learnt(request_of, tmp_path):
    host = FakeHost()
    host.reward = lambda episode: float(episode.trial) if host.starts[-1]["policy_step"] == 0 else 0.5
    result = grpo.run(request_of(trainer={"max_steps": 5}), host)
    assert (result["stop_reason"], result["steps"]) == (EXHAUSTED, 1)
    assert result["dynamic_sampling"]["exhausted"]["step"] == 1
    assert (tmp_path / "run" / "final" / "model.safetensors").is_file()


def test_filled_groups_are_in_the_batch_counted_and_told_once(request_of):
    host = FakeHost(reward=lambda episode: float(episode.trial if episode.task_id in ("t1", "t2") else 0.5))
    settings = {**REQUEST, "max_resamples": 30, "on_exhausted": "fill_with_best_std"}
    result = grpo.run(request_of(dynamic_sampling=settings), host)
    assert result["steps"] == 2 and result["dynamic_sampling"]["filled_groups"] == 4
    assert [log["metrics"]["frac_reward_zero_std"] for log in host.logs[:2]] == [0.5, 0.5]
    assert len([note for note in host.notes if "greatest spread" in note]) == 1


def test_a_curriculums_stage_is_the_pool(request_of):
    host = FakeHost(reward=reward_of)
    stages = [{"from_step": 0, "task_ids": TASKS[:15]}, {"from_step": 1, "task_ids": TASKS[15:]}]
    grpo.run(request_of(stages=stages), host)
    for start in host.starts:
        assert set(tasks_of(start)) <= set(stages[start["policy_step"]]["task_ids"])


def test_a_resumed_sampler_with_its_memory_plays_what_the_unbroken_one_plays(request_of):
    def sampler_and_trainer(host):
        trainer, sampler = build_trainer(request_of(), load_policy(request_of()), host)
        return sampler, trainer

    def batches(sampler, trainer, steps):
        for step in steps:
            trainer.state.global_step = step
            sampler([task_id for task_id in TASKS[step : step + 4] for _ in range(2)], trainer)

    unbroken = FakeHost(reward=reward_of)
    sampler, trainer = sampler_and_trainer(unbroken)
    batches(sampler, trainer, range(3))
    state, before = sampler.memory.state_dict(), len(unbroken.starts)
    batches(sampler, trainer, range(3, 6))
    resumed = FakeHost(reward=reward_of)
    sampler, trainer = sampler_and_trainer(resumed)
    sampler.memory.load_state_dict(json.loads(json.dumps(state)))
    batches(sampler, trainer, range(3, 6))
    assert resumed.starts == unbroken.starts[before:]


# -------------------------------------------------------------------------------------------------- several processes


@pytest.mark.parametrize("count", range(12))
@pytest.mark.parametrize("processes", [1, 2, 3, 5])
def test_groups_are_dealt_once_each_in_order(count, processes):
    shares = [dealt(count, process, processes) for process in range(processes)]
    assert [group for share in shares for group in share] == list(range(count))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


class Ring:
    """gather_object of threads that stand for processes; a gather that not all take part in fails."""

    def __init__(self, processes: int):
        self.barrier = threading.Barrier(processes, timeout=20)
        self.given: list[list] = [[] for _ in range(processes)]
        self.calls = [0] * processes

    def of(self, process: int):
        def gather(values: list) -> list:
            self.calls[process] += 1
            self.given[process] = values
            self.barrier.wait()
            joined = [value for each in self.given for value in each]
            self.barrier.wait()
            return joined

        return gather


@pytest.mark.parametrize(("rows", "group"), [(4, 2), (2, 4), (6, 4), (3, 2), (8, 4)])
def test_several_processes_decide_the_same_and_each_keeps_its_rows(monkeypatch, rows, group):
    """Groups within a process, and across two; against one process that plays the whole batch."""
    settings = {**REQUEST, "on_exhausted": "fill_with_best_std", "max_resamples": 12}
    request = {"seed": 5, "policy": "p", "sampling": SAMPLING, "task_ids": TASKS, "dynamic_sampling": settings}

    def play(_policy, _chat, host, episodes, params, **_):
        from trainers.rollout import Rollout

        host.played += episodes
        return [
            Rollout(
                **each,
                prompt_ids=[1],
                completion_ids=[each["seed"] % 997, each["trial"]],
                env_mask=[1, 1],
                logprobs=[-0.1, -0.1],
                reward=float(each["trial"] % 2) if teaches(each["task_id"], 0.3) else 0.5,
            )
            for each in episodes
        ]

    monkeypatch.setattr("trainers.rollout_func.play_batch", play)

    def run(processes: int, steps: int):
        ring, results = Ring(processes), [[] for _ in range(processes)]

        def rank(process: int) -> None:
            host = SimpleNamespace(round_trip_ms=0, crossing_ms=0, played=[], notes=[])
            host.note = host.notes.append
            sampler = RolloutSampler(
                request, SimpleNamespace(chat=SimpleNamespace(is_over=None), engine=None), host, group
            )
            sampler.gather = ring.of(process)
            own = 2 * rows // processes
            accelerator = SimpleNamespace(
                process_index=process, num_processes=processes, autocast=lambda: torch.enable_grad()
            )
            for step in range(steps):
                trainer = SimpleNamespace(accelerator=accelerator, state=SimpleNamespace(global_step=step))
                whole = [TASKS[(step + place // group) % len(TASKS)] for place in range(2 * rows)]
                fields = sampler(whole[process * own : (process + 1) * own], trainer)
                assert len(fields["reward"]) == own
                results[process].append((fields["task_id"], fields["completion_ids"], fields["reward"]))
            ends.append((process, sampler.memory, sampler.resampled, host.played, host.notes))

        ends: list = []
        threads = [threading.Thread(target=rank, args=(process,)) for process in range(processes)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(ends) == processes and len(set(ring.calls)) == 1, "all gather equally often"
        return results, sorted(ends, key=lambda end: end[0])

    [alone], [(_, memory, totals, played, _)] = run(1, 6)
    (first, second), ends = run(2, 6)
    for whole, one, two in zip(alone, first, second, strict=True):
        assert [a + b for a, b in zip(one, two, strict=True)] == list(whole)
    assert ends[0][1] == ends[1][1] == memory and ends[0][2] == ends[1][2] == totals
    key = json.dumps
    assert sorted(map(key, ends[0][3] + ends[1][3])) == sorted(map(key, played)), "each rollout is played once"
    assert not ends[1][4], "one process tells"


def test_two_real_processes_decide_the_same(tmp_path):
    script = Path(__file__).parent / "two_ranks_dynamic_sampling.py"
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*launch, "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", str(script), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(script.parents[1]), "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    one, two = (json.loads((tmp_path / f"rank-{rank}.json").read_text()) for rank in range(2))
    assert one["memory"] == two["memory"] and one["totals"] == two["totals"]
    assert one["totals"]["rejected_groups"] > 0
    rewards = one["reward"] + two["reward"]
    assert all(len(set(rewards[place : place + 4])) == 2 for place in range(0, len(rewards), 4))
