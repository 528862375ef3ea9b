"""What this machine has, as one line of JSON: GPUs, versions, and what the installed libraries lack."""

import importlib.util
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "py"))

import torch
from trainers.features import LIBRARIES, installed, missing_features, version_warnings

lacks = [problem for recipe in ("sft", "grpo") for problem in missing_features(recipe)[0]]
print(
    json.dumps(
        {
            "gpus": [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())],
            "bf16": torch.cuda.is_available() and torch.cuda.is_bf16_supported(including_emulation=False),
            "versions": {name: installed(name) for name in LIBRARIES},
            "cuda": torch.version.cuda,
            "others": version_warnings(),
            "lacks": list(dict.fromkeys(lacks)),
            "cpus": os.cpu_count(),
            **{name: importlib.util.find_spec(name) is not None for name in ("vllm", "requests", "bitsandbytes")},
        }
    )
)
