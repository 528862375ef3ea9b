"""Direct Preference Optimization (arXiv:2305.18290) on pairs of trajectories, with TRL's DPOTrainer.

A pair becomes tokens as a row of worked solutions does. What both sides have in common, and all that the environment
and the template wrote, is context: only the replies in which the two differ are scored.
"""

import contextlib
import copy
import os
from dataclasses import dataclass

import torch
from datasets import Dataset
from torch.utils.data import DataLoader
from transformers.trainer_pt_utils import LengthGroupedSampler
from trl import DPOConfig, DPOTrainer
from trl.trainer.dpo_trainer import DataCollatorForPreference
from trl.trainer.utils import pad, use_adapter

from trainers import ranks
from trainers.batching import shuffled
from trainers.callbacks import LOSS_NOT_FINITE, HostCallback, quiet_libraries, train_and_save
from trainers.continuation import DialogueFormat
from trainers.exam import verify
from trainers.model import (
    Policy,
    UserError,
    chat_format,
    find_model,
    is_adapter,
    load_policy,
    load_tokenizer,
    on_one_device,
    precision_arguments,
)
from trainers.preflight import trainer_problems
from trainers.reporting import reporting_arguments
from trainers.sft import MAX_SHARE_TOO_LONG, read_rows
from trainers.tokens import transcript_of

SIDES = ("chosen", "rejected")


def run(request: dict, host) -> dict:
    """Trains `request["model"]` on the pairs of `request["pairs_path"]`; the trained model is in `final/`."""
    quiet_libraries()
    os.environ.setdefault("TQDM_DISABLE", "1")  # TRL draws a bar where it precomputes the reference
    problems, warned = trainer_problems("dpo", request["trainer"])
    if problems:
        raise UserError(" ".join(problems))
    for text in warned:
        host.note(text)

    rows = read_rows(request["pairs_path"], check_pair)
    # By the tokenizer alone: what is wrong with the pairs is said before the weights load.
    chat = chat_format(request, load_tokenizer(request["model"]))
    examples, dropped, tokens = tokenise(rows, chat, request["max_length"])
    if left := [f"{count} {why.replace('_', ' ')}" for why, count in dropped.items() if count]:
        host.note(f"Left out of {len(rows)} pairs: {', '.join(left)}.")

    policy = load_policy(request)
    trainer = build_trainer(request, policy, examples)
    reference = side_logps(trainer, reference=True)
    before = side_logps(trainer)
    callback = HostCallback(host)
    result = train_and_save(trainer, callback, policy, request)
    verification = verify(request, policy, host, trainer.args, result)
    after = None if callback.stop_reason == LOSS_NOT_FINITE else side_logps(trainer)
    return {
        **result,
        "verification": verification,
        "pairs": len(examples),
        "dropped": dropped,
        "tokens": tokens,
        "margin_before": margins(before, reference, trainer.beta).mean().item(),
        **{f"{side}_logp_before": before[index].mean().item() for index, side in enumerate(SIDES)},
        **_figures_after(after, reference, trainer.beta),
    }


def _figures_after(after: torch.Tensor | None, reference: torch.Tensor, beta: float) -> dict[str, float | None]:
    if after is None:  # weights that gave no loss give no figures
        return dict.fromkeys(["margin_after", "accuracy_after", *(f"{side}_logp_after" for side in SIDES)])
    margin = margins(after, reference, beta)
    return {
        "margin_after": margin.mean().item(),
        "accuracy_after": (margin > 0).double().mean().item(),
        **{f"{side}_logp_after": after[index].mean().item() for index, side in enumerate(SIDES)},
    }


# ------------------------------------------------------------------------------------------------------ pairs


def check_pair(row: dict, where: str) -> None:
    """A pair is a prompt, turns that both sides share, and each side's own turns, the last of which is its reply."""
    for name in ("prompt", *SIDES):
        if not isinstance(row.get(name), list) or not row[name]:
            raise UserError(f"{where}: '{name}' must be a list with at least one entry.")
    if not isinstance(row.get("shared"), list):
        raise UserError(f"{where}: 'shared' must be a list of turns, [] where the two differ from the first on.")
    for side in SIDES:
        if row[side][-1].get("observations"):
            raise UserError(f"{where}: '{side}' ends with an observation; it must end with the policy's reply.")


