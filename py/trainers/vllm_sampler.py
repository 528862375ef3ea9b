"""Turns sampled by vLLM in the model's place: by a server, or by an engine in this process (TRL's `colocate`).

TRL's trainer hands the weights over before each new step's rollouts (`VLLMGeneration.sync_weights`) and corrects for
what is left between vLLM's probabilities and the trainer's own (`vllm_importance_sampling_correction`). Here turns are
sampled: from token ids, with a budget and a seed of each row's own, until one of our end-of-turn ids.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
import torch

from trainers.continuation import DialogueFormat
from trainers.model import Policy, UserError, context_limit
from trainers.sampling import SamplingParams
from trainers.vllm_server import Reply, ServerEngine, server_url, watched_sync


class Engine(Protocol):
    """What samples: a reply for each (context, keys of vLLM's SamplingParams), in the same order."""

    def complete(self, requests: Sequence[tuple[list[int], dict[str, Any]]]) -> list[Reply]: ...


class VllmSampler:
    """Behind the same methods as CachedSampler. vLLM's own prefix cache is what keeps contexts from turn to turn."""

    def __init__(self, engine: Engine, chat: DialogueFormat, params: SamplingParams) -> None:
        self.engine, self.chat = engine, chat
        self.end_ids, self.is_over = chat.end_ids, chat.is_over
        self.params = {
            "n": 1,
            "temperature": params.temperature,
            "top_p": params.top_p,
            "top_k": params.top_k,
            "min_p": params.min_p,
            "repetition_penalty": 1.0,  # a server would take it from the model's generation_config.json
            "logprobs": 0,  # of the sampled token alone
            "ignore_eos": True,  # the model's own list of ends may be another; ours is this:
            "stop_token_ids": sorted(chat.end_ids),
            "skip_special_tokens": False,
        }
        if stop := getattr(chat, "stop", None):
            self.params["stop"] = [stop]

    def rewind(self, row: int, tokens: int) -> None:
        """Each request has its whole context; vLLM finds by itself what of it is in its cache."""

    def turn(
        self, rows: Sequence[int], contexts: Sequence[list[int]], budgets: Sequence[int], uniforms: np.ndarray
    ) -> list[Reply]:
        """As `CachedSampler.turn`. `uniforms` gives each row's seed, so that a row's replies repeat as far as vLLM's
        arithmetic does: the same batch on the same machine.

        A logprob that vLLM gave none for is NaN. Raises RuntimeError where a reply is no reply to what was asked,
        FloatingPointError where no token of a turn has a logprob.
        """
        requests = [
            (list(context), {**self.params, "max_tokens": int(budget), "seed": seed_of(row)})
            for context, budget, row in zip(contexts, budgets, uniforms, strict=True)
        ]
        replies = self.engine.complete(requests)
        if len(replies) != len(requests):
            raise RuntimeError(
                f"{len(requests)} replies asked of vLLM, {len(replies)} returned: no step is taken on a part."
            )
        turns = [self._checked(*reply, budget) for reply, budget in zip(replies, budgets, strict=True)]
        if all(math.isnan(logprob) for _, logprobs in turns for logprob in logprobs):
            raise FloatingPointError(
                "vLLM gives no sampled token a logprob: the policy has diverged (lower the learning rate), or "
                "overflows in 16 bits"
            )
        return turns

    def _checked(self, ids: list[int], logprobs: list[float], budget: int) -> Reply:
        """A reply up to where our rules end it, and the logprobs of as many tokens."""
        if len(ids) != len(logprobs):
            raise RuntimeError(f"vLLM returned {len(ids)} tokens with {len(logprobs)} logprobs; expected one for each.")
        length = self._end(ids[:budget])
        if length == 0:
            raise RuntimeError("vLLM returned a reply without a token; expected at least the end-of-turn token.")
        # A stop text that vLLM's own decoding finds, and ours does not, only cuts the reply.
        if length < budget and ids[length - 1] not in self.end_ids and "stop" not in self.params:
            raise RuntimeError(
                f"vLLM ended a reply after {length} of {budget} tokens with id {ids[length - 1]}, which ends no turn. "
                f"Does its context (max_model_len) hold max_context_tokens?"
            )
        return list(ids[:length]), [float(each) for each in logprobs[:length]]

    def _end(self, ids: list[int]) -> int:
        """How many of the ids a turn has: to the first end-of-turn id, or the first that completes the stop text."""
        for place, token_id in enumerate(ids):
            if token_id in self.end_ids or (self.is_over is not None and self.is_over(ids[: place + 1])):
                return place + 1
        return len(ids)


def seed_of(uniforms: np.ndarray) -> int:
    """A request's seed from the turn's random numbers of its row: below 2^52, as JSON carries it exactly."""
    return int(uniforms[0] * (1 << 52))


class ColocatedEngine:
    """The vLLM engine that TRL's trainer holds in this process; each process has its own, for its own rows."""

    def __init__(self, generation: Any):
        """generation: TRL's VLLMGeneration in mode "colocate"."""
        self.generation = generation
        self.asleep = bool(generation.enable_sleep_mode)

    def complete(self, requests: Sequence[tuple[list[int], dict[str, Any]]]) -> list[Reply]:
        """As ServerEngine.complete."""
        from vllm import SamplingParams as VllmParams

        if self.asleep:  # a turn outside the trainer's own rollouts
            return self.awake(self.complete)(requests)
        # Rollouts are played under the loss's autocast; vLLM's graphs were built without.
        with torch.autocast("cuda" if torch.cuda.is_available() else "cpu", enabled=False):
            outputs = self.generation.llm.generate(
                [{"prompt_token_ids": context} for context, _ in requests],
                sampling_params=[VllmParams(**params) for _, params in requests],
                use_tqdm=False,
            )
        return [_read_output(output.outputs[0]) for output in outputs]

    def awake(self, rollout_func: Callable) -> Callable:
        """`rollout_func` with the engine awake for all its turns, asleep before and after.

        As TRL's own `generate` does for one turn. Sleep of level 2 drops the weights, so that a second batch of
        rollouts in the same step needs them handed over again.
        """

        def play(*args: Any) -> Any:
            with self._awake():
                return rollout_func(*args)

        return play

    @contextmanager
    def _awake(self) -> Iterator[None]:
        if self.generation._llm_weights_sleeping:
            self.generation.sync_weights()
        self.generation.llm.wake_up(tags=["kv_cache"])
        self.asleep = False
        try:
            yield
        finally:
            self.asleep = True
            self.generation.llm.sleep(level=2)
            self.generation._llm_weights_sleeping = True


def _read_output(output: Any) -> Reply:
    """Ids and logprobs of one vLLM CompletionOutput; each place's logprobs are a map by token id."""
    ids = [int(token_id) for token_id in output.token_ids]
    given = output.logprobs or []

    def logprob(place: int, token_id: int) -> float:
        entry = (given[place] or {}).get(token_id) if place < len(given) else None
        return math.nan if entry is None or entry.logprob is None else float(entry.logprob)

    return ids, [logprob(place, token_id) for place, token_id in enumerate(ids)]


def context_argument(model: Any, sampling: dict[str, Any], trainer: dict[str, Any]) -> dict[str, int]:
    """A colocated engine's context, where the user names none: an episode's, and no memory for more."""
    if not trainer.get("use_vllm") or trainer.get("vllm_mode") == "server" or trainer.get("vllm_max_model_length"):
        return {}
    limits = [sampling["max_context_tokens"], context_limit(model.config)]
    return {"vllm_max_model_length": min(each for each in limits if each)} if any(limits) else {}


def attach_vllm(trainer: Any, policy: Policy, model: str) -> None:
    """Has rollouts of `policy` sampled by the vLLM that TRL's trainer (built with use_vllm) holds.

    model: as the request names it. Raises UserError where vLLM cannot sample for this policy.
    """
    args, generation = trainer.args, trainer.vllm_generation
    if getattr(policy.model, "is_loaded_in_4bit", False) or getattr(policy.model, "is_loaded_in_8bit", False):
        raise UserError("use_vllm takes weights of 16 or 32 bits, and the base is quantised: leave one of them out.")
    if args.vllm_mode == "colocate":
        engine = ColocatedEngine(generation)
        if args.vllm_enable_sleep_mode:
            trainer.rollout_func = engine.awake(trainer.rollout_func)
    else:
        engine = ServerEngine(server_url(vars(args)), model, args.vllm_server_timeout)
        sync = watched_sync(generation.sync_weights, engine, args.vllm_server_timeout)
        generation.sync_weights = _then_together(sync, trainer.accelerator)
    policy.engine = engine


def _then_together(sync: Callable[[], None], accelerator: Any) -> Callable[[], None]:
    """No process samples before the first one, which alone sends the weights, has sent them all."""

    def run() -> None:
        sync()
        accelerator.wait_for_everyone()

    return run
