"""Plays episodes with a model, without training: `rollout` and `bench`. What was played is in TypeScript's log."""

import time

from trainers.callbacks import quiet_libraries
from trainers.model import load_policy
from trainers.rollout import play_batch
from trainers.sampling import SamplingParams


def run(request: dict, host) -> dict:
    """Plays `request["batches"]` one after the other. A requested stop ends it after the batch under way.

    Each episode draws from a stream of its own (`sampling_stream`), whatever is in its batch. Logits are equal to the
    last bit only in a batch of the same episodes, as matrix products of other shapes round differently.
    """
    quiet_libraries()
    policy = load_policy(request, training=False)
    params = SamplingParams(**request["sampling"], seed=request["seed"])
    asked = sum(map(len, request["batches"]))
    played = policy_tokens = stopped_replies = 0
    begin, asked_ms = time.perf_counter(), host.round_trip_ms
    for batch in request["batches"]:
        if host.stop_requested:
            break
        rollouts = play_batch(policy, policy.chat, host, batch, params, policy_step=None, policy_name=request["policy"])
        played += len(rollouts)
        policy_tokens += sum(rollout.policy_tokens for rollout in rollouts)
        stopped_replies += sum(rollout.stopped_replies for rollout in rollouts)
    play_s, ask_s = time.perf_counter() - begin, (host.round_trip_ms - asked_ms) / 1000
    return {
        "episodes": played,
        "stopped": played < asked,
        "policy_tokens": policy_tokens,
        "stopped_replies": stopped_replies,
        "tokens_per_s": policy_tokens / max(play_s - ask_s, 1e-9),
        "play_s": play_s,
        "ask_s": ask_s,
        "hardware": policy.hardware,
    }