@dataclass(frozen=True)
class Side:
    """One of a pair's two dialogues in tokens."""

    prompt_ids: list[int]  # up to the header of the first reply of its own
    ids: list[int]  # (C,)
    mask: list[int]  # (C,) 1: a token of the policy, 0: of the environment or the template


def side_of(row: dict, name: str, chat: DialogueFormat) -> Side:
    """The dialogue of a side, by the same ids as a rollout of it. ValueError as `transcript_of`."""
    whole = transcript_of({**row, "turns": [*row["shared"], *row[name]]}, chat)
    shared = transcript_of({**row, "turns": row["shared"]}, chat).policy_tokens if row["shared"] else 0
    sampled = [index for index, bit in enumerate(whole.env_mask) if bit]
    start = sampled[shared]  # a reply has at least its end token
    return Side(whole.prompt_ids + whole.completion_ids[:start], whole.completion_ids[start:], whole.env_mask[start:])


def tokenise(
    rows: list[dict], chat: DialogueFormat, max_length: int
) -> tuple[list[dict], dict[str, int], dict[str, int]]:
    """Pairs as the trainer takes them, how many were left out and why, and the tokens kept.

    Left out: sides that are the same tokens (`identical`: their loss is a constant), a side without a word (`empty`),
    a side longer than max_length (`too_long`). Raises UserError where more than 1 % are too long, where nothing is
    left, and for a reply that the policy could not have written.
    """
    examples, too_long = [], []
    dropped = {"identical": 0, "empty": 0, "too_long": 0}
    tokens = {"policy": 0, "total": 0}
    for row in rows:
        try:
            chosen, rejected = (side_of(row, name, chat) for name in SIDES)
        except ValueError as error:
            raise UserError(str(error)) from error
        length = max(len(side.prompt_ids) + len(side.ids) for side in (chosen, rejected))
        if any(not turn["reply"].strip() for name in SIDES for turn in row[name]):
            dropped["empty"] += 1
        elif chosen.ids == rejected.ids:
            dropped["identical"] += 1
        elif length > max_length:
            dropped["too_long"] += 1
            too_long.append((length, row.get("id", "?")))
        else:
            examples.append(example_of(chosen, rejected))
            tokens["policy"] += sum(chosen.mask) + sum(rejected.mask)
            tokens["total"] += 2 * len(chosen.prompt_ids) + len(chosen.ids) + len(rejected.ids)
    if len(too_long) > MAX_SHARE_TOO_LONG * len(rows):
        length, row_id = max(too_long)
        raise UserError(
            f"{len(too_long)} of {len(rows)} pairs are longer than max_length {max_length}, the longest ('{row_id}') "
            f"with {length} tokens. Set --max-length {length}, or shorten the rows; at most 1 % may be left out."
        )
    if not examples:
        raise UserError(
            f"None of the {len(rows)} pairs can teach anything: {dropped['identical']} have two identical sides, "
            f"{dropped['empty']} an empty one. Make pairs of trajectories that did different things."
        )
    return examples, dropped, tokens


def example_of(chosen: Side, rejected: Side) -> dict[str, list[int] | int]:
    """TRL's columns, with a mask for each side and the length that batches are sorted by."""
    return {
        "prompt_ids": chosen.prompt_ids,
        "chosen_ids": chosen.ids,
        "rejected_ids": rejected.ids,
        "chosen_mask": chosen.mask,
        "rejected_mask": rejected.mask,
        "length": len(chosen.prompt_ids) + max(len(chosen.ids), len(rejected.ids)),
    }


@dataclass
class PairCollator(DataCollatorForPreference):
    """TRL's scores all that follows the prompt; between two turns of a side stands what the policy never wrote."""

    def torch_call(self, examples: list[dict]) -> dict[str, torch.Tensor]:
        batch = super().torch_call(examples)
        masks = [
            torch.tensor([0] * len(each["prompt_ids"]) + each[f"{side}_mask"]) for side in SIDES for each in examples
        ]
        batch["completion_mask"] = pad(
            masks, padding_value=0, padding_side="right", pad_to_multiple_of=self.pad_to_multiple_of
        )
        return batch


# ---------------------------------------------------------------------------------------------------- trainer


