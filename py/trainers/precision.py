"""What hardware decides: the device, the precision of weights and computations, the optimizer (arxiv.md 10.6)."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import torch
from transformers import TrainingArguments

from trainers.sources import UserError

if TYPE_CHECKING:
    from trainers.model import Policy

PRECISIONS = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}

# transformers' optimizers that bitsandbytes computes, on CUDA alone.
BITSANDBYTES_OPTIMIZERS = (
    "adamw_8bit",
    "adamw_bnb_8bit",
    "paged_adamw_32bit",
    "paged_adamw_8bit",
    "ademamix",
    "ademamix_8bit",
    "paged_ademamix_32bit",
    "paged_ademamix_8bit",
    "lion_32bit",
    "lion_8bit",
    "paged_lion_32bit",
    "paged_lion_8bit",
    "rmsprop_bnb",
    "rmsprop_bnb_8bit",
    "rmsprop_bnb_32bit",
)
# Beginnings of optimizers' names, and what each needs: transformers would find out after the model has loaded.
OPTIMIZER_PACKAGES = {
    "adamw_anyprecision": "torchdistx",
    "adamw_torch_4bit": "torchao",
    "adamw_torch_8bit": "torchao",
    "adamw_torch_xla": "torch_xla",
    "adamw_torch_npu": "torch_npu",
    "adalomo": "lomo_optim",
    "apollo_": "apollo_torch",
    "galore_": "galore_torch",
    "grokadamw": "grokadamw",
    "lomo": "lomo_optim",
    "schedule_free_": "schedulefree",
    "stable_adamw": "optimi",
}
PLAIN_ADAMW = "adamw_torch_fused"


def choose_device(wanted: str | None = None) -> torch.device:
    """`wanted`, or the best there is: CUDA, Apple's GPU, CPU."""
    if wanted is None and torch.cuda.is_available():
        wanted = f"cuda:{os.environ.get('LOCAL_RANK', 0)}"  # set by launchers, a process a GPU
    if wanted is None:
        wanted = "mps" if torch.backends.mps.is_available() else "cpu"
    device = torch.device(wanted)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UserError(f"device is '{wanted}', but this PyTorch ({torch.__version__}) sees no CUDA device.")
    return device


def asked_precision(request: dict) -> str:
    """`request["precision"]`; where it is "auto", what `trainer.bf16` and `trainer.fp16` say."""
    asked, trainer = request.get("precision") or "auto", request.get("trainer") or {}
    if asked != "auto":
        return asked
    for name in ("bf16", "fp16"):
        if trainer.get(name):
            return name
    return "fp32" if trainer.get("bf16") is False else "auto"  # TRL's own default is bf16, which fp16 alone replaces


def choose_dtype(device: torch.device, wanted: str = "auto") -> torch.dtype:
    """One of PRECISIONS, or by hardware: on CUDA bfloat16, on older CUDA float16, float32 elsewhere.

    bf16 that is asked for on a CPU without instructions for it, where it would be many times slower, becomes float32.
    Raises UserError for what the device has not at all.
    """
    if wanted not in ("auto", *PRECISIONS):
        raise UserError(f"precision is '{wanted}'; expected one of auto, {', '.join(PRECISIONS)}.")
    if device.type == "cuda":
        if wanted == "auto":
            wanted = "bf16" if cuda_has_bf16() else "fp16"
        elif wanted == "bf16" and not cuda_has_bf16():
            raise UserError("precision is bf16, which this GPU does not have. Set it to auto, fp16 or fp32.")
    elif wanted == "fp16":
        raise UserError(f"precision is fp16, which trains on CUDA only, not on {device.type}. Set it to auto or fp32.")
    elif wanted == "auto" or (wanted == "bf16" and not (device.type == "cpu" and cpu_has_bf16())):
        wanted = "fp32"
    return PRECISIONS[wanted]


def precision_problems(request: dict) -> tuple[list[str], list[str]]:
    """Problems and warnings of `precision`, `trainer.bf16`, `trainer.fp16` and `trainer.optim` on this hardware."""
    asked, trainer = request.get("precision") or "auto", request.get("trainer") or {}
    problems, warned = [], []
    if trainer.get("bf16") and trainer.get("fp16"):
        problems.append("trainer.bf16 and trainer.fp16 are both true; a run computes in one of them. Leave one out.")
    if asked != "auto":
        for name in ("bf16", "fp16"):
            if trainer.get(name) is not None and trainer[name] != (name == asked):
                problems.append(
                    f"precision is {asked}, but trainer.{name} is {str(trainer[name]).lower()}. Leave one of them out."
                )
    try:
        device = choose_device(request.get("device"))
        dtype = choose_dtype(device, asked_precision(request))
        if asked == "bf16" and dtype == torch.float32:
            warned.append(
                f"precision is bf16, but this {device.type} has no instructions for it and would be many times "
                f"slower: computing in fp32."
            )
    except UserError as error:
        problems.append(str(error))
    found, noted = optimizer_problems(trainer)
    return problems + found, warned + noted


