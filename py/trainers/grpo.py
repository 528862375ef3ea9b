"""Group Relative Policy Optimization (arXiv:2402.03300) on environment rollouts, with TRL's GRPOTrainer.

Which task, which seed, what was sampled and what it earned is decided here and in TypeScript; the loss is TRL's.
"""

import math
import time

import torch
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from trainers import ranks
from trainers.batching import deal_by_length
from trainers.callbacks import REPLIES_CUT, HostCallback, quiet_libraries, train_and_save
from trainers.model import Policy, UserError, load_policy, on_one_device, precision_arguments
from trainers.preflight import trainer_problems
from trainers.rollout_func import RolloutSampler, rollout_metrics
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
    rollouts, policy_tokens, invalid = map(
        int, ranks.totals([sampler.rollouts, sampler.policy_tokens, sampler.invalid])
    )
    return {
        **result,
        "rollouts": rollouts,
        "invalid": invalid,
        "groups": trainer.groups,
        "groups_without_signal": trainer.groups_without_signal,
        "policy_tokens": policy_tokens,
        "sampling_s": sampler.play_s - sampler.ask_s,
        "ask_s": host.round_trip_ms / 1000,
        "bridge_s": host.crossing_ms / 1000,
    }


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
        cut_share = ranks.mean(self.sampler.cut_share)
        self._cut_steps = self._cut_steps + 1 if cut_share > CUT_SHARE else 0
        if self._cut_steps not in (1, CUT_STEPS):
            return
        self.host.note(
            f"{cut_share:.0%} of the replies were cut off by a token budget (max_turn_tokens is "
            f"{self.sampler.request['sampling']['max_turn_tokens']}): the policy hardly gets to say anything whole. "
            + (f"Stopped after {CUT_STEPS} such steps." if self._cut_steps == CUT_STEPS else "")
        )
        if self._cut_steps == CUT_STEPS:
            self._stop(control, REPLIES_CUT)


class RolloutTrainer(GRPOTrainer):
    """GRPOTrainer that trusts the environment about which rollouts count. The loss itself is untouched."""

    mask_truncated = False
    groups = groups_without_signal = 0  # so far, of all processes

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
        self._metrics["train"]["rollout/masked"].append(1 - self.accelerator.gather(keep).float().mean().item())
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
        self.groups += len(equal)
        self.groups_without_signal += int(equal.sum())
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
        **ranks.arguments(),
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
