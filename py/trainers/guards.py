"""Guards: rules that end a run in which nothing is learnt any more, or in which the policy has come apart.

A guard is asked with figures (at a log, after a step, after a canary) and keeps how often in a row they were bad. All
figures are of all processes, so every process decides the same. Rules and defaults: arxiv.md 10.6 and docs/guards.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from accelerate.utils import gather_object

from trainers.rollout import Rollout

REWARD_VARIANCE_DEAD = "reward_variance_dead"
REWARD_VARIANCE_SATURATED = "reward_variance_window_saturated"
CANARY_THRESHOLD = "canary_threshold"
REPLIES_CUT = "replies_cut"
ENTROPY_COLLAPSE = "entropy_collapse"
REPETITION = "repetition"
CLIPPED_EPISODES = "clipped_episodes"

DEAD_LOGS, GRACE_STEPS = 5, 20  # arxiv.md 10.6
# A policy whose replies are nearly all cut off earns nothing, however long it trains.
CUT_SHARE, CUT_STEPS = 0.9, 10
NGRAM = 4  # tokens; a loop of any length repeats all of its 4-grams


@dataclass(frozen=True)
class Notice:
    """What a guard has to say. `reason`: the run ends for it; None: a warning. `save`: whether the model is kept."""

    text: str
    reason: str | None = None
    save: bool = True


class Guard(Protocol):
    name: str

    def observe(self, step: int, figures: Mapping[str, float]) -> Notice | None:
        """Judges figures of optimizer step `step` (from 1). What it does not find among them it does not count."""
        ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class RewardVarianceGuard:
    """Trips after 5 logs in a row in which no group had any difference in reward: nothing is learnt from such steps.

    Up to step 20 the tasks or the reward do not fit this policy, and nothing is saved. Later the policy has stopped
    differing with itself: the model is saved, which does not mean that it has converged.
    """

    name = "reward_variance"

    def __init__(self, patience: int = DEAD_LOGS, grace: int = GRACE_STEPS):
        self.patience, self.grace = patience, grace
        self.dead = 0

    def observe(self, step: int, figures: Mapping[str, float]) -> Notice | None:
        if "frac_reward_zero_std" in figures:
            dead = figures["frac_reward_zero_std"] >= 1
        elif "reward_std" in figures:
            dead = figures["reward_std"] == 0
        else:
            return None  # a step that sampled nothing
        self.dead = self.dead + 1 if dead else 0
        if self.dead < self.patience:
            return None
        told = f"No group had any difference in reward in the last {self.dead} logs: nothing is learnt from such steps."
        if step <= self.grace:
            return Notice(
                f"{told} This early (step {step} of the first {self.grace}) the tasks are too hard or too easy for "
                "this policy, or the reward is constant. Nothing is saved. Choose other tasks or a better start; "
                "--allow-zero-variance goes on all the same.",
                REWARD_VARIANCE_DEAD,
                save=False,
            )
        return Notice(
            f"{told} The model is saved as it is; that is no proof that it has converged.", REWARD_VARIANCE_SATURATED
        )

    def state_dict(self) -> dict[str, Any]:
        return {"dead": self.dead}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.dead = state["dead"]


class LimitGuard:
    """Trips where a figure is beyond its limit `patience` times in a row. The first time of a row is told.

    below: too low is bad, not too high. share_of_first: `limit` is a share of the first value that the run has had.
    says: the sentence about a bad value.
    """

    def __init__(
        self,
        reason: str,
        figure: str,
        limit: float,
        patience: int,
        says: Callable[[float], str],
        *,
        below: bool = False,
        share_of_first: bool = False,
    ):
        self.name = reason
        self.figure, self.limit, self.patience, self.says = figure, limit, patience, says
        self.below, self.share_of_first = below, share_of_first
        self.bad = 0
        self.first: float | None = None

    def observe(self, step: int, figures: Mapping[str, float]) -> Notice | None:
        value = figures.get(self.figure)
        if value is None:
            return None
        if self.first is None:
            self.first = value
        limit = self.limit * self.first if self.share_of_first else self.limit
        self.bad = self.bad + 1 if (value < limit if self.below else value > limit) else 0
        if self.bad >= self.patience:
            return Notice(f"{self.says(value)} Stopped after {self.bad} in a row.", self.name)
        return Notice(f"{self.says(value)} After {self.patience} in a row the run stops.") if self.bad == 1 else None

    def state_dict(self) -> dict[str, Any]:
        return {"bad": self.bad, "first": self.first}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.bad, self.first = state["bad"], state["first"]


def rollout_guards(request: dict) -> list[Guard]:
    """The guards of a run that learns from rollouts, by `request["guards"]` (protocol.ts); without it only the one that
    is never off."""
    settings = request.get("guards")
    turn = request["sampling"]["max_turn_tokens"]
    guards: list[Guard] = [
        LimitGuard(
            REPLIES_CUT,
            "sampling/cut_replies",
            CUT_SHARE,
            CUT_STEPS,
            lambda share: (
                f"{share:.0%} of the replies were cut off by a token budget (max_turn_tokens is {turn}): the policy "
                "hardly gets to say anything whole."
            ),
        )
    ]
    if settings is None:
        return guards
    if not settings["allow_zero_variance"]:
        guards.append(RewardVarianceGuard())
    patience = settings["collapse_patience"]
    if (share := settings["min_entropy_share"]) is not None:
        guards.append(
            LimitGuard(
                ENTROPY_COLLAPSE,
                "sampling/entropy",
                share,
                patience,
                lambda value: (
                    f"The policy's entropy is {value:.2g} nats a token, below {share:g} of what it began with "
                    "(min_entropy_share): it says the same whatever it is asked. Lower learning_rate, or raise beta."
                ),
                below=True,
                share_of_first=True,
            )
        )
    if (most := settings["max_repetition"]) is not None:
        guards.append(
            LimitGuard(
                REPETITION,
                "sampling/repetition",
                most,
                patience,
                lambda value: (
                    f"{value:.0%} of the replies' {NGRAM}-grams repeat earlier ones of the same reply, more than "
                    f"{most:.0%} (max_repetition): the policy talks in loops. Lower learning_rate, or raise beta."
                ),
            )
        )
    if (clipped := settings["max_clipped_share"]) is not None:
        guards.append(
            LimitGuard(
                CLIPPED_EPISODES,
                "sampling/clipped_episodes",
                clipped,
                patience,
                lambda value: (
                    f"{value:.0%} of the episodes ran out of tokens before they were over, more than {clipped:.0%} "
                    "(max_clipped_share). Raise max_episode_tokens or max_context_tokens."
                ),
            )
        )
    if canary := settings["canary"]:
        least = canary["min_reward"]
        guards.append(
            LimitGuard(
                CANARY_THRESHOLD,
                "canary/reward",
                least,
                canary["patience"],
                lambda value: (
                    f"The canary tasks earned {value:.3f} on average, less than min_canary_reward {least:g}: "
                    "the policy has unlearnt what it could."
                ),
                below=True,
            )
        )
    return guards


def rollout_figures(rollouts: Sequence[Rollout]) -> dict[str, float]:
    """What the collapse guards judge, of the rollouts of all processes. Every process has to call it.

    sampling/entropy: nats a token, the mean of −log p over the tokens that were drawn, an unbiased estimate of the
        entropy of the distribution they were drawn from.
    sampling/repetition: share of the replies' n-grams that stand earlier in the same reply.
    sampling/cut_replies, sampling/clipped_episodes: shares that a token budget cut off; of valid episodes.
    """
    repeated, ngrams = repeats(reply for rollout in rollouts for reply in replies_of(rollout))
    valid = [rollout for rollout in rollouts if rollout.reward is not None]
    own = [
        sum(rollout.policy_tokens for rollout in rollouts),
        -sum(sum(rollout.logprobs) for rollout in rollouts),
        ngrams,
        repeated,
        sum(rollout.turns for rollout in rollouts),
        sum(rollout.cut_replies for rollout in rollouts),
        len(valid),
        sum(rollout.ended_by == "truncated" and rollout.ended_why != "turns" for rollout in valid),
    ]
    tokens, surprise, ngrams, repeated, turns, cut, episodes, clipped = (
        sum(each) for each in zip(*gather_object([own]), strict=True)
    )
    shares = {
        "sampling/entropy": (surprise, tokens),
        "sampling/repetition": (repeated, ngrams),
        "sampling/cut_replies": (cut, turns),
        "sampling/clipped_episodes": (clipped, episodes),
    }
    return {name: part / whole for name, (part, whole) in shares.items() if whole > 0}


def replies_of(rollout: Rollout) -> list[list[int]]:
    """The token ids of each reply: the stretches that the policy drew."""
    replies: list[list[int]] = []
    before = 0
    for token, bit in zip(rollout.completion_ids, rollout.env_mask, strict=True):
        if bit and not before:
            replies.append([])
        if bit:
            replies[-1].append(token)
        before = bit
    return replies


def repeats(replies: Iterable[Sequence[int]]) -> tuple[int, int]:
    """How many n-grams stand earlier in the same reply, and how many there are."""
    repeated = total = 0
    for ids in replies:
        ngrams = [tuple(ids[place : place + NGRAM]) for place in range(len(ids) - NGRAM + 1)]
        total += len(ngrams)
        repeated += len(ngrams) - len(set(ngrams))
    return repeated, total
