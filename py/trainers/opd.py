"""On-policy distillation (arXiv:2306.13649): the student plays whole episodes, the teacher says how likely each of its
tokens is, and the student moves towards the teacher. Multi-turn, with TRL's DistillationTrainer.

At a policy token with the context c, student p and teacher q, both at the sampling temperature, the loss is the reverse
KL  sum over x of p(x|c) (log p(x|c) − log q(x|c)), averaged over the policy tokens of an optimizer step. Contexts are
taken as they came: no gradient goes through the sampling of earlier tokens. Prompt and observation tokens are context:
neither loss nor divisor knows them.

A local teacher gives its whole distribution, and the loss is TRL's, exact. An endpoint tells log q of the sampled token
alone: see `sampled_reverse_kl`.
"""

from __future__ import annotations

import math
import time
from typing import Any

import torch
from accelerate.utils import gather_object
from datasets import Dataset
from trl import DistillationConfig, DistillationTrainer
from trl.trainer.utils import add_fused_lm_head

from trainers import ranks
from trainers.batching import deal_by_length, repeated
from trainers.callbacks import quiet_libraries, train_and_save
from trainers.exam import verify
from trainers.grpo import RolloutCallback
from trainers.model import Policy, UserError, load_policy, on_one_device, precision_arguments
from trainers.preflight import trainer_problems
from trainers.reporting import reporting_arguments
from trainers.rollout_func import RolloutSampler, rollout_metrics, task_metrics
from trainers.teacher import load_teacher, open_endpoint, teacher_problems
from trainers.teacher_endpoint import EndpointTeacher, TeacherError
from trainers.wire import Host

IGNORED = -100  # a label that no log-probability is taken of


def run(request: dict, host) -> dict:
    """Trains `request["model"]` towards `request["teacher"]` on its own rollouts; the trained model is in `final/`."""
    quiet_libraries()
    problems, warned = trainer_problems("opd", request["trainer"])
    if not problems:
        found, noted = teacher_problems(request)
        problems += found
        warned += noted
    if problems:
        raise UserError(" ".join(problems))
    for text in warned:
        host.note(text)

    local = request["teacher"]["kind"] == "model"
    teacher = load_teacher(request) if local else None
    policy = load_policy(request)
    endpoint = None
    if not local:
        endpoint = open_endpoint(request["teacher"], stop_requested=lambda: host.stop_requested)
        endpoint.probe(policy.chat.prompt_ids([{"role": "user", "content": "Hello."}]))
        endpoint.calls = 0
    trainer, sampler = build_trainer(request, policy, host, teacher=teacher, endpoint=endpoint)
    callback = RolloutCallback(host, sampler)
    parts = {"sampler": sampler, "teacher": trainer.teacher_counts}
    result = train_and_save(trainer, callback, policy, request, parts)
    counts = trainer.teacher_counts.state_dict()
    rollouts, policy_tokens = map(int, ranks.totals([sampler.rollouts, sampler.policy_tokens]))
    return {
        **result,
        "verification": verify(request, policy, host, trainer.args, result),
        "rollouts": rollouts,
        "policy_tokens": policy_tokens,
        "teacher_tokens": counts["tokens"],
        "missing_logprobs": counts["missing"],
        "teacher_calls": counts["calls"],
        "teacher_retries": counts["retries"],
        "sampling_s": sampler.play_s - sampler.ask_s,
    }