class PairTrainer(DPOTrainer):
    """DPOTrainer on pairs that are tokens already. The loss is untouched."""

    def create_model_card(self, *_, **__):
        """None: the run folder has its own record."""

    def _prepare_dataset(self, dataset, *_):
        return dataset

    def _set_signature_columns_if_needed(self):
        super()._set_signature_columns_if_needed()
        self._signature_columns += [
            name for name in ("chosen_mask", "rejected_mask", "length") if name not in self._signature_columns
        ]

    def _get_train_sampler(self, train_dataset=None):
        sampler = super()._get_train_sampler(train_dataset)
        if isinstance(sampler, LengthGroupedSampler):
            return shuffled(sampler, self)
        return sampler


def build_trainer(request: dict, policy: Policy, examples: list[dict]) -> PairTrainer:
    """The trainer, with what hardware and the run folder decide; the rest is TRL's names and defaults.

    The reference is the policy as it was loaded: a frozen copy; for a new adapter the model with its adapter off; for
    one that training goes on with, a frozen copy of the adapter. So the first margin is 0 in every case.
    """
    arguments = {
        "logging_steps": 1,
        **request["trainer"],
        **ranks.arguments(),
        **reporting_arguments(request),
        **precision_arguments(policy, request["trainer"]),
        "output_dir": request["output_dir"],
        "seed": request["seed"],
        "max_length": None,  # rows that are too long were left out: none is cut
        "disable_tqdm": True,
        "logging_nan_inf_filter": False,  # a lost loss must be seen
    }
    args = on_one_device(DPOConfig(**arguments))
    adapter = hasattr(policy.model, "peft_config")
    reference = None
    if not adapter and not args.precompute_ref_log_probs:
        reference = copy.deepcopy(policy.model).requires_grad_(False)
    trainer = PairTrainer(
        model=policy.model,
        ref_model=reference,
        args=args,
        train_dataset=Dataset.from_list(examples),
        data_collator=PairCollator(policy.tokenizer.pad_token_id, pad_to_multiple_of=args.pad_to_multiple_of),
        processing_class=policy.tokenizer,
    )
    if adapter:
        _settle_reference(policy.model, new=not is_adapter(find_model(request["model"])))
    return trainer


def _settle_reference(model, *, new: bool) -> None:
    """TRL copies any adapter to "ref". A new one's copy is the base model; an old one's must not drop anything out."""
    if new:
        model.delete_adapter("ref")
        return
    for module in model.modules():
        dropout = getattr(module, "lora_dropout", {})
        if "ref" in dropout:
            dropout["ref"] = torch.nn.Identity()


def side_logps(trainer: PairTrainer, *, reference: bool = False) -> torch.Tensor:
    """Log-probabilities (nats) of each pair's replies under the policy as it is, or under the reference: (2, N).

    Row 0: chosen, row 1: rejected; the sum over the policy's own tokens. Every process scores all pairs.
    """
    model = trainer.ref_model if reference and trainer.ref_model is not None else trainer.model
    batches = DataLoader(
        trainer.train_dataset, trainer.args.per_device_train_batch_size, collate_fn=trainer.data_collator
    )
    was_training = model.training
    model.eval()
    with torch.no_grad(), trainer.accelerator.autocast(), _speaking_as(model, reference):
        found = [_batch_logps(model, batch, trainer.accelerator.device) for batch in batches]
    model.train(was_training)
    return torch.cat(found, dim=1)


def _speaking_as(model, reference: bool) -> contextlib.AbstractContextManager:
    """A model with an adapter becomes the reference for a while; one without is either already."""
    if not reference or not hasattr(model, "peft_config"):
        return contextlib.nullcontext()
    return use_adapter(model, "ref" if "ref" in model.peft_config else None)


def _batch_logps(model, batch: dict[str, torch.Tensor], device: torch.device) -> torch.Tensor:
    ids, attention, mask = (batch[name].to(device) for name in ("input_ids", "attention_mask", "completion_mask"))
    labels = ids.masked_fill(mask == 0, -100)
    output = model(input_ids=ids, attention_mask=attention, labels=labels, fused_lm_head=True, use_cache=False)
    return output.log_probs.double().sum(dim=1).view(2, -1).cpu()


def margins(policy: torch.Tensor, reference: torch.Tensor, beta: float) -> torch.Tensor:
    """beta × (log-ratio of the chosen side − of the rejected one), a pair each: (N,). Both arguments are (2, N)."""
    chosen, rejected = policy - reference
    return beta * (chosen - rejected)
