"""One rank of two, started by test_ranks.py: `python ranks_program.py PLAN`, with the launcher's variables set.

PLAN is JSON: {"out": folder, "case": name, …}. What the case returns goes to `out/<case>-<rank>.json`.
"""

import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from trainers import ranks

torch.set_num_threads(1)
RANK = int(os.environ["RANK"])


def together(_plan: dict) -> dict:
    """What ranks decide together, from values that differ."""
    return {
        "agree": [ranks.agree(RANK == 1), ranks.agree(False), ranks.agree(True)],
        "highest": ranks.highest(float(RANK)),
        "mean": ranks.mean(float(RANK)),
        "totals": ranks.totals([RANK + 1, 2**40 + RANK]),
        "pooled": ranks.pooled({"a": RANK, "sampling/policy_tokens": 5} | ({"only": 3} if RANK == 1 else {})),
    }


def ends(plan: dict) -> dict:
    """Rank 1 goes in the way that the plan says, while rank 0 does something else."""
    with ranks.watched():
        dist.barrier()
        if RANK == 1 and plan["how"] == "dies":
            os._exit(9)
        if RANK == 1 and plan["how"] == "fails":
            raise ValueError("no more\nsecond line")
        if plan["rank_0"] == "waits":
            dist.barrier()
        elif plan["rank_0"] == "computes":
            for _ in range(10**9):
                torch.ones(4) + 1
        else:
            time.sleep(60)
    return {}


def leaves(_plan: dict) -> dict:
    """All done: no rank takes the other's end for a death."""
    with ranks.watched():
        dist.barrier()
    time.sleep(1.5 * RANK)
    return {"left": True}


def sft(plan: dict) -> dict:
    from fake_host import FakeHost
    from trainers import sft

    host = FakeHost()
    result = sft.run(plan["request"], host)
    return {"result": result, "logs": host.logs}


def order(plan: dict) -> dict:
    """Which rows a rank trains on in each of two epochs, though its random numbers part from the other's."""
    from trainers.model import load_policy
    from trainers.sft import build_trainer, read_rows, tokenise

    request = plan["request"]
    policy = load_policy(request)
    examples, *_ = tokenise(read_rows(request["rows_path"]), policy.chat, request["max_length"])
    trainer = build_trainer(request, policy, examples)
    loader = trainer.get_train_dataloader()
    lengths = []
    for epoch in range(2):
        torch.rand(RANK + 1)
        trainer.state.epoch = epoch
        loader.set_epoch(epoch)
        lengths.append([int(each) for batch in loader for each in (batch["attention_mask"].sum(dim=1))])
    return {"lengths": lengths}


def grpo(plan: dict) -> dict:
    from fake_host import FakeHost
    from trainers import grpo

    class Host(FakeHost):
        """Asked to stop on rank 1 alone, after its second batch."""

        @property
        def stop_requested(self):
            return RANK == 1 and plan.get("stop", False) and len(self.starts) == 2

    host = Host(reward=lambda episode: episode.trial % 5 / 4)
    result = grpo.run(plan["request"], host)
    return {"result": result, "logs": host.logs, "starts": host.starts}


def whole(plan: dict) -> dict:
    """A sharded model after a step of its own, and the whole copy of it."""
    from torch.distributed.fsdp import fully_shard
    from trainers.model import load_policy
    from trainers.sharded import WholeCopy

    policy = load_policy(plan["request"])
    copy = WholeCopy(policy)
    before = [each.clone() for each in copy.policy.model.parameters()]
    for layer in policy.model.model.layers:
        fully_shard(layer)
    model = fully_shard(policy.model)
    parts = sum(each.to_local().numel() for each in model.parameters())
    ids = torch.arange(12).view(1, -1)
    model(input_ids=ids, labels=ids).loss.backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    sampled = copy.refreshed(model).model
    return {
        "moved": any(not torch.equal(a, b) for a, b in zip(before, sampled.parameters(), strict=True)),
        "loss": [each(input_ids=ids, labels=ids).loss.item() for each in (model, sampled)],
        "parts": parts,
        "whole": sum(each.numel() for each in sampled.parameters()),
    }


if __name__ == "__main__":
    plans = json.loads(sys.argv[1])
    dist.init_process_group("gloo")
    for plan in plans:
        answer = globals()[plan["case"]](plan)
        path = Path(plan["out"]) / f"{plan.get('name', plan['case'])}-{RANK}.json"
        path.write_text(json.dumps(answer))
    dist.destroy_process_group()