def sampled_reverse_kl(student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
    """The reverse KL, estimated at sampled tokens, a number each.

    student, teacher: log-probabilities of tokens drawn from the student, nats, of one shape. In expectation over the
    drawn token, value and gradient are those of the exact KL at its context: with A = log q − log p held fixed,
    E[−A] = KL, and E[−A ∇log p] = ∇KL, as E[∇log p] = 0. It is REINFORCE with the advantage A and the importance ratio
    1: each token is learnt from once, by the policy that drew it.
    """
    gap = (student - teacher).detach()
    return gap * (student - student.detach()) + gap


class TeacherCounts:
    """What the teacher has done since the run first began."""

    def __init__(self, endpoint: EndpointTeacher | None):
        self.endpoint = endpoint
        self.tokens = 0  # policy tokens that it has scored

    def state_dict(self) -> dict[str, int]:
        names = ("missing", "calls", "retries")
        return {"tokens": self.tokens, **{name: getattr(self.endpoint, name, 0) for name in names}}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.tokens = state["tokens"]
        if self.endpoint is not None:
            for name in ("missing", "calls", "retries"):
                setattr(self.endpoint, name, state[name])


class OpdTrainer(DistillationTrainer):
    """DistillationTrainer on our episodes, and with a teacher that may be behind an endpoint."""

    def __init__(self, *args, sampler: RolloutSampler, endpoint: EndpointTeacher | None, **kwargs):
        super().__init__(*args, **kwargs)
        self.sampler = sampler
        self.endpoint = endpoint
        self.teacher_counts = TeacherCounts(endpoint)
        self._fields: dict[str, list] = {}
        self._masks: list[list[int]] = []
        self._labels: torch.Tensor | None = None
        self._teacher_logps: torch.Tensor | None = None
        self._forget_sums()

    def create_model_card(self, *_, **__):
        """None: the run folder has its own record."""

    # ------------------------------------------------------------------------------------------------ rollouts

    def _get_train_sampler(self, dataset=None):
        return repeated(super()._get_train_sampler(dataset), self)

    def _generate(self, prompts: list[str]):
        """In place of TRL's sampling: episodes of the task ids in `prompts`."""
        self._fields = fields = self.sampler(prompts, self)
        # Nobody knows how a failed episode would have gone: none of its tokens counts.
        self._masks = [
            env_mask if reward is not None else [0] * len(env_mask)
            for env_mask, reward in zip(fields["env_mask"], fields["reward"], strict=True)
        ]
        self._log_rollouts()
        return fields["prompt_ids"], fields["completion_ids"], self._masks, None, []

    def _log_rollouts(self) -> None:
        """The figures that GRPO logs of its rollouts, over the batch of all processes."""
        names = ("reward", "parts", "metrics", "success", "ended_by", "ended_why", "turns")
        fields = {name: gather_object(self._fields[name]) for name in names}
        rewards = [reward for reward in fields["reward"] if reward is not None]
        values = rollout_metrics(**fields) | task_metrics(self._fields["task_id"], self._fields["reward"])
        if rewards:
            values["reward"] = sum(rewards) / len(rewards)
        lengths = gather_object([sum(env_mask) for env_mask in self._fields["env_mask"]])
        contexts = gather_object(
            [len(a) + len(b) for a, b in zip(self._fields["prompt_ids"], self._fields["completion_ids"], strict=True)]
        )
        self.state.num_input_tokens_seen += sum(contexts)
        values |= {
            "num_tokens": self.state.num_input_tokens_seen,
            "completions/mean_length": sum(lengths) / len(lengths),
            "completions/min_length": min(lengths),
            "completions/max_length": max(lengths),
        }
        for name, value in values.items():
            self._metrics["train"][name].append(float(value))

    def _generate_and_score_completions(self, inputs: list[dict]) -> dict[str, torch.Tensor]:
        output = super()._generate_and_score_completions(inputs)
        output["student_logps"] = self._columns(output, self._fields["logprobs"])
        if self.endpoint is not None:
            self._ask_teacher(output)
        tokens = (output["completion_mask"] * output["tool_mask"]).sum()
        output["num_items_in_batch"] = self.accelerator.gather(tokens).sum()
        self.teacher_counts.tokens += int(output["num_items_in_batch"])
        self._metrics["train"]["rollout/empty_step"].append(float(output["num_items_in_batch"].item() == 0))
        return output

    def _ask_teacher(self, output: dict[str, torch.Tensor]) -> None:
        """Adds `teacher_logps`; tokens that the teacher has no number for leave the loss and its divisor."""
        fields, begin = self._fields, time.perf_counter()
        scored = self.endpoint.completion_logprobs(
            list(zip(fields["prompt_ids"], fields["completion_ids"], self._masks, strict=True))
        )
        asked = sum(map(sum, self._masks))
        known = sum(logprob is not None for row in scored for logprob in row)
        if asked and not known:
            raise TeacherError(
                f"The teacher's endpoint gave none of {asked} tokens a log-probability: there is nothing to learn from."
            )
        output["teacher_logps"] = self._columns(output, [[each or 0.0 for each in row] for row in scored])
        known_mask = self._columns(output, [[float(each is not None) for each in row] for row in scored])
        output["tool_mask"] = known_mask.to(output["tool_mask"].dtype)
        self._metrics["train"]["opd/missing_logprobs"].append(1 - known / asked if asked else 0.0)
        self._metrics["train"]["time/teacher_s"].append(time.perf_counter() - begin)

    def _columns(self, output: dict[str, torch.Tensor], rows: list[list[float]]) -> torch.Tensor:
        """Numbers of the completions' tokens, padded as these are: (B, C), float32."""
        padded = torch.zeros(output["completion_ids"].shape, dtype=torch.float32)
        for index, row in enumerate(rows):
            padded[index, : len(row)] = torch.tensor(row)
        return padded.to(output["completion_ids"].device)

    def _prepare_inputs(self, generation_batch):
        before = self._buffered_inputs
        inputs = super()._prepare_inputs(generation_batch)
        if not self.model.training or self._buffered_inputs is before:
            return inputs
        self._buffered_inputs = deal_by_length(self._buffered_inputs)  # they are one optimizer step's
        return self._buffered_inputs[self._step % self.args.gradient_accumulation_steps]

    # ------------------------------------------------------------------------------------------------ loss

    def _compute_loss(self, unwrapped_student, inputs, num_items_in_batch):
        mask = (inputs["completion_mask"] * inputs["tool_mask"]).bool()
        self._labels = torch.cat(
            [torch.full_like(inputs["prompt_ids"], IGNORED), inputs["completion_ids"].masked_fill(~mask, IGNORED)],
            dim=1,
        )
        if self.endpoint is None:
            loss, entropy, count = super()._compute_loss(unwrapped_student, inputs, num_items_in_batch)
            student, teacher = inputs["student_logps"], self._teacher_logps.detach()
            exact = loss.detach() * num_items_in_batch if self.beta == 1 else None
        else:
            output = unwrapped_student(
                input_ids=torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1),
                attention_mask=torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1),
                labels=self._labels,
                fused_lm_head=True,
            )
            width = inputs["completion_ids"].size(1)
            student, teacher = output.log_probs[:, -width:], inputs["teacher_logps"]
            loss = (sampled_reverse_kl(student, teacher) * mask).sum() / num_items_in_batch
            entropy, count = (output.entropy[:, -width:] * mask).sum().detach(), mask.sum()
            exact, student = None, student.detach()
        self._sums += torch.stack(
            [
                ((student - teacher) * mask).sum() if exact is None else exact,
                (teacher * mask).sum(),
                (student * mask).sum(),
                mask.sum(),
            ]
        ).to(self._sums)
        return loss, entropy, count

    def _get_last_hidden_state(self, unwrapped_model, input_ids, attention_mask, logits_to_keep, **kwargs):
        """TRL's; the teacher's pass also keeps the log-probabilities of the sampled tokens, which are logged."""
        if unwrapped_model is not self.accelerator.unwrap_model(self.teacher_model):
            return super()._get_last_hidden_state(unwrapped_model, input_ids, attention_mask, logits_to_keep, **kwargs)
        states = []
        hook = unwrapped_model.base_model.register_forward_hook(
            lambda _module, _inputs, output: states.append(output.last_hidden_state)
        )
        try:
            output = unwrapped_model(
                input_ids=input_ids, attention_mask=attention_mask, labels=self._labels, fused_lm_head=True
            )
        finally:
            hook.remove()
        self._teacher_logps = output.log_probs[:, -logits_to_keep:]
        return states[0][:, :-1][:, -logits_to_keep:]

    def training_step(self, model, inputs, num_items_in_batch):
        output = super().training_step(model, inputs, num_items_in_batch)
        if self._step % self.current_gradient_accumulation_steps == 0:
            divergence, teacher, student, count = self.accelerator.gather(self._sums).view(-1, 4).sum(0).tolist()
            if count:
                self._metrics["train"]["opd/reverse_kl"].append(divergence / count)
                self._metrics["train"]["opd/teacher_logprob"].append(teacher / count)
                self._metrics["train"]["opd/student_logprob"].append(student / count)
            self._forget_sums()
        return output

    def _forget_sums(self) -> None:
        """Of this process and optimizer step: reverse KL, the teacher's and student's log-probabilities, tokens."""
        self._sums = torch.zeros(4, dtype=torch.float32, device=self.accelerator.device)


