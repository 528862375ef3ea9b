"""Run by torchrun: one batch of three groups of four across two processes, six rows each, one group in both."""

import json
import random
import sys
from pathlib import Path
from types import SimpleNamespace

import torch
from accelerate import Accelerator
from trainers import rollout_func
from trainers.rollout import Rollout

torch.set_num_threads(1)
TASKS = [f"t{index}" for index in range(40)]


def play(_policy, _chat, _host, episodes, _params, **_):
    tokens = {"prompt_ids": [1], "completion_ids": [5, 2], "env_mask": [1, 1], "logprobs": [-0.1, -0.1]}
    taught = [random.Random(each["task_id"]).random() < 0.3 for each in episodes]
    return [
        Rollout(**each, **tokens, reward=float(each["trial"] % 2) if teaches else 0.5)
        for each, teaches in zip(episodes, taught, strict=True)
    ]


rollout_func.play_batch = play
accelerator = Accelerator(cpu=True)
request = {
    "seed": 5,
    "policy": "p",
    "task_ids": TASKS,
    "dynamic_sampling": {"metric": "reward", "std_threshold": 0.0, "max_resamples": 32, "on_exhausted": "fail"},
    "sampling": {
        **{"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0},
        **{"max_turn_tokens": 4, "max_episode_tokens": 8, "max_context_tokens": None},
    },
}
host = SimpleNamespace(round_trip_ms=0, crossing_ms=0, note=print)
policy = SimpleNamespace(chat=SimpleNamespace(is_over=None), engine=None)
sampler = rollout_func.RolloutSampler(request, policy, host, 4)
trainer = SimpleNamespace(accelerator=accelerator, state=SimpleNamespace(global_step=0))
rank = accelerator.process_index
whole = [TASKS[place // 4] for place in range(12)]
fields = sampler(whole[rank * 6 : rank * 6 + 6], trainer)
result = {"reward": fields["reward"], "memory": sampler.memory.state_dict(), "totals": sampler.resampled}
(Path(sys.argv[1]) / f"rank-{rank}.json").write_text(json.dumps(result))
accelerator.end_training()
