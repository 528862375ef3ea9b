"""Advantages a token: from one a rollout (B,) to a matrix (B, T), after group normalisation and before the loss.

The same pure function is in src/core/shaping.ts; both are tested against src/core/fixtures/advantages.json.

- `none`: every policy token gets its rollout's advantage.
- `turn_discount`: A · w, where w falls by `alpha` with every token (or turn) from the start, its mean 1.
- `lata`: the same, divided by √L.
- `turn_scores`: A + the score that the environment gave the token's turn (credit for single steps).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

FIRST = 100  # completion tokens that `first_share` looks at


@dataclass(frozen=True, kw_only=True)
class Shaping:
    """How advantages are spread over the tokens of a rollout."""

    advantage: str = "none"  # none, turn_discount, lata, turn_scores
    alpha: float = 1.05  # > 0; 1: no discount
    alpha_unit: str = "token"  # token: the position in the completion, environment included; turn: the reply's number
    length_norm: str | None = None  # none, sqrt: divide by √L. None: sqrt for lata, else none
    length_base: str = "tokens"  # L counts the policy's tokens, or its turns

    @property
    def divides(self) -> bool:
        return (self.length_norm or ("sqrt" if self.advantage == "lata" else "none")) == "sqrt"

    @property
    def widens(self) -> bool:
        """Whether tokens of a rollout get advantages that its own is not enough to tell."""
        return self.advantage != "none" or self.divides

    @property
    def discounts(self) -> bool:
        return self.advantage in ("turn_discount", "lata")


def shape_advantages(
    advantages: torch.Tensor,
    env_mask: torch.Tensor,
    turn_index: torch.Tensor,
    shaping: Shaping,
    turn_scores: Sequence[Sequence[float] | None] | None = None,
) -> torch.Tensor:
    """(B,) → (B, T), float32; computed in float64. Zero outside the mask, so a row without policy tokens is all zeros.

    advantages: (B,) group-normalised. env_mask: (B, T) 1: a token of the policy that counts. turn_index: (B, T) number
    of the reply, from 0, that a token belongs to. turn_scores: of `turn_scores` alone; a row's are one a reply, in the
    unit of advantages, or None: it has none. Raises ValueError where a row has more replies than scores.
    Source: spec airline.md 9.3 and 9.4.
    """
    device = advantages.device
    mask, turn_index = env_mask.bool().cpu(), turn_index.cpu()  # not every accelerator has float64
    shaped = advantages.cpu().double().unsqueeze(1).expand(mask.shape)
    if shaping.advantage == "turn_scores":
        shaped = shaped + score_matrix(turn_scores or [None] * len(mask), mask, turn_index)
    if shaping.discounts:
        shaped = shaped * discounts(mask, turn_index, shaping)
    if shaping.divides:
        length = mask.sum(dim=1) if shaping.length_base == "tokens" else turns_of(mask, turn_index)
        shaped = shaped / length.clamp(min=1).double().sqrt().unsqueeze(1)
    return torch.where(mask, shaped, 0.0).float().to(device)


def discounts(mask: torch.Tensor, turn_index: torch.Tensor, shaping: Shaping) -> torch.Tensor:
    """(B, T) weights in float64: alpha^−age, scaled to a mean of 1 over a row's policy tokens."""
    age = turn_index.double()
    if shaping.alpha_unit == "token":
        age = torch.arange(mask.shape[1], dtype=torch.float64).expand(mask.shape)
    exponent = torch.where(mask, -age * math.log(shaping.alpha), -math.inf)
    # A row without policy tokens has −inf only: nothing of it is left, where −inf − −inf would be NaN.
    highest = exponent.amax(dim=1, keepdim=True).nan_to_num(neginf=0.0)
    weights = torch.exp(exponent - highest)
    length = mask.sum(dim=1, keepdim=True).clamp(min=1)
    return weights * length / weights.sum(dim=1, keepdim=True).clamp(min=1e-6)


def turns_of(mask: torch.Tensor, turn_index: torch.Tensor) -> torch.Tensor:
    """(B,) replies of a row up to the last one with a token that counts."""
    return torch.where(mask, turn_index, -1).amax(dim=1) + 1


def score_matrix(
    turn_scores: Sequence[Sequence[float] | None], mask: torch.Tensor, turn_index: torch.Tensor
) -> torch.Tensor:
    """(B, T) the score of each token's turn, in float64; 0 in rows without scores."""
    matrix = torch.zeros(mask.shape, dtype=torch.float64)
    for row, (scores, turns) in enumerate(zip(turn_scores, turns_of(mask, turn_index).tolist(), strict=True)):
        if scores is None or turns == 0:
            continue
        if len(scores) < turns:
            raise ValueError(f"row {row} has {turns} turns, but {len(scores)} turn scores; expected one a turn.")
        of_turn = torch.tensor(scores, dtype=torch.float64)
        matrix[row] = of_turn[turn_index[row].clamp(max=len(scores) - 1)]
    return matrix


def advantage_sums(advantages: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """[|A| over the first 100 completion positions, |A| over all, policy tokens], to be summed over processes.

    advantages: (B,) or (B, T). mask: (B, T).
    """
    absolute = (advantages.unsqueeze(1) if advantages.dim() == 1 else advantages).abs() * mask
    return torch.stack([absolute[:, :FIRST].sum(), absolute.sum(), mask.sum().float()])
