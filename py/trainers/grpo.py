"""Group Relative Policy Optimization (arXiv:2402.03300) on environment rollouts, with TRL's GRPOTrainer.

Which task, which seed, what was sampled and what it earned is decided here and in TypeScript; the loss is TRL's.
"""

import math
import time

import torch
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from trainers import ranks
from trainers.batching import deal_by_length, repeated
from trainers.callbacks import HostCallback, quiet_libraries, train_and_save
from trainers.dynamic_sampling import EQUAL_REWARDS, pool_warnings
from trainers.exam import Canary, Validation, verify
from trainers.guards import rollout_figures, rollout_guards
from trainers.losses import aggregate, squared_kl
from trainers.model import Policy, UserError, load_policy, on_one_device, precision_arguments
from trainers.preflight import trainer_problems
from trainers.reporting import reporting_arguments
from trainers.rollout import Rollout
from trainers.rollout_func import RolloutSampler, rollout_metrics, task_metrics
from trainers.shaping import Shaping, advantage_sums, shape_advantages
from trainers.vllm_sampler import attach_vllm, context_argument
from trainers.wire import Host


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
    if sampler.dynamic and trainer.is_world_process_zero():
        groups = trainer.args.generation_batch_size // sampler.group
        for text in pool_warnings(sampler.pools, groups):
            host.note(text)
    callback = RolloutCallback(host, sampler)
    result = train_and_save(trainer, callback, policy, request, {"sampler": sampler})
    rollouts, policy_tokens, invalid = map(
        int, ranks.totals([sampler.rollouts, sampler.policy_tokens, sampler.invalid])
    )
    return {
        **result,
        "verification": verify(request, policy, host, trainer.args, result),
        "rollouts": rollouts,
        "invalid": invalid,
        "groups": trainer.groups,
        "groups_without_signal": trainer.groups_without_signal,
        "policy_tokens": policy_tokens,
        "dynamic_sampling": sampler.resampled,
        "sampling_s": sampler.play_s - sampler.ask_s,
    }


class RolloutCallback(HostCallback):
    """The host's callback, and what it watches of rollouts: that they happen, how long they take, what becomes of them.

    With a canary in `sampler.request["guards"]` it is played here, after the step it is due at.
    """

    def __init__(self, host: Host, sampler: RolloutSampler):
        super().__init__(host, sampler.gauge, rollout_guards(sampler.request))
        self.sampler = sampler
        settings = sampler.request.get("guards") or {}
        self.canary = Canary(sampler.request, sampler.policy, host) if settings.get("canary") else None
        examined = sampler.request.get("validation")
        self.validation = Validation(sampler.request, sampler.policy, host) if examined else None
        self._judged: list[Rollout] | None = None
        self._begin = self._played = 0.0

    def on_step_begin(self, args, state, control, **_):
        self._begin, self._played = time.perf_counter(), self.sampler.play_s

    def on_step_end(self, args, state, control, **_):
        if self.sampler.rollouts == 0:
            raise RuntimeError(
                "GRPOTrainer took a step without calling rollout_func: something has replaced its sampling (a patched "
                "trainer?), and what it learns from are not our environment's rollouts."
            )
        self.gauge.add("time/learning_s", time.perf_counter() - self._begin - (self.sampler.play_s - self._played))
        step = state.global_step
        # A batch may serve several steps, and counts once; where the run was resumed within one it was counted before.
        if self.sampler.latest and self.sampler.latest is not self._judged:
            self._judged = self.sampler.latest
            self._watch(step, rollout_figures(self._judged), control)
        if self.canary is not None and self.canary.is_due(step):
            self._watch(step, self.canary.play(step, args), control)
        if self.validation is not None and self.validation.is_due(step):
            self._watch(step, self.validation.play(step, args, self.sampler.latest or []), control)
        super().on_step_end(args, state, control)

    def _watch(self, step: int, figures: dict[str, float], control) -> None:
        for name, value in figures.items():
            self.gauge.add(name, value)
        self._judge(step, figures, control)