def optimizer_problems(trainer: dict) -> tuple[list[str], list[str]]:
    """An optimizer that needs what is not here: AdamW of bitsandbytes becomes torch's with a warning, others end it."""
    optim = str(trainer.get("optim") or "")
    if optim in BITSANDBYTES_OPTIMIZERS:
        missing = bitsandbytes_problem()
        if missing and "adamw" in optim:
            return [], [f"trainer.optim is {optim}, but {missing}: training with {PLAIN_ADAMW} instead."]
        if missing:
            return [f"trainer.optim is {optim}, but {missing}. Set --optim {PLAIN_ADAMW}, which is always there."], []
    for beginning, package in OPTIMIZER_PACKAGES.items():
        if optim.startswith(beginning) and find_spec(package) is None:
            return [
                f"trainer.optim is {optim}, which needs the package {package}, which is not installed. "
                f"Install it, or set --optim {PLAIN_ADAMW}."
            ], []
    return [], []


def choose_optimizer(trainer: dict, quantization: str | None) -> str | None:
    """What hardware makes of `trainer.optim`; None: nothing, TRL's names and default count.

    Optimizer states beside 4-bit weights are paged and of 8 bits (arxiv.md 10.2); elsewhere the default is fused AdamW.
    """
    optim = trainer.get("optim")
    if optim is None:
        return "paged_adamw_8bit" if quantization and bitsandbytes_problem() is None else None
    return PLAIN_ADAMW if optim in BITSANDBYTES_OPTIMIZERS and bitsandbytes_problem() else None


def bitsandbytes_problem() -> str | None:
    """Why bitsandbytes can't be used here, as a half sentence; None: it can."""
    if not torch.cuda.is_available():
        return "there is no CUDA GPU"
    if find_spec("bitsandbytes") is None:
        return "bitsandbytes is not installed (pip install bitsandbytes)"
    return None


def precision_arguments(policy: Policy, trainer: dict) -> dict:
    """Keys of TRL's config that hardware decides: they go over what the user gave under `trainer`, and agree with it.

    TRL turns bf16 and gradient checkpointing on by default, which on a CPU is slow and gains nothing.
    """
    arguments: dict[str, Any] = {
        "use_cpu": policy.device.type == "cpu",
        "bf16": policy.dtype == torch.bfloat16,
        "fp16": policy.dtype == torch.float16,
    }
    if policy.optim is not None:
        arguments["optim"] = policy.optim
    if policy.device.type == "cpu" and "gradient_checkpointing" not in trainer:
        arguments["gradient_checkpointing"] = False
    return arguments


def cpu_has_bf16() -> bool:
    """Whether this CPU multiplies bfloat16 matrices by itself (AVX-512 BF16, AMX, or Arm's BF16)."""
    capabilities = torch.cpu.get_capabilities()
    return any(capabilities.get(name, False) for name in ("avx512_bf16", "amx_bf16", "arm_bf16", "bf16"))


def cuda_has_bf16() -> bool:
    """Whether the GPU computes in bfloat16 by itself."""
    return torch.cuda.is_bf16_supported(including_emulation=False)


def on_one_device(args: TrainingArguments) -> TrainingArguments:
    """Several GPUs and no launcher: training takes the first. transformers would spread it over all."""
    if args.n_gpu > 1:
        args._n_gpu = 1
    return args


def peak_memory_gib(device: torch.device) -> float | None:
    """Most GPU memory held at once, GiB; None on a CPU."""
    return torch.cuda.max_memory_allocated(device) / 2**30 if device.type == "cuda" else None


def describe_hardware(device: torch.device, dtype: torch.dtype) -> dict[str, Any]:
    """What the run runs on, for its manifest."""
    description: dict[str, Any] = {
        "device": device.type,
        "dtype": str(dtype).removeprefix("torch."),
        "cpu_threads": torch.get_num_threads(),
    }
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        description |= {
            "device_name": properties.name,
            "device_count": torch.cuda.device_count(),
            "memory_gib": round(properties.total_memory / 2**30, 1),
            "cuda": torch.version.cuda,
        }
    return description
