"""The squared KL term, beside the k3 estimator that TRL's loss has built in."""

from __future__ import annotations

import torch


def squared_kl(ref_logps: torch.Tensor, logps: torch.Tensor) -> torch.Tensor:
    """(log π_ref − log π)² of each token, (B, T).

    Its gradient, unlike k3's, needs no importance weight to point where the reverse KL's does; it is twice as long.
    Source: spec search.md 7.
    """
    return (ref_logps - logps) ** 2


def aggregate(per_token: torch.Tensor, mask: torch.Tensor, loss_type: str, *, accumulation: int, tokens, longest: int):
    """A micro-batch's share of an optimizer step's loss, as TRL's GRPOTrainer adds up a per-token term of each loss.

    per_token, mask: (B, T). accumulation: micro-batches of the optimizer step. tokens: policy tokens of the whole
    step on average over processes (cispo, dapo, vespo). longest: the constant length that dr_grpo divides by.
    """
    total = (per_token * mask).sum()
    if loss_type in ("cispo", "dapo", "vespo"):
        return total / tokens
    if loss_type in ("grpo", "sapo"):
        mean = ((per_token * mask).sum(-1) / mask.sum(-1).clamp(min=1.0)).mean()
    elif loss_type == "bnpo":
        mean = total / mask.sum().clamp(min=1.0)
    elif loss_type == "dr_grpo":
        mean = total / (per_token.size(0) * longest)
    elif loss_type == "luspo":
        mean = (per_token * mask).sum(-1).mean()
    else:
        raise ValueError(f"loss_type '{loss_type}' has no known way of adding up; use kl_estimator k3.")
    return mean / accumulation
