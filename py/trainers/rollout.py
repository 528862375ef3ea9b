"""Plays a batch of episodes with a policy: samples turns, crosses to the environment once a turn, keeps exact ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trainers.continuation import DialogueFormat
from trainers.samplers import make_sampler
from trainers.sampling import SamplingParams, sampling_mode, sampling_stream
from trainers.tokens import Transcript
from trainers.wire import Host, HostError


@dataclass(kw_only=True)
class Rollout(Transcript):
    """One finished episode: what the policy and the environment wrote, and what TypeScript made of it."""

    task_id: str
    seed: int
    trial: int
    turns: int = 0  # replies that the environment was given
    cut_replies: int = 0  # of them, those that a token budget cut off
    stopped_replies: int = 0  # of them, those cut where the policy began to write the environment's part
    ended_by: str = ""  # terminated, truncated, error, timeout
    ended_why: str | None = None  # for truncated: "turns", "tokens" (the episode's budget), "context"
    reward: float | None = None  # None: invalid (error, timeout)
    parts: dict[str, float | None] = field(default_factory=dict)
    metrics: dict[str, Any] = field(default_factory=dict)
    success: bool = False
    turn_scores: list[float] | None = None  # (K,) what the environment says of single replies; None: nothing


def play_batch(
    policy: Any,
    chat: DialogueFormat,
    host: Host,
    episodes: Sequence[dict[str, Any]],
    params: SamplingParams,
    *,
    policy_step: int | None,
    policy_name: str,
    purpose: str = "training",
) -> list[Rollout]:
    """Plays `episodes` ({task_id, seed, trial} each) to their ends, all at once; rollouts come in the same order.

    `policy.model` is sampled in evaluation mode, without gradients; where `policy.engine` is set, that vLLM samples in
    its place. `purpose` says whose tasks they are ("training", or an exam's name, as "canary"), as `start` has it in
    protocol.ts. Limits, and what they do:
    - a reply cut by `max_turn_tokens` is stepped as it is, the environment judges it, and the episode goes on;
    - a reply cut by `max_episode_tokens` is stepped too; an episode that then still runs ends truncated, "tokens";
    - an episode whose next turn does not fit `max_context_tokens` ends truncated, "context". An observation that does
      not fit is left out whole: no sampled token would follow it.
    The others go on. What the format cuts off a reply (the continuation style) counts against no budget of the episode.
    No completion is empty: where nothing was sampled (failed at reset, prompt too long) it is one end-of-turn token
    with mask 0, and a prompt beyond the context is cut to it, as no token is learnt from it.
    """
    count = len(episodes)
    payload = {"purpose": purpose, "policy_step": policy_step, "policy": policy_name, "episodes": list(episodes)}
    started = _ask(host, "start", payload, count)
    rollouts = [
        Rollout(**episode, prompt_ids=chat.prompt_ids(start["messages"]) if start["messages"] else [chat.end_id])
        for episode, start in zip(episodes, started, strict=True)
    ]
    limit = context_limit(policy.model, params)
    streams = [sampling_stream(params, episode) for episode in episodes]
    stopped: dict[int, str] = {}
    live = [row for row in range(count) if not started[row]["done"]]
    sampler = make_sampler(policy.model, chat, params, count, host, getattr(policy, "engine", None))

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
            steps = []
            for row, (ids, logprobs) in zip(live, replies, strict=True):
                rollout = rollouts[row]
                reply = chat.read_reply(ids, first=rollout.turns == 0)
                rollout.add_sampled(ids[: reply.kept], logprobs[: reply.kept])
                if reply.kept < len(ids):
                    sampler.rewind(row, _length(rollout))
                rollout.turns += 1
                rollout.stopped_replies += reply.stopped
                rollout.cut_replies += not reply.stopped and ids[-1] not in chat.end_ids
                steps.append({"handle": started[row]["handle"], "reply": reply.text})
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
        rollout.turn_scores = score.get("turn_scores")
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
