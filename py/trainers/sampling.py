"""How a token is drawn: parameters, streams of random numbers, and the draws of one turn."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

IsOver = Callable[[Sequence[int]], bool] | None  # whether the ids of a reply so far end it; None: only end ids do


@dataclass(frozen=True)
class SamplingParams:
    """How turns are sampled. Budgets are in tokens."""

    seed: (
        int  # with an episode's task, seed and trial it makes the rollout's own stream; training takes a new one a step
    )
    temperature: float = 1.0  # 0: greedy
    top_p: float = 1.0
    top_k: int = 0  # 0: off
    min_p: float = 0.0  # 0: off
    max_turn_tokens: int = 256
    max_episode_tokens: int = 2048  # policy tokens; what the environment writes is not counted
    max_context_tokens: int | None = None  # prompt, replies, observations together; None: what the model can take


@contextmanager
def sampling_mode(model: Any) -> Iterator[None]:
    """Evaluation mode without gradients; what was on before comes back."""
    training = model.training
    model.eval()
    try:
        with torch.no_grad():  # not inference_mode: tensors that a model keeps from a forward pass must stay trainable
            yield
    finally:
        model.train(training)


def sampling_stream(params: SamplingParams, episode: dict[str, Any]) -> np.random.Generator:
    """The rollout's own random numbers, whatever else is in its batch."""
    entropy = [params.seed, zlib.crc32(episode["task_id"].encode()), episode["seed"], episode["trial"]]
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(entropy)))


def draw(logits: torch.Tensor, uniforms: torch.Tensor, params: SamplingParams) -> tuple[torch.Tensor, torch.Tensor]:
    """One token a row, by inverting the distribution's cumulative sum at a given uniform number.

    logits: (B, V). uniforms: (B,) in [0, 1). Returns ids (B,) and their log-probabilities (B,), nats, under the
    distribution that was drawn from: at temperature 1 without filters the model's own log-softmax; 0.0 when greedy.
    Temperature comes first, then top_k, top_p, min_p, each on what the ones before have left.
    """
    scores = logits.float()
    if params.temperature == 0:
        best, ids = scores.max(-1)
        return ids, best * 0  # not finite where the logits are not
    logprobs = torch.log_softmax(_filtered(scores / params.temperature, params), -1)
    # In float32 the sum over a large vocabulary would lose the rare tokens. (Apple's GPUs have no float64.)
    dtype = torch.float32 if logprobs.device.type == "mps" else torch.float64
    cumulative = logprobs.to(dtype).exp_().cumsum_(-1)
    points = uniforms.to(dtype) * cumulative[:, -1]
    # right=True: the first entry above the point, so a token of probability 0 is never drawn.
    ids = torch.searchsorted(cumulative, points[:, None], right=True).clamp_(max=logits.shape[-1] - 1)
    return ids[:, 0], logprobs.gather(-1, ids)[:, 0]


def _filtered(scores: torch.Tensor, params: SamplingParams) -> torch.Tensor:
    if 0 < params.top_k < scores.shape[-1]:
        scores = scores.masked_fill(scores < scores.topk(params.top_k).values[:, -1:], -torch.inf)
    if params.top_p < 1:
        ordered, order = scores.sort(-1, descending=True)
        probabilities = ordered.softmax(-1)
        beyond = probabilities.cumsum(-1) - probabilities >= params.top_p  # the most probable token always stays
        scores = scores.masked_fill(beyond.scatter(-1, order, beyond), -torch.inf)
    if params.min_p > 0:
        probabilities = scores.softmax(-1)
        scores = scores.masked_fill(probabilities < params.min_p * probabilities.amax(-1, keepdim=True), -torch.inf)
    return scores


class Draws:
    """What one turn has drawn so far, a row for each row asked."""

    def __init__(
        self,
        budgets: Sequence[int],
        uniforms: np.ndarray,
        end_ids: frozenset[int],
        params: SamplingParams,
        device: Any,
        is_over: IsOver = None,
    ) -> None:
        self.params = params
        self.budgets = np.asarray(budgets)
        width = int(self.budgets.max())
        self.uniforms = torch.from_numpy(np.ascontiguousarray(uniforms[:, :width])).to(
            device, torch.float32 if torch.device(device).type == "mps" else torch.float64
        )
        self.end_ids = np.asarray(sorted(end_ids))
        self.is_over = is_over
        self.ids = np.zeros((len(budgets), width), dtype=np.int64)
        self.logprobs = np.zeros((len(budgets), width), dtype=np.float32)
        self.lengths = np.zeros(len(budgets), dtype=np.int64)
        self.count = 0

    def draw(self, logits: torch.Tensor, rows: np.ndarray) -> tuple[torch.Tensor, np.ndarray]:
        """Draws the next token of `rows`, which index the rows asked. Returns the ids and which rows end with them."""
        uniforms = self.uniforms[torch.from_numpy(rows).to(self.uniforms.device), self.count]
        ids, logprobs = draw(logits, uniforms, self.params)
        drawn = ids.cpu().numpy()
        self.ids[rows, self.count] = drawn
        self.logprobs[rows, self.count] = logprobs.cpu().numpy()
        self.count += 1
        ended = np.isin(drawn, self.end_ids) | (self.count >= self.budgets[rows])
        if self.is_over is not None:
            ended |= [self.is_over(self.ids[row, : self.count].tolist()) for row in rows]
        # Not again for a row that had ended before: `generate` goes on with it until all have ended.
        self.lengths[rows[ended & (self.lengths[rows] == 0)]] = self.count
        return ids, ended

    def replies(self) -> list[tuple[list[int], list[float]]]:
        if not np.isfinite(self.logprobs).all():
            raise FloatingPointError(
                "the policy's logits are not finite: it has diverged (lower the learning rate), or overflows in 16 bits"
            )
        return [
            (ids[:length].tolist(), logprobs[:length].tolist())
            for ids, logprobs, length in zip(self.ids, self.logprobs, self.lengths, strict=True)
        ]
