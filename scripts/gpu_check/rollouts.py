"""Tokens a second of a sampler on 64 episodes of 4 turns, and how far its logprobs are from the model's own.

python scripts/gpu_check/rollouts.py MODEL ours|vllm|http://host:port

Plays once to warm up, then measures. Prints {"tokens_per_s": …, "logprobs": mean difference in nats, "largest": …};
exit code 1 where the mean is beyond 0.05, which 16 bits do not explain.
"""

import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "py"), str(ROOT / "py" / "tests")]

import torch  # noqa: E402
from trainers.model import load_policy  # noqa: E402
from trainers.rollout import play_batch  # noqa: E402
from trainers.sampling import SamplingParams, sampling_mode  # noqa: E402
from trainers.vllm_sampler import ColocatedEngine  # noqa: E402
from trainers.vllm_server import ServerEngine  # noqa: E402

from tiny import ScriptedHost  # noqa: E402

CLOSE = 0.05


def main() -> int:
    model, kind = sys.argv[1:3]
    engine = engine_of(kind, model)
    policy = load_policy({"model": model, "seed": 1}, training=False)
    policy.engine = engine
    prompts = {
        f"task {index}": [{"role": "user", "content": f"Task {index}: " + "say more. " * 20}] for index in range(8)
    }
    episodes = [{"task_id": task, "seed": 1, "trial": trial} for task in prompts for trial in range(8)]
    params = SamplingParams(seed=3, max_turn_tokens=64, max_episode_tokens=256)

    def play():
        host = ScriptedHost(prompts, lambda task, turn, reply: "And then? " * 10, max_turns=4)
        begin = time.perf_counter()
        rollouts = play_batch(policy, policy.chat, host, episodes, params, policy_step=None, policy_name="check")
        return rollouts, time.perf_counter() - begin

    play()
    rollouts, seconds = play()
    tokens = sum(rollout.policy_tokens for rollout in rollouts)
    differences = torch.cat([difference(policy.model, rollout) for rollout in rollouts[:8]])
    mean = differences.mean().item()
    result = {"tokens_per_s": round(tokens / seconds), "logprobs": mean, "largest": differences.max().item()}
    print(json.dumps({**result, "tokens": tokens, "device": str(policy.device), "dtype": str(policy.dtype)}))
    if not mean < CLOSE:
        print(f"logprobs are {mean:.3g} nats from the model's own; expected less than {CLOSE}", file=sys.stderr)
        return 1
    return 0


def engine_of(kind: str, model: str):
    if kind == "ours":
        return None
    if kind != "vllm":
        return ServerEngine(kind, model, 60)
    from vllm import LLM

    llm = LLM(
        model=model,
        gpu_memory_utilization=0.2,
        max_model_len=2048,
        enforce_eager=True,  # begins in seconds; graphs would be captured for a minute
        logprobs_mode="processed_logprobs",
    )
    return ColocatedEngine(SimpleNamespace(llm=llm, enable_sleep_mode=False))


def difference(model, rollout) -> torch.Tensor:
    """How far the kept logprobs of the policy's tokens are from a fresh forward pass, nats."""
    ids = torch.tensor([rollout.prompt_ids + rollout.completion_ids], device=model.device)
    with sampling_mode(model):
        logits = model(input_ids=ids).logits[0, len(rollout.prompt_ids) - 1 : -1]
    fresh = logits.float().log_softmax(-1).cpu().gather(-1, torch.tensor(rollout.completion_ids)[:, None])[:, 0]
    return (fresh - torch.tensor(rollout.logprobs))[torch.tensor(rollout.env_mask).bool()].abs()


if __name__ == "__main__":
    sys.exit(main())
