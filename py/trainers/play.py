"""Plays episodes with a model, without training: `rollout` and `bench`. What was played is in TypeScript's log."""

import time

from trainers.callbacks import quiet_libraries
from trainers.model import load_policy
from trainers.rollout import SamplingParams, play_batch


def run(request: dict, host) -> dict:
    """Plays `request["episodes"]` in batches. A requested stop ends it after the batch under way."""
    quiet_libraries()
    policy = load_policy(request, training=False)
    params = SamplingParams(**request["sampling"], seed=request["seed"])
    episodes, size = request["episodes"], request["batch_size"]
    played = policy_tokens = stopped_replies = 0
    begin, asked_ms = time.perf_counter(), host.round_trip_ms
    for start in range(0, len(episodes), size):
        if host.stop_requested:
            break
        batch = episodes[start : start + size]
        rollouts = play_batch(policy, policy.chat, host, batch, params, policy_step=None, policy_name=request["policy"])
        played += len(rollouts)
        policy_tokens += sum(rollout.policy_tokens for rollout in rollouts)
        stopped_replies += sum(rollout.stopped_replies for rollout in rollouts)
    play_s, ask_s = time.perf_counter() - begin, (host.round_trip_ms - asked_ms) / 1000
    return {
        "episodes": played,
        "stopped": played < len(episodes),
        "policy_tokens": policy_tokens,
        "stopped_replies": stopped_replies,
        "tokens_per_s": policy_tokens / max(play_s - ask_s, 1e-9),
        "play_s": play_s,
        "ask_s": ask_s,
        "hardware": policy.hardware,
    }
