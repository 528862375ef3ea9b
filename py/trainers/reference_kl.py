"""How far a policy has gone from its reference, over dialogues that the policy wrote: for evaluation, no training."""

import contextlib
from dataclasses import replace

import torch

from trainers.callbacks import quiet_libraries
from trainers.model import Policy, UserError, load_policy
from trainers.sft import read_rows
from trainers.tokens import Transcript, transcript_of

BATCH_TOKENS = 8192  # of a batch with its padding: rows of one length need no small batches


def run(request: dict, host) -> dict:
    """Scores the replies of `request["rows_path"]` (ExpertRows) under `request["model"]` and its reference.

    The reference is `request["reference"]`, a model's name; None: the model with its adapter switched off. Texts are
    tokenised anew, so a reply that was sampled in other tokens than its text's own counts in those.

    Of each row: `tokens` of the policy, and the sums over them of log π − log π_ref (`kl`, whose mean over samples of π
    is the KL) and of its square (`squared`, search.md 7), nats.
    """
    quiet_libraries()
    policy = load_policy(request, training=False)
    reference = _reference(request, policy)
    rows = read_rows(request["rows_path"])
    transcripts = [transcript_of(row, policy.chat) for row in rows]
    scored: dict[int, dict] = {}
    for batch in _batches([len(each.prompt_ids) + len(each.completion_ids) for each in transcripts]):
        chosen = [transcripts[row] for row in batch]
        own = _logprobs(policy, chosen)
        with reference() as other:
            against = _logprobs(other, chosen)
        for place, row in enumerate(batch):
            difference = own[place] - against[place]
            scored[row] = {
                "id": rows[row].get("id", str(row)),
                "tokens": len(difference),
                "kl": difference.sum().item(),
                "squared": difference.square().sum().item(),
            }
    return {"rows": [scored[row] for row in range(len(rows))]}


def _reference(request: dict, policy: Policy):
    """A context in which the reference can be asked."""
    if (name := request["reference"]) is not None:
        # The policy's template: both read the same dialogue.
        other = load_policy({**request, "model": name}, training=False)
        if other.model.config.get_text_config().vocab_size != policy.model.config.get_text_config().vocab_size:
            raise UserError(
                f"the reference '{name}' has another vocabulary than {request['model']}. Name its own base."
            )
        return lambda: contextlib.nullcontext(other)
    if not hasattr(policy.model, "disable_adapter"):
        raise UserError(f"{request['model']} is no adapter, so its reference has to be named.")

    @contextlib.contextmanager
    def without_adapter():
        with policy.model.disable_adapter():
            yield replace(policy)

    return without_adapter


def _batches(lengths: list[int]) -> list[list[int]]:
    """Rows of about equal length together, as many as BATCH_TOKENS holds, and one at least."""
    batches: list[list[int]] = []
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        if batches and lengths[batches[-1][0]] * (len(batches[-1]) + 1) <= BATCH_TOKENS:
            batches[-1].append(row)
        else:
            batches.append([row])
    return batches


@torch.inference_mode()
def _logprobs(policy: Policy, transcripts: list[Transcript]) -> list[torch.Tensor]:
    """Log-probabilities (nats, float64) of each transcript's policy tokens, at temperature 1."""
    rows = [each.prompt_ids + each.completion_ids for each in transcripts]
    width = max(map(len, rows))
    ids = torch.zeros((len(rows), width), dtype=torch.long, device=policy.device)
    mask = torch.zeros_like(ids)
    for row, tokens in enumerate(rows):
        ids[row, : len(tokens)] = torch.tensor(tokens, device=policy.device)
        mask[row, : len(tokens)] = 1
    logits = policy.model(input_ids=ids, attention_mask=mask).logits
    result = []
    for row, each in enumerate(transcripts):
        places = [len(each.prompt_ids) + place for place, bit in enumerate(each.env_mask) if bit]
        before = logits[row, torch.tensor(places, device=policy.device) - 1].float().log_softmax(-1)
        result.append(before.gather(1, ids[row, places].unsqueeze(1)).squeeze(1).double().cpu())
    return result
