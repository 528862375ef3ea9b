"""TRL's `rollout_func`: plays a batch of tasks and hands it on, for every recipe that learns from rollouts."""

import math
import time
from collections import defaultdict
from collections.abc import Callable
from statistics import fmean, stdev

from accelerate.utils import gather_object
from transformers import Trainer

from trainers.callbacks import Gauge
from trainers.dynamic_sampling import (
    EQUAL_REWARDS,
    Exhausted,
    Group,
    Row,
    Selection,
    Settings,
    TaskMemory,
    complete_batch,
    dealt,
    judge_groups,
)
from trainers.model import Policy
from trainers.plan import draw_prompts, plan_episodes, stage_at, stream_seed
from trainers.rollout import Rollout, play_batch
from trainers.sampling import SamplingParams
from trainers.sharded import WholeCopy, is_sharded
from trainers.wire import Host

# What was played, by place: which of the batch's groups, those that replace others behind its own, and which member.
Played = dict[tuple[int, int], tuple[dict, Rollout]]


class RolloutSampler:
    """TRL's `rollout_func`: plays every prompt it is given and counts, so that a run can prove it was used.

    With `request["dynamic_sampling"]` groups that teach nothing give way to others before TRL sees the batch. Counts
    and times are then of all that was played, the fields of the final batch alone.
    """

    TOTALS = ("rollouts", "invalid", "policy_tokens", "play_s", "ask_s")  # of the whole run, its earlier parts included

    def __init__(self, request: dict, policy: Policy, host: Host, group: int):
        self.request = request
        self.policy = policy
        self.host = host
        self.group = group  # rollouts a group
        self.gauge = Gauge()
        self.rollouts = 0
        self.invalid = 0
        self.policy_tokens = 0
        self.play_s = 0.0  # all play, the host's time included
        self.ask_s = 0.0  # of it, waiting for the host
        self.latest: list[Rollout] = []  # the last batch
        self._whole = WholeCopy(policy) if is_sharded(request.get("trainer") or {}) else None
        self._sampled = policy  # what plays: the policy, or a whole copy of one that is in parts on several processes
        self._draw = (-1, -1)  # optimizer step, and how often it has sampled

        given = request.get("dynamic_sampling")
        self.dynamic = Settings(**given) if given else None
        self.memory = TaskMemory()
        totals = ("batches", "accepted_groups", "rejected_groups", "attempts", "filled_groups")
        self.resampled = {**dict.fromkeys(totals, 0), "exhausted": None} if given else None
        self.stages = request.get("stages") or []
        # The tasks that may replace others: of each stage, without a curriculum all.
        self.pools = [list(dict.fromkeys(each["task_ids"])) for each in self.stages or [request]]
        self.gather = gather_object  # a list of each process in, all of them joined in order out

    def state_dict(self) -> dict:
        return {
            "totals": {name: getattr(self, name) for name in self.TOTALS},
            "tasks": self.memory.state_dict(),
            "resampled": self.resampled,
        }

    def load_state_dict(self, state: dict) -> None:
        for name, value in state["totals"].items():
            setattr(self, name, value)
        self.memory.load_state_dict(state["tasks"])
        self.resampled = state["resampled"]

    def __call__(self, prompts: list[str], trainer: Trainer) -> dict[str, list]:
        """Plays task ids, each already repeated for its group, and returns TRL's fields and ours, a list each."""
        step = trainer.state.global_step
        self._draw = (step, self._draw[1] + 1 if self._draw[0] == step else 0)
        seed = self.request["seed"]
        first = trainer.accelerator.process_index * len(prompts)
        if self.stages:
            self.gauge.add("curriculum/stage", stage_at(self.stages, step))
            prompts = draw_prompts(self.stages, len(prompts), self.group, seed, *self._draw, first)
        played: list[Rollout] = []

        def play(prompts: list[str], first: int) -> Played:
            """Plays the rows that begin at place `first` of all rows that are played for this batch."""
            episodes = plan_episodes(prompts, self.group, seed, *self._draw, first)
            rollouts = self._play(episodes, trainer) if episodes else []
            played.extend(rollouts)
            pairs = zip(episodes, rollouts, strict=True)
            return {divmod(first + row, self.group): pair for row, pair in enumerate(pairs)}

        begin, asked_ms, crossing_ms = time.perf_counter(), self.host.round_trip_ms, self.host.crossing_ms
        if self._whole:
            self._sampled = self._whole.refreshed(trainer.model_wrapped)
        try:
            rows = play(prompts, first)
            if self.dynamic:
                rows = self._replace_groups(rows, play, trainer)
        finally:
            play_s = time.perf_counter() - begin
            ask_s = (self.host.round_trip_ms - asked_ms) / 1000
            bridge_s = (self.host.crossing_ms - crossing_ms) / 1000
            self._count(played, play_s, ask_s, bridge_s)
        return trainer_fields([rollout for _, rollout in rows.values()], [episode for episode, _ in rows.values()])

    def _play(self, episodes: list[dict], trainer: Trainer) -> list[Rollout]:
        seed = stream_seed(self.request["seed"], "sampling", *self._draw)
        with trainer.accelerator.autocast():  # the precision that the loss is computed in
            return play_batch(
                self._sampled,
                self.policy.chat,
                self.host,
                episodes,
                SamplingParams(**self.request["sampling"], seed=seed),
                policy_step=trainer.state.global_step,
                policy_name=self.request["policy"],
            )

    def _replace_groups(self, own: Played, play: Callable[[list[str], int], Played], trainer: Trainer) -> Played:
        """This process's rows of the batch that dynamic sampling completes.

        The rejected groups of all processes are replaced together: what is played for them is dealt out anew, and the
        rollouts go to the process whose rows they become. So groups may lie across processes, and each process gathers
        as often as the others.
        """
        process, processes = trainer.accelerator.process_index, trainer.accelerator.num_processes
        count = len(own)  # rows of a process
        groups = count * processes // self.group
        step = self._draw[0]
        pool = self.pools[stage_at(self.stages, step) if self.stages else 0]
        store = dict(own)

        def results(played: Played) -> list[Row]:
            return self.gather([(rollout.task_id, rollout.reward, rollout.success) for _, rollout in played.values()])

        def play_more(task_ids: list[str], attempts: int) -> list[Group]:
            share = dealt(len(task_ids), process, processes)
            prompts = [task_ids[index] for index in share for _ in range(self.group)]
            played = play(prompts, (groups + attempts + share.start) * self.group)
            store.update(played)
            return judge_groups(results(played), self.group, self.dynamic)

        first = results(own)
        judged = judge_groups(first, self.group, self.dynamic)
        try:
            place = (self.request["seed"], *self._draw)
            selection = complete_batch(judged, pool, self.dynamic, self.memory, place, play_more)
        except Exhausted as error:
            self.resampled["exhausted"] = {"step": step, **error.numbers}
            raise
        self._count_groups(selection, first, tell=process == 0)

        places = [(group, member) for group in selection.chosen for member in range(self.group)]
        elsewhere = [(key, store[key]) for row, key in enumerate(places) if key in store and row // count != process]
        store |= dict(self.gather(elsewhere))
        return {key: store[key] for key in places[process * count : (process + 1) * count]}

    def _count_groups(self, selection: Selection, first: list[Row], tell: bool) -> None:
        figures = {
            "accepted_groups": selection.accepted,
            "rejected_groups": selection.rejected,
            "attempts": selection.attempts,
            "filled_groups": selection.filled,
        }
        if selection.filled and not self.resampled["filled_groups"] and tell:
            self.host.note(
                f"dynamic sampling: {selection.accepted} of {len(selection.chosen)} groups of step {self._draw[0]} had "
                f"a difference after {selection.attempts} attempts; the rejected ones of greatest spread fill the "
                "rest. Said once; dynamic_sampling/filled_groups counts them."
            )
        for name, value in figures.items():
            self.gauge.add(f"dynamic_sampling/{name}", value)
            self.resampled[name] += value
        self.resampled["batches"] += 1
        self.gauge.add("dynamic_sampling/kept_share", selection.accepted / (selection.accepted + selection.rejected))
        # The final batch is a selection. These are of the batch as it was drawn: what the policy does on its tasks.
        rewards = [reward for _, reward, _ in first if reward is not None]
        if rewards:
            self.gauge.add("dynamic_sampling/drawn_reward", sum(rewards) / len(rewards))
            solved = sum(success for _, reward, success in first if reward is not None)
            self.gauge.add("dynamic_sampling/drawn_success", solved / len(rewards))

    def _count(self, rollouts: list[Rollout], play_s: float, ask_s: float, bridge_s: float) -> None:
        tokens = sum(rollout.policy_tokens for rollout in rollouts)
        self.latest = rollouts
        self.rollouts += len(rollouts)
        self.invalid += sum(rollout.reward is None for rollout in rollouts)
        self.policy_tokens += tokens
        self.play_s += play_s
        self.ask_s += ask_s
        self.gauge.add("sampling/tokens_per_s", tokens / max(play_s - ask_s, 1e-9))
        self.gauge.add("sampling/policy_tokens", tokens)
        if self.policy.chat.is_over is not None:
            replies = sum(rollout.turns for rollout in rollouts)
            stopped = sum(rollout.stopped_replies for rollout in rollouts)
            self.gauge.add("sampling/stopped_replies", stopped / max(replies, 1))
        if self.policy.engine is not None:
            missing = sum(math.isnan(logprob) for rollout in rollouts for logprob in rollout.logprobs)
            self.gauge.add("sampling/missing_logprobs", missing)
        self.gauge.add("time/sampling_s", play_s - ask_s)
        self.gauge.add("time/environment_s", ask_s - bridge_s)
        self.gauge.add("time/bridge_s", bridge_s)


def rollout_metrics(reward, parts, metrics, success, ended_by, ended_why, turns) -> dict[str, float]:
    """Means over a batch. Invalid rollouts count in `rollout/invalid` alone: nobody knows how they would have gone.

    A family's own figures come as `rollout/<name>`, or under their own name where it has a group, as
    `reward_weights/format`; a name of ours keeps our meaning.
    """
    rows = [index for index, value in enumerate(reward) if value is not None]
    values: dict[str, list[float]] = defaultdict(list)
    family: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        values["rollout/turns"].append(turns[row])
        values["rollout/finished"].append(ended_by[row] == "terminated")
        values["rollout/truncated"].append(ended_by[row] == "truncated")
        values["rollout/out_of_tokens"].append(ended_by[row] == "truncated" and ended_why[row] != "turns")
        values["rollout/success"].append(success[row])
        for name, score in parts[row].items():
            if score is not None:
                values[f"reward_components/{name}"].append(score)
        for name, value in metrics[row].items():
            if isinstance(value, (int, float)):  # and bool; texts and None are for the log of trajectories
                family[name if "/" in name else f"rollout/{name}"].append(value)
    means = {name: sum(map(float, each)) / len(each) for name, each in (family | values).items()}
    return {"rollout/invalid": 1 - len(rows) / len(reward), **means}


def task_metrics(task_id: list[str], reward: list[float | None]) -> dict[str, float]:
    """`reward_by_task/<id>/{mean, std, zero_std}` of the tasks in a batch, over the rollouts of all processes.

    std is the sample's (n − 1), 0 of a single rollout; zero_std is 1 where no rollout's reward differs from another's
    by more than float noise. Invalid rollouts are left out, and so is a task that has no other.
    """
    rewards: dict[str, list[float]] = defaultdict(list)
    for task, value in gather_object(list(zip(task_id, reward, strict=True))):
        if value is not None:
            rewards[task].append(value)
    values: dict[str, float] = {}
    for task, each in rewards.items():
        values[f"reward_by_task/{task}/mean"] = fmean(each)
        values[f"reward_by_task/{task}/std"] = stdev(each) if len(each) > 1 else 0.0
        values[f"reward_by_task/{task}/zero_std"] = float(max(each) - min(each) <= EQUAL_REWARDS)
    return values


def trainer_fields(rollouts: list[Rollout], episodes: list[dict]) -> dict[str, list]:
    """Rollouts as TRL takes them: a real list a field, an entry a row, so that each row gets its own.

    Raises ValueError where rows are missing, or where ids, mask and logprobs do not fit together.
    """
    if len(rollouts) != len(episodes):
        raise ValueError(
            f"{len(episodes)} rollouts asked, {len(rollouts)} returned: no step is taken on a part of a batch."
        )
    fields: dict[str, list] = defaultdict(list)
    for row, (rollout, episode) in enumerate(zip(rollouts, episodes, strict=True)):
        if rollout is None:
            raise ValueError(f"row {row} (task '{episode['task_id']}') is missing from the rollouts.")
        if (rollout.task_id, rollout.trial) != (episode["task_id"], episode["trial"]):
            raise ValueError(
                f"row {row} should be task '{episode['task_id']}', trial {episode['trial']}, but is "
                f"'{rollout.task_id}', trial {rollout.trial}: the rollouts are out of order."
            )
        check_tokens(f"row {row} (task '{rollout.task_id}')", rollout)
        fields["env_mask"].append([int(bit) for bit in rollout.env_mask])
        for name in ("prompt_ids", "completion_ids", "logprobs", "turn_index", "turn_scores"):
            fields[name].append(getattr(rollout, name))
        for name in ("task_id", "reward", "parts", "metrics", "success", "ended_by", "ended_why", "turns"):
            fields[name].append(getattr(rollout, name))
    return dict(fields)


def check_tokens(name: str, rollout: Rollout) -> None:
    """Refuses a row that the loss would choke on, or silently misread. `name` begins the message."""
    ids, mask, logprobs = rollout.completion_ids, rollout.env_mask, rollout.logprobs
    if not len(ids) == len(mask) == len(logprobs):
        raise ValueError(
            f"{name}: {len(ids)} completion_ids, {len(mask)} env_mask, {len(logprobs)} logprobs; expected one length."
        )
    if not ids or not rollout.prompt_ids:
        raise ValueError(
            f"{name}: the {'completion' if rollout.prompt_ids else 'prompt'} is empty; TRL reads its last token."
        )
    for place, bit in enumerate(mask):
        if not isinstance(bit, int) or bit not in (0, 1):
            raise ValueError(f"{name}: env_mask[{place}] is {bit!r}; expected 1 (the policy's token) or 0.")
