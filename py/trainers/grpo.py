"""Group Relative Policy Optimization (arXiv:2402.03300) on environment rollouts, with TRL's GRPOTrainer.

Which task, which seed, what was sampled and what it earned is decided here and in TypeScript; the loss is TRL's.
"""

import hashlib
import math
import random
import time
from collections import defaultdict

import torch
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from trainers.batching import deal_by_length
from trainers.callbacks import (
    REPLIES_CUT,
    Gauge,
    HostCallback,
    quiet_libraries,
    train_and_save,
)
from trainers.model import Policy, UserError, load_policy, on_one_device, precision_arguments
from trainers.preflight import trainer_problems
from trainers.rollout import Rollout, SamplingParams, play_batch
from trainers.wire import Host

# Rewards of a group that lie closer than this are equal: what is left is float noise, and an optimizer that scales
# its steps (Adam) would turn noise into full-sized updates. The same bound as groupAdvantages in src/core/reward.ts.
EQUAL_REWARDS = 1e-6
# A policy whose replies are nearly all cut off earns nothing, however long it trains.
CUT_SHARE, CUT_STEPS = 0.9, 10


def run(request: dict, host) -> dict:
    """Trains `request["model"]` on rollouts of `request["task_ids"]`; the trained model is in `final/`."""
    quiet_libraries()
    problems, warned = trainer_problems("grpo", request["trainer"])
    if request["sampling"]["temperature"] <= 0:
        problems.append("temperature is 0: a group of greedy rollouts is one rollout many times. Set it above 0.")
    if problems:
        raise UserError(" ".join(problems))
    for text in warned:
        host.note(text)

    policy = load_policy(request)
    trainer, sampler = build_trainer(request, policy, host)
    result = train_and_save(trainer, RolloutCallback(host, sampler), policy, request["output_dir"])
    return {
        **result,
        "rollouts": sampler.rollouts,
        "policy_tokens": sampler.policy_tokens,
        "sampling_s": sampler.play_s - sampler.ask_s,
        "ask_s": host.round_trip_ms / 1000,
        "bridge_s": host.crossing_ms / 1000,
    }