def build_trainer(
    request: dict, policy: Policy, host: Host, *, teacher: Any = None, endpoint: EndpointTeacher | None = None
) -> tuple[OpdTrainer, RolloutSampler]:
    """The trainer with one of the two teachers, and what hardware and the run folder decide; the rest is TRL's."""
    given = request["trainer"]
    sampling = request["sampling"]
    arguments = {
        "logging_steps": 1,
        **given,
        **ranks.arguments(),
        **reporting_arguments(request),
        **precision_arguments(policy, given),
        "output_dir": request["output_dir"],
        "seed": request["seed"],
        "temperature": sampling["temperature"],
        "disable_tqdm": True,
        "logging_nan_inf_filter": False,  # a lost loss must be seen
    }
    args = on_one_device(DistillationConfig(**arguments))
    if endpoint is None:
        add_fused_lm_head(teacher, temperature=args.temperature)
    else:
        student: Any = policy.model
        student = student.get_base_model() if hasattr(student, "get_base_model") else student
        add_fused_lm_head(student, temperature=args.temperature, outputs=("log_probs", "entropy"))
    # A step's batch is whole: with fewer tasks than rows it would be left out.
    rows = args.per_device_train_batch_size * args.gradient_accumulation_steps * args.world_size
    task_ids = request["task_ids"] * math.ceil(rows / len(request["task_ids"]))
    sampler = RolloutSampler(request, policy, host, 1)  # every row is a task of its own: nothing is compared
    trainer = OpdTrainer(
        model=policy.model,
        teacher_model=teacher,
        args=args,
        processing_class=policy.tokenizer,
        train_dataset=Dataset.from_dict({"prompt": task_ids}),  # the messages are TypeScript's
        sampler=sampler,
        endpoint=endpoint,
    )
    return trainer, sampler
