"""Exams: episodes that test the policy in the middle of a run, or after it, and teach it nothing.

They go through the same rollout and the same rewards as training, have seeds of their own, and touch none of training's
random numbers: a run with exams trains bit for bit like one without.
"""

import contextlib
import time
from collections.abc import Iterator, Sequence

import torch
from accelerate import PartialState
from accelerate.utils import gather_object
from transformers import TrainingArguments

from trainers.callbacks import COMPLETED
from trainers.model import Policy
from trainers.plan import stream_seed
from trainers.rollout import Rollout, play_batch
from trainers.sampling import SamplingParams
from trainers.wire import Host


class Canary:
    """A few tasks played every `steps` optimizer steps, as arxiv.md 10.6 asks; a LimitGuard judges what they earn.

    The same episodes and the same draws each time, so that what changes is the policy.
    """

    def __init__(self, request: dict, policy: Policy, host: Host):
        self.request, self.policy, self.host = request, policy, host
        self.settings = request["guards"]["canary"]

    def is_due(self, step: int) -> bool:
        return step % self.settings["steps"] == 0

    def play(self, step: int, args: TrainingArguments) -> dict[str, float]:
        """The figures of one canary; every process has to call it."""
        begin = time.perf_counter()
        figures = play_exam(
            "canary",
            self.policy,
            self.host,
            args,
            task_ids=self.settings["task_ids"],
            samples=self.settings["generations"],
            seed=self.request["seed"],
            sampling=self.request["sampling"],
            policy_name=self.request["policy"],
            policy_step=step,
        )
        figures = {"canary/reward": figures["mean_reward"], "canary/success": figures["success"]}
        known = {name: value for name, value in figures.items() if value is not None}
        return {**known, "time/canary_s": time.perf_counter() - begin}


class Validation:
    """Tasks played every `steps` optimizer steps under the conditions of an evaluation, which may not be training's.

    What training earns is no measure of what an evaluation would: a gap between the two says that the environments
    differ, or that a reward is had without the task being done (airline.md 11.6). Same episodes and draws each time.
    """

    def __init__(self, request: dict, policy: Policy, host: Host):
        self.request, self.policy, self.host = request, policy, host
        self.settings = request["validation"]

    def is_due(self, step: int) -> bool:
        return step % self.settings["steps"] == 0

    def play(self, step: int, args: TrainingArguments, trained_on: Sequence[Rollout]) -> dict[str, float]:
        """The figures of one validation; every process has to call it.

        trained_on: the step's rollouts on this process. `validation/gap` is their success minus the validation's.
        """
        begin = time.perf_counter()
        figures = play_exam(
            "validation",
            self.policy,
            self.host,
            args,
            task_ids=self.settings["task_ids"],
            samples=self.settings["samples"],
            seed=self.request["seed"],
            sampling=self.settings["sampling"],
            policy_name=self.request["policy"],
            policy_step=step,
        )
        solved = gather_object([float(rollout.success) for rollout in trained_on if rollout.reward is not None])
        known = {
            f"validation/{name}": figures[key]
            for name, key in (("reward", "mean_reward"), ("success", "success"))
            if figures[key] is not None
        }
        if solved and "validation/success" in known:
            known["validation/training_success"] = sum(solved) / len(solved)
            known["validation/gap"] = known["validation/training_success"] - known["validation/success"]
        return {**known, "time/validation_s": time.perf_counter() - begin}


def verify(request: dict, policy: Policy, host: Host, args: TrainingArguments, result: dict) -> dict | None:
    """Stage verification (arxiv.md 10.6): plays tasks with the policy that was just trained, still in memory.

    `request["verification"]` says with what (protocol.ts); None there, or a run that did not come to its end: None.
    Whether the figures are good enough is for TypeScript to say (src/recipes/verification.ts).
    """
    settings = request.get("verification")
    if settings is None or result["stop_reason"] != COMPLETED:
        return None
    return play_exam(
        "verification",
        policy,
        host,
        args,
        task_ids=settings["task_ids"],
        samples=settings["samples"],
        seed=request["seed"],
        sampling=settings["sampling"],
        policy_name=settings["policy"],
        policy_step=result["steps"],
    )


def play_exam(
    purpose: str,
    policy: Policy,
    host: Host,
    args: TrainingArguments,
    *,
    task_ids: list[str],
    samples: int,
    seed: int,
    sampling: dict,
    policy_name: str,
    policy_step: int,
) -> dict:
    """Plays each task `samples` times, each process its share, and gives the figures of all.

    mean_reward, parse_rate (share of an episode's replies that can be read, mean over episodes) and success are of the
    valid episodes; None without any.
    """
    episodes = [
        {"task_id": task_id, "seed": stream_seed(seed, purpose, index), "trial": trial}
        for index, task_id in enumerate(task_ids)
        for trial in range(samples)
    ]
    state = PartialState()
    params = SamplingParams(**sampling, seed=stream_seed(seed, purpose, "sampling"))
    rollouts = []
    if own := episodes[state.process_index :: state.num_processes]:
        # Not by vLLM: its weights are those of before the last update until the next batch is sampled.
        with autocast(args, policy.device), without_engine(policy):
            rollouts = play_batch(
                policy,
                policy.chat,
                host,
                own,
                params,
                policy_step=policy_step,
                policy_name=policy_name,
                purpose=purpose,
            )
    rows = [
        [rollout.reward, 1 - (rollout.metrics.get("parse_error_rate") or 0.0), float(rollout.success)]
        for rollout in rollouts
        if rollout.reward is not None
    ]
    rows = gather_object(rows)
    means = [sum(column) / len(rows) for column in zip(*rows, strict=True)] if rows else [None] * 3
    return {"episodes": len(episodes), "valid": len(rows)} | dict(
        zip(("mean_reward", "parse_rate", "success"), means, strict=True)
    )


@contextlib.contextmanager
def without_engine(policy: Policy) -> Iterator[None]:
    engine, policy.engine = policy.engine, None
    try:
        yield
    finally:
        policy.engine = engine


def autocast(args: TrainingArguments, device: torch.device):
    """The precision that the trainer computes in."""
    dtype = torch.bfloat16 if args.bf16 else torch.float16 if args.fp16 else None
    return torch.autocast(device.type, dtype, enabled=dtype is not None)