class RolloutSampler:
    """TRL's `rollout_func`: plays every prompt it is given and counts, so that a run can prove it was used."""

    def __init__(self, request: dict, policy: Policy, host: Host, group: int):
        self.request = request
        self.policy = policy
        self.host = host
        self.group = group  # rollouts a group
        self.gauge = Gauge()
        self.rollouts = 0
        self.policy_tokens = 0
        self.play_s = 0.0  # all play, the host's time included
        self.ask_s = 0.0  # of it, waiting for the host
        self.cut_share = 0.0  # of the last batch's replies, those that a token budget cut off
        self._draw = (-1, -1)  # optimizer step, and how often it has sampled

    def __call__(self, prompts: list[str], trainer: GRPOTrainer) -> dict[str, list]:
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
        with trainer.accelerator.autocast():  # the precision that the loss is computed in
            rollouts = play_batch(
                self.policy,
                self.policy.chat,
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


class RolloutCallback(HostCallback):
    """The host's callback, and what it watches of rollouts: that they happen, how long they take, that they end."""

    def __init__(self, host: Host, sampler: RolloutSampler):
        super().__init__(host, sampler.gauge)
        self.sampler = sampler
        self._begin = self._played = 0.0
        self._cut_steps = 0

    def on_step_begin(self, args, state, control, **_):
        self._begin, self._played = time.perf_counter(), self.sampler.play_s

    def on_step_end(self, args, state, control, **_):
        if self.sampler.rollouts == 0:
            raise RuntimeError(
                "GRPOTrainer took a step without calling rollout_func: something has replaced its sampling (a patched "
                "trainer?), and what it learns from are not our environment's rollouts."
            )
        self.gauge.add("time/learning_s", time.perf_counter() - self._begin - (self.sampler.play_s - self._played))
        self._watch_cut_replies(control)
        super().on_step_end(args, state, control)

    def _watch_cut_replies(self, control) -> None:
        self._cut_steps = self._cut_steps + 1 if self.sampler.cut_share > CUT_SHARE else 0
        if self._cut_steps not in (1, CUT_STEPS):
            return
        self.host.note(
            f"{self.sampler.cut_share:.0%} of the replies were cut off by a token budget (max_turn_tokens is "
            f"{self.sampler.request['sampling']['max_turn_tokens']}): the policy hardly gets to say anything whole. "
            + (f"Stopped after {CUT_STEPS} such steps." if self._cut_steps == CUT_STEPS else "")
        )
        if self._cut_steps == CUT_STEPS:
            self._stop(control, REPLIES_CUT)


class RolloutTrainer(GRPOTrainer):
    """GRPOTrainer that trusts the environment about which rollouts count. The loss itself is untouched."""

    mask_truncated = False

    def create_model_card(self, *_, **__):
        """None: the run folder has its own record."""

    def _generate_and_score_completions(self, inputs: list[dict]) -> dict[str, torch.Tensor]:
        output = super()._generate_and_score_completions(inputs)
        device = output["advantages"].device
        rewards = torch.tensor(
            [math.nan if row["reward"] is None else row["reward"] for row in inputs], dtype=torch.float64, device=device
        )
        equal = self._equal_rewards(rewards)
        output["advantages"] = output["advantages"].masked_fill(equal, 0.0)

        # Tokens that must not move the policy: of invalid rollouts, and of truncated ones where that is asked for.
        # TRL's own masking of truncated completions looks at the last token, and so misses a turn limit.
        keep = torch.tensor([self._counts(row) for row in inputs], device=device)
        output["tool_mask"] = output["tool_mask"] * keep.unsqueeze(1).to(output["tool_mask"].dtype)
        tokens = (output["completion_mask"] * output["tool_mask"]).sum()
        output["num_items_in_batch"] = self.accelerator.gather(tokens).sum()
        self._metrics["train"]["rollout/masked"].append(1 - keep.float().mean().item())
        self._metrics["train"]["rollout/empty_step"].append(float(output["num_items_in_batch"].item() == 0))
        return output

    def _prepare_inputs(self, generation_batch):
        before = self._buffered_inputs
        inputs = super()._prepare_inputs(generation_batch)
        if not self.model.training or self._buffered_inputs is before:
            return inputs
        # Only within an optimizer step: short rows first and long ones later would be steps of different kinds.
        steps, size = self._buffered_inputs, self.args.gradient_accumulation_steps
        self._buffered_inputs = [
            batch for i in range(0, len(steps), size) for batch in deal_by_length(steps[i : i + size])
        ]
        return self._buffered_inputs[self._step % self.args.steps_per_generation]

    def _counts(self, row: dict) -> bool:
        return row["reward"] is not None and not (self.mask_truncated and row["ended_by"] == "truncated")

    def _equal_rewards(self, rewards: torch.Tensor) -> torch.Tensor:
        """Which local rows are in a group without any difference in reward. `rewards`: (B,) local, NaN where invalid.

        Also corrects the trainer's figure of such groups, which takes float noise for a difference.
        """
        groups = self.accelerator.gather(rewards).view(-1, self.num_generations)
        highest = groups.nan_to_num(nan=-math.inf).amax(dim=1)
        lowest = groups.nan_to_num(nan=math.inf).amin(dim=1)
        equal = highest - lowest <= EQUAL_REWARDS  # a group without a valid rollout has −inf − inf: equal too
        self._metrics["train"]["frac_reward_zero_std"][-1] = equal.float().mean().item()
        first = self.accelerator.process_index * len(rewards)
        return equal.repeat_interleave(self.num_generations)[first : first + len(rewards)]


def build_trainer(request: dict, policy: Policy, host: Host) -> tuple[RolloutTrainer, RolloutSampler]:
    """The trainer, with what hardware and the run folder decide; the rest is TRL's names and defaults."""
    given = dict(request["trainer"])
    mask_truncated = given.pop("mask_truncated_completions", False)
    sampling = request["sampling"]
    arguments = {
        "logging_steps": 1,
        "report_to": "none",
        **given,
        **precision_arguments(policy, given),
        "output_dir": request["output_dir"],
        "seed": request["seed"],
        "temperature": sampling["temperature"],
        # Only a divisor of the dr_grpo loss here: lengths are the sampler's business.
        "max_completion_length": sampling["max_episode_tokens"],
        "disable_tqdm": True,
        "logging_nan_inf_filter": False,  # a lost loss must be seen
    }
    args = on_one_device(GRPOConfig(**arguments))
    groups = args.generation_batch_size // args.num_generations
    # A batch holds whole groups only: with fewer tasks than groups it would hold none.
    task_ids = request["task_ids"] * math.ceil(groups / len(request["task_ids"]))
    sampler = RolloutSampler(request, policy, host, args.num_generations)
    trainer = RolloutTrainer(
        model=policy.model,
        args=args,
        processing_class=policy.tokenizer,
        train_dataset=Dataset.from_dict({"prompt": task_ids}),  # the messages are TypeScript's
        rollout_func=sampler,
        reward_funcs=env_reward,
    )
    trainer.mask_truncated = mask_truncated
    return trainer, sampler


def env_reward(reward, parts, metrics, success, ended_by, ended_why, turns, log_metric, **_):
    """Hands on what TypeScript computed. None: the rollout is invalid, and TRL gives it no advantage."""
    for name, mean in rollout_metrics(reward, parts, metrics, success, ended_by, ended_why, turns).items():
        log_metric(name, mean)
    return reward


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


def stage_at(stages: list[dict], step: int) -> int:
    """The index of the stage of an optimizer step. `stages` rise from `from_step` 0."""
    return max(index for index, stage in enumerate(stages) if stage["from_step"] <= step)


def draw_prompts(stages: list[dict], rows: int, group: int, seed: int, step: int, draw: int, first: int) -> list[str]:
    """The task ids of a batch under a curriculum, each repeated for its group, in the place of the dataset's.

    They follow from the arguments alone, so a run that goes on at a step draws what an unbroken one would. The tasks of
    the stage come in a shuffled order, and again in another one where there are more groups than tasks. `first` is the
    place of the first row in the batch of all processes.
    """
    task_ids = stages[stage_at(stages, step)]["task_ids"]
    shuffle = random.Random(stream_seed(seed, "curriculum", step, draw))
    order: list[str] = []
    while len(order) * group < first + rows:
        order += shuffle.sample(task_ids, len(task_ids))
    return [order[place // group] for place in range(first, first + rows)]


def plan_episodes(prompts: list[str], group: int, seed: int, step: int, draw: int, first: int = 0) -> list[dict]:
    """What to play: a group's members share task and episode seed, each has its own trial and so its own samples.

    `first` is the place of `prompts[0]` in the batch of all processes: a group may lie across two of them.
    """
    episodes = []
    for place, task_id in enumerate(prompts, start=first):
        index, member = divmod(place, group)
        if member and episodes and task_id != episodes[-1]["task_id"]:
            raise RuntimeError(
                f"group {index} of step {step} holds the tasks '{episodes[-1]['task_id']}' and '{task_id}'; expected "
                f"{group} rollouts of one task. Its advantages would compare different tasks."
            )
        episodes.append({"task_id": task_id, "seed": stream_seed(seed, "episode", step, draw, index), "trial": member})
    return episodes


def stream_seed(*parts: int | str) -> int:
    """A seed for a part of the run, from the run's seed and the part's place: equal parts, equal seeds. Below 2^52."""
    digest = hashlib.sha256("/".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 12


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
