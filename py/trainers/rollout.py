"""Plays a batch of episodes with a policy: samples turns, crosses to the environment once a turn, keeps exact ids.

Two samplers share one rule of drawing (`draw`) and one interface (`turn`), so under the same seeds they give the same
tokens: `CachedSampler` keeps the KV cache across turns and is the default; `AnewSampler` reads each turn's whole
context again and serves the models whose cache cannot be kept (sliding windows, state spaces).
"""

from __future__ import annotations

import inspect
import os
import weakref
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache, GenerationConfig, LogitsProcessor, StoppingCriteria
from transformers.cache_utils import Cache, DynamicLayer

from trainers.tokens import ChatFormat, Transcript
from trainers.wire import Host, HostError


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


@dataclass(kw_only=True)
class Rollout(Transcript):
    """One finished episode: what the policy and the environment wrote, and what TypeScript made of it."""

    task_id: str
    seed: int
    trial: int
    turns: int = 0  # replies that the environment was given
    ended_by: str = ""  # terminated, truncated, error, timeout
    ended_why: str | None = None  # for truncated: "turns", "tokens" (the episode's budget), "context"
    reward: float | None = None  # None: invalid (error, timeout)
    parts: dict[str, float | None] = field(default_factory=dict)
    metrics: dict[str, Any] = field(default_factory=dict)
    success: bool = False


def play_batch(
    policy: Any,
    chat: ChatFormat,
    host: Host,
    episodes: Sequence[dict[str, Any]],
    params: SamplingParams,
    *,
    policy_step: int | None,
    policy_name: str,
) -> list[Rollout]:
    """Plays `episodes` ({task_id, seed, trial} each) to their ends, all at once; rollouts come in the same order.

    `policy.model` is sampled in evaluation mode, without gradients. Limits, and what they do:
    - a reply cut by `max_turn_tokens` is stepped as it is, the environment judges it, and the episode goes on;
    - a reply cut by `max_episode_tokens` is stepped too; an episode that then still runs ends truncated, "tokens";
    - an episode whose next turn does not fit `max_context_tokens` ends truncated, "context". An observation that does
      not fit is left out whole: no sampled token would follow it.
    The others go on. No completion is empty: where nothing was sampled (failed at reset, prompt too long) it is one
    end-of-turn token with mask 0, and a prompt beyond the context is cut to it, as no token is learnt from it.
    """
    count = len(episodes)
    payload = {"policy_step": policy_step, "policy": policy_name, "episodes": list(episodes)}
    started = _ask(host, "start", payload, count)
    rollouts = [
        Rollout(**episode, prompt_ids=chat.prompt_ids(start["messages"]) if start["messages"] else [chat.end_id])
        for episode, start in zip(episodes, started, strict=True)
    ]
    limit = context_limit(policy.model, params)
    streams = [sampling_stream(params, episode) for episode in episodes]
    stopped: dict[int, str] = {}
    live = [row for row in range(count) if not started[row]["done"]]
    sampler = make_sampler(policy.model, chat, params, count, host)

    with sampling_mode(policy.model):
        while True:
            for row in live:
                if rollouts[row].policy_tokens >= params.max_episode_tokens:
                    stopped[row] = "tokens"
                elif _length(rollouts[row]) >= limit:
                    stopped[row] = "context"
            live = [row for row in live if row not in stopped]
            if not live:
                break
            budgets = [
                min(
                    params.max_turn_tokens,
                    params.max_episode_tokens - rollouts[row].policy_tokens,
                    limit - _length(rollouts[row]),
                )
                for row in live
            ]
            contexts = [rollouts[row].prompt_ids + rollouts[row].completion_ids for row in live]
            # A fixed number a turn, so that a stream does not depend on what the others in the batch do.
            uniforms = np.stack([streams[row].random(params.max_turn_tokens) for row in live])
            replies = sampler.turn(live, contexts, budgets, uniforms)
            for row, (ids, logprobs) in zip(live, replies, strict=True):
                rollouts[row].add_sampled(ids, logprobs)
                rollouts[row].turns += 1
            steps = [
                {"handle": started[row]["handle"], "reply": chat.reply_text(ids)}
                for row, (ids, _) in zip(live, replies, strict=True)
            ]
            answers = _ask(host, "step", {"episodes": steps}, len(steps))
            going = [(row, answer) for row, answer in zip(live, answers, strict=True) if not answer["done"]]
            live = [row for row, _ in going]
            for row, answer in going:
                if rollouts[row].policy_tokens >= params.max_episode_tokens:
                    continue
                ids = chat.next_turn_ids(rollouts[row].completion_ids[-1], answer["observations"])
                if _length(rollouts[row]) + len(ids) < limit:
                    rollouts[row].add_template(ids)
                else:
                    stopped[row] = "context"

    ends = [
        {
            "handle": start["handle"],
            "ended": {"by": "truncated", "why": stopped[row]} if row in stopped else None,
            "tokens": {
                "prompt": len(rollout.prompt_ids),
                "policy": rollout.policy_tokens,
                "observation": len(rollout.completion_ids) - rollout.policy_tokens,
            },
        }
        for row, (start, rollout) in enumerate(zip(started, rollouts, strict=True))
    ]
    for rollout, score in zip(rollouts, _ask(host, "finish", {"episodes": ends}, count), strict=True):
        for name in ("ended_by", "ended_why", "reward", "parts", "metrics", "success"):
            setattr(rollout, name, score[name])
        if not rollout.completion_ids:
            rollout.prompt_ids = rollout.prompt_ids[: max(1, limit - 1)]
            rollout.add_template([chat.end_id])
    return rollouts