class RolloutTrainer(GRPOTrainer):
    """GRPOTrainer that trusts the environment about which rollouts count, and may spread advantages over tokens.

    The loss itself is TRL's, but for the KL term where `kl_estimator` is "squared".
    """

    mask_truncated = False
    groups = groups_without_signal = 0  # so far, of all processes
    shaping = Shaping()
    kl_estimator = "k3"
    _logps: torch.Tensor | None = None  # (B, T) of the loss that is being computed

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
        if self.shaping.widens:
            output["advantages"] = self._shaped(inputs, output)
        self._log_advantages(output)
        return output

    def _get_train_sampler(self, dataset=None):
        return repeated(super()._get_train_sampler(dataset), self)

    def _shaped(self, inputs: list[dict], output: dict[str, torch.Tensor]) -> torch.Tensor:
        mask = output["completion_mask"] * output["tool_mask"]
        turn_index = torch.zeros_like(mask)
        for row, each in enumerate(inputs):
            turn_index[row, : len(each["turn_index"])] = torch.tensor(each["turn_index"], device=mask.device)
        scores = [each["turn_scores"] for each in inputs]
        if self.shaping.advantage == "turn_scores":
            valid = [each["reward"] is not None for each in inputs]
            counts = [sum(valid), sum(ok and given is not None for ok, given in zip(valid, scores, strict=True))]
            rollouts, scored = self.accelerator.reduce(
                torch.tensor(counts, device=mask.device), reduction="sum"
            ).tolist()
            if rollouts > 0 and scored == 0:
                raise UserError(
                    f"advantage is 'turn_scores', but none of the step's {rollouts} rollouts came with turn_scores: "
                    "the environment's score() gives none. Choose another advantage, or return them from there."
                )
        return shape_advantages(output["advantages"], mask, turn_index, self.shaping, scores)

    def _log_advantages(self, output: dict[str, torch.Tensor]) -> None:
        sums = advantage_sums(output["advantages"], output["completion_mask"] * output["tool_mask"])
        first, whole, tokens = self.accelerator.reduce(sums, reduction="sum").tolist()
        self._metrics["train"]["adv/abs_mean"].append(whole / max(tokens, 1.0))
        if whole > 0:  # without any advantage there is no share
            self._metrics["train"]["adv/first100_share"].append(first / whole)

    def _get_per_token_logps_and_entropies(self, *args, **kwargs):
        outputs = super()._get_per_token_logps_and_entropies(*args, **kwargs)
        self._logps = outputs[0] if self.kl_estimator == "squared" else None
        return outputs

    def _compute_loss(self, model, inputs):
        beta = self.beta
        if self.kl_estimator == "k3" or beta == 0:
            return super()._compute_loss(model, inputs)
        self.beta = 0.0  # TRL's own term away, ours in its place
        try:
            loss = super()._compute_loss(model, inputs)
        finally:
            self.beta = beta
        logps, self._logps = self._logps, None
        mask = inputs["completion_mask"] * inputs["tool_mask"]
        kl = squared_kl(inputs["ref_per_token_logps"], logps)
        sums = torch.stack([(kl.detach() * mask).sum(), mask.sum().float()])
        total, tokens = self.accelerator.reduce(sums, reduction="sum").tolist()
        self._metrics["train"]["kl"].append(total / max(tokens, 1.0))
        return loss + beta * self._aggregate(kl, mask, inputs["num_items_in_batch"])

    def _aggregate(self, per_token: torch.Tensor, mask: torch.Tensor, batch_tokens: torch.Tensor) -> torch.Tensor:
        """A per-token term added up as `loss_type` does. batch_tokens: of the generation batch, over all processes."""
        accumulation = self.current_gradient_accumulation_steps
        return aggregate(
            per_token,
            mask,
            self.loss_type,
            accumulation=accumulation,
            tokens=batch_tokens.clamp(min=1.0)
            / self.accelerator.num_processes
            * (accumulation / self.args.steps_per_generation),
            longest=self.max_completion_length,
        )

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
        **ranks.arguments(),
        **given,
        **reporting_arguments(request),
        **precision_arguments(policy, given),
        "output_dir": request["output_dir"],
        "seed": request["seed"],
        "temperature": sampling["temperature"],
        # Only a divisor of the dr_grpo loss here: lengths are the sampler's business.
        "max_completion_length": sampling["max_episode_tokens"],
        "disable_tqdm": True,
        "logging_nan_inf_filter": False,  # a lost loss must be seen
        **context_argument(policy.model, sampling, given),
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
    shaping = dict(request.get("shaping") or {})
    trainer.kl_estimator = shaping.pop("kl_estimator", "k3")
    trainer.shaping = Shaping(**shaping)
    if args.use_vllm:
        attach_vllm(trainer, policy, request["model"])
    return trainer, sampler


def env_reward(reward, task_id, parts, metrics, success, ended_by, ended_why, turns, log_metric, **_):
    """Hands on what TypeScript computed. None: the rollout is invalid, and TRL gives it no advantage."""
    for name, mean in rollout_metrics(reward, parts, metrics, success, ended_by, ended_why, turns).items():
        log_metric(name, mean)
    for name, value in task_metrics(task_id, reward).items():
        log_metric(name, value)
    return reward
