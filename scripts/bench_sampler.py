"""The KV-cache sampler against generating every turn anew: same model, same seeds, so the same tokens, in one run.

    .venv/bin/python scripts/bench_sampler.py

Plays 32 episodes (4 groups of 8, 4 turns, observations of about 120 tokens) with a random Qwen2 of a million parameters
whose turns have about 30 tokens. Three ways, in turn, the best of `--repeats` counted:

- cached: the default sampler;
- anew: the same loop, but every turn reads its whole context again and nothing is shared between rows;
- generate: transformers' `generate` once a turn, which is what models get whose cache cannot be kept.

Prints seconds, tokens a second, and both ratios; exit code 1 when cached is less than `--bar` times as fast as anew.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "py"), str(ROOT / "py" / "tests")]

from trainers import rollout  # noqa: E402
from trainers.rollout import play_batch  # noqa: E402
from trainers.samplers import AnewSampler, CachedSampler  # noqa: E402
from trainers.sampling import SamplingParams  # noqa: E402
from trainers.tokens import ChatFormat  # noqa: E402

from tiny import ScriptedHost, tiny_model, tiny_tokenizer  # noqa: E402


class RereadingSampler(CachedSampler):
    """Forgets everything between turns; each row is read whole, in one pass with the others."""

    def turn(self, rows, contexts, budgets, uniforms):
        self.forget()
        return super().turn(rows, contexts, budgets, uniforms)

    def _read_prompts(self, contexts):
        return self.slots.read(contexts)


class Policy:
    def __init__(self, model):
        self.model = model


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=4)
    parser.add_argument("--group-size", type=int, default=8)
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--prompt-tokens", type=int, default=300)
    parser.add_argument("--observation-tokens", type=int, default=120)
    parser.add_argument("--turn-tokens", type=int, default=30, help="mean length of a reply")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--bar", type=float, default=1.6)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)

    tokenizer = tiny_tokenizer()
    chat = ChatFormat(tokenizer)
    model = tiny_model(tokenizer, end_rate=1 / args.turn_tokens)
    system = {"role": "system", "content": "x " * (args.prompt_tokens // 2 - 30)}
    prompts = {
        f"task-{index}": [system, {"role": "user", "content": f"{index}: the user in question"}]
        for index in range(args.groups)
    }
    observation = "Observation: " + "x " * ((args.observation_tokens - 20) // 2)
    episodes = [{"task_id": task, "seed": 1, "trial": trial} for task in prompts for trial in range(args.group_size)]
    samplers = {
        "generate": lambda model, chat, params, rows, host, engine: AnewSampler(model, chat.end_ids, params),
        "anew": lambda model, chat, params, rows, host, engine: RereadingSampler(model, chat.end_ids, params, rows),
        "cached": lambda model, chat, params, rows, host, engine: CachedSampler(model, chat.end_ids, params, rows),
    }

    def play(name):
        host = ScriptedHost(prompts, lambda task, turn, reply: observation, max_turns=args.turns)
        rollout.make_sampler = samplers[name]
        begin = time.perf_counter()
        rollouts = play_batch(
            Policy(model), chat, host, episodes, SamplingParams(seed=7), policy_step=None, policy_name="bench"
        )
        return time.perf_counter() - begin, rollouts

    best, tokens = {}, {}
    for _ in range(args.repeats):
        for name in samplers:
            seconds, rollouts = play(name)
            best[name] = min(seconds, best.get(name, seconds))
            tokens[name] = [(r.completion_ids, r.env_mask) for r in rollouts]
    same = {name: sum(a == b for a, b in zip(tokens[name], tokens["cached"], strict=True)) for name in samplers}
    policy_tokens = sum(sum(mask) for _, mask in tokens["cached"])
    result = {
        "rollouts": len(episodes),
        "policy_tokens": policy_tokens,
        "prompt_tokens": len(chat.prompt_ids(prompts["task-0"])),
        "observation_tokens": len(chat.observation_ids([{"role": "user", "content": observation}])),
        "threads": args.threads,
        "seconds": {name: round(seconds, 3) for name, seconds in best.items()},
        "tokens_per_second": {name: round(policy_tokens / seconds) for name, seconds in best.items()},
        "same_tokens_as_cached": same,
        "ratio_to_anew": round(best["anew"] / best["cached"], 2),
        "ratio_to_generate": round(best["generate"] / best["cached"], 2),
    }
    if args.json:
        print(json.dumps(result))
    else:
        print(
            f"{result['rollouts']} rollouts, {policy_tokens} policy tokens, prompts of {result['prompt_tokens']}, "
            f"observations of {result['observation_tokens']}, {args.threads} threads"
        )
        for name in ("generate", "anew", "cached"):
            print(
                f"{name:10}{best[name]:8.2f} s {policy_tokens / best[name]:8.0f} tokens/s   "
                f"the same tokens in {same[name]} of {len(episodes)} rollouts"
            )
        print(f"cached is {result['ratio_to_anew']} times as fast as anew, {result['ratio_to_generate']} as generate")
    return 0 if result["ratio_to_anew"] >= args.bar else 1


if __name__ == "__main__":
    sys.exit(main())
