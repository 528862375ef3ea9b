"""Two trained models against each other: the largest difference of weights, and the mean one of logprobs.

python scripts/gpu_check/models.py FOLDER FOLDER

Prints {"weights": …, "logprobs": …}; logprobs in nats, of a fixed sequence of 64 ids, in float32.
"""

import json
import sys

import torch
from transformers import AutoModelForCausalLM

one, other = (AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32) for folder in sys.argv[1:3])
weights = max(
    (a.detach() - b.detach()).abs().max().item() for a, b in zip(one.parameters(), other.parameters(), strict=True)
)
ids = torch.arange(64)[None] * 7 % one.config.vocab_size
with torch.no_grad():
    logprobs = [model(ids).logits.log_softmax(-1)[0, :-1].gather(-1, ids[0, 1:, None]) for model in (one, other)]
print(json.dumps({"weights": weights, "logprobs": (logprobs[0] - logprobs[1]).abs().mean().item()}))
