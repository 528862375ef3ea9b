"""Sampling where FSDP has spread the weights over the processes: from a whole copy on each of them.

Forward passes of a sharded model are collective. Episodes end when they end, so the ranks' numbers of passes differ,
and a rank that is done would leave the others waiting. One gathering before each batch is the same on all.
"""

import copy
import dataclasses
import os

import torch
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

from trainers.model import Policy


def is_sharded(trainer: dict) -> bool:
    """Whether a trainer with these keys wraps its model with FSDP: accelerate's configuration may ask for it, too."""
    return bool(trainer.get("fsdp")) or os.environ.get("ACCELERATE_USE_FSDP", "false").lower() == "true"


class WholeCopy:
    """The policy with a model of its own, made before the trainer takes the model apart. Takes its memory again."""

    def __init__(self, policy: Policy):
        self.policy = dataclasses.replace(policy, model=copy.deepcopy(policy.model))
        self.policy.model.requires_grad_(False)

    @torch.no_grad()
    def refreshed(self, wrapped: torch.nn.Module) -> Policy:
        """With the weights as they are now. All ranks must call it."""
        weights = get_model_state_dict(wrapped, options=StateDictOptions(full_state_dict=True))
        self.policy.model.load_state_dict(weights)
        return self.policy
