"""Two processes train one model (DDP): their gradients are those of one process with all rows.

python scripts/gpu_check/two_ranks.py MODEL nccl|gloo

nccl: a GPU each. gloo: both on the first GPU, or on the CPU where there is none; NCCL refuses two ranks on one GPU.
Prints {"gradients": largest difference as a share of the largest gradient}; exit code 1 beyond 1e-3.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "py"))

import torch
import torch.distributed
import torch.multiprocessing
from torch.nn.parallel import DistributedDataParallel
from trainers.model import load_policy

RANKS, ROWS, LENGTH, CLOSE = 2, 4, 64, 1e-3


def main() -> int:
    model, backend = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder, "result.json")
        torch.multiprocessing.spawn(train, (model, backend, Path(folder, "store"), result), nprocs=RANKS)
        share = json.loads(result.read_text())
    print(json.dumps({"gradients": share}))
    return 0 if share < CLOSE else 1


def train(rank: int, model: str, backend: str, store: Path, result: Path) -> None:
    torch.set_num_threads(1)
    device = "cpu" if not torch.cuda.is_available() else f"cuda:{rank if backend == 'nccl' else 0}"
    os.environ["LOCAL_RANK"] = str(rank)
    torch.distributed.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=RANKS)
    policy = load_policy({"model": model, "device": device, "seed": 1})
    ids = torch.arange(ROWS * LENGTH, device=device).view(ROWS, LENGTH) * 13 % policy.model.config.vocab_size
    policy.model(input_ids=ids, labels=ids).loss.backward()
    whole = [parameter.grad.clone() for parameter in policy.model.parameters()]
    policy.model.zero_grad()

    shared = DistributedDataParallel(policy.model, device_ids=None if device == "cpu" else [policy.device.index])
    mine = ids[rank * ROWS // RANKS : (rank + 1) * ROWS // RANKS]
    shared(input_ids=mine, labels=mine).loss.backward()
    largest = max(gradient.abs().max().item() for gradient in whole)
    difference = max(
        (parameter.grad - gradient).abs().max().item()
        for parameter, gradient in zip(policy.model.parameters(), whole, strict=True)
    )
    torch.distributed.barrier()
    if rank == 0:
        result.write_text(json.dumps(difference / largest))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main())