def _length(rollout: Rollout) -> int:
    return len(rollout.prompt_ids) + len(rollout.completion_ids)


def _ask(host: Host, op: str, payload: dict[str, Any], asked: int) -> list[dict[str, Any]]:
    """Asks for `asked` episodes and gets as many; anything else ends the step, never a row made up in its place."""
    answer = host.ask(op, payload)
    episodes = answer.get("episodes") if isinstance(answer, dict) else None
    if not isinstance(episodes, list) or len(episodes) != asked:
        returned = len(episodes) if isinstance(episodes, list) else type(episodes).__name__
        raise HostError(
            f"{op}: {asked} asked, {returned} returned. The environment's side lost episodes of this batch; its own "
            "error stands in the log above."
        )
    for index, episode in enumerate(episodes):
        if not isinstance(episode, dict):
            raise HostError(f"{op}: episode {index} of {asked} is {episode!r}; expected an object.")
    return episodes


def context_limit(model: Any, params: SamplingParams) -> int:
    """Tokens of prompt, replies and observations together: the smaller of what was asked and what the model takes."""
    config = model.config.get_text_config(decoder=True)
    # State-space models name no limit.
    most = getattr(config, "max_position_embeddings", None) or 1 << 30
    return min(most, params.max_context_tokens or most)


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


# ------------------------------------------------------------------------------------------------------ drawing


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
        return scores.argmax(-1), torch.zeros(len(scores), device=scores.device)
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


class _Draws:
    """What one turn has drawn so far, a row for each row asked."""

    def __init__(
        self, budgets: Sequence[int], uniforms: np.ndarray, end_ids: frozenset[int], params: SamplingParams, device: Any
    ) -> None:
        self.params = params
        self.budgets = np.asarray(budgets)
        width = int(self.budgets.max())
        self.uniforms = torch.from_numpy(np.ascontiguousarray(uniforms[:, :width])).to(
            device, torch.float32 if torch.device(device).type == "mps" else torch.float64
        )
        self.end_ids = np.asarray(sorted(end_ids))
        self.ids = np.zeros((len(budgets), width), dtype=np.int64)
        self.logprobs = np.zeros((len(budgets), width), dtype=np.float32)
        self.lengths = np.zeros(len(budgets), dtype=np.int64)
        self.count = 0

    def draw(self, logits: torch.Tensor, rows: np.ndarray) -> tuple[torch.Tensor, np.ndarray]:
        """Draws the next token of `rows`, which index the rows asked. Returns the ids and which rows end with them."""
        uniforms = self.uniforms[:, self.count]
        if len(rows) < len(uniforms) or (np.diff(rows) < 0).any():
            uniforms = uniforms[torch.from_numpy(rows).to(uniforms.device)]
        elif len(rows) > 1 and rows[0] != 0:
            uniforms = uniforms[torch.from_numpy(rows).to(uniforms.device)]
        ids, logprobs = draw(logits, uniforms, self.params)
        drawn = ids.cpu().numpy()
        self.ids[rows, self.count] = drawn
        self.logprobs[rows, self.count] = logprobs.cpu().numpy()
        self.count += 1
        ended = np.isin(drawn, self.end_ids) | (self.count >= self.budgets[rows])
        self.lengths[rows[ended]] = self.count
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
