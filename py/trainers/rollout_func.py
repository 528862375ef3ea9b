"""TRL's `rollout_func`: plays a batch of tasks and hands it on, for every recipe that learns from rollouts."""

import time
from collections import defaultdict

from transformers import Trainer

from trainers.callbacks import Gauge
from trainers.model import Policy
from trainers.plan import draw_prompts, plan_episodes, stage_at, stream_seed
from trainers.rollout import Rollout, play_batch
from trainers.sampling import SamplingParams
from trainers.sharded import WholeCopy, is_sharded
from trainers.wire import Host


class RolloutSampler:
    """TRL's `rollout_func`: plays every prompt it is given and counts, so that a run can prove it was used."""

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
        self.cut_share = 0.0  # of the last batch's replies, those that a token budget cut off
        self._whole = WholeCopy(policy) if is_sharded(request.get("trainer") or {}) else None
        self._draw = (-1, -1)  # optimizer step, and how often it has sampled

    def __call__(self, prompts: list[str], trainer: Trainer) -> dict[str, list]:
        """Plays task ids, each already repeated for its group, and returns TRL's fields and ours, a list each."""
        step = trainer.state.global_step
        self._draw = (step, self._draw[1] + 1 if self._draw[0] == step else 0)
        seed = self.request["seed"]
        first = trainer.accelerator.process_index * len(prompts)
        stages = self.request.get("stages") or []
        if stages:
            self.gauge.add("curriculum/stage", stage_at(stages, step))
            prompts = draw_prompts(stages, len(prompts), self.group, seed, *self._draw, first)
        episodes = plan_episodes(prompts, self.group, seed, *self._draw, first)
        params = SamplingParams(**self.request["sampling"], seed=stream_seed(seed, "sampling", *self._draw))

        begin, asked_ms, crossing_ms = time.perf_counter(), self.host.round_trip_ms, self.host.crossing_ms
        policy = self._whole.refreshed(trainer.model_wrapped) if self._whole else self.policy
        with trainer.accelerator.autocast():  # the precision that the loss is computed in
            rollouts = play_batch(
                policy,
                policy.chat,
                self.host,
                episodes,
                params,
                policy_step=step,
                policy_name=self.request["policy"],
            )
        play_s = time.perf_counter() - begin
        fields = trainer_fields(rollouts, episodes)
        ask_s = (self.host.round_trip_ms - asked_ms) / 1000
        bridge_s = (self.host.crossing_ms - crossing_ms) / 1000
        self._count(rollouts, play_s, ask_s, bridge_s)
        return fields

    def _count(self, rollouts: list[Rollout], play_s: float, ask_s: float, bridge_s: float) -> None:
        tokens = sum(rollout.policy_tokens for rollout in rollouts)
        self.rollouts += len(rollouts)
        self.invalid += sum(rollout.reward is None for rollout in rollouts)
        self.policy_tokens += tokens
        self.play_s += play_s
        self.ask_s += ask_s
        self.gauge.add("sampling/tokens_per_s", tokens / max(play_s - ask_s, 1e-9))
        self.gauge.add("sampling/policy_tokens", tokens)
        replies = sum(rollout.turns for rollout in rollouts)
        self.cut_share = sum(rollout.cut_replies for rollout in rollouts) / max(replies, 1)
        self.gauge.add("sampling/cut_replies", self.cut_share)
        if self.policy.chat.is_over is not None:
            stopped = sum(rollout.stopped_replies for rollout in rollouts)
            self.gauge.add("sampling/stopped_replies", stopped / max(replies, 1))
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
        for name in ("prompt_ids", "completion_ids", "logprobs"):
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
