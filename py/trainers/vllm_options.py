"""Which of TRL's vllm_… keys work here, and what must be there for them: told before anything loads."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import torch

from trainers.vllm_server import server_problems, server_url

SERVER_KEYS = (
    "vllm_server_base_url",
    "vllm_server_host",
    "vllm_server_port",
    "vllm_server_timeout",
    "vllm_group_port",
)
COLOCATE_KEYS = (
    "vllm_gpu_memory_utilization",
    "vllm_max_model_length",
    "vllm_tensor_parallel_size",
    "vllm_enable_sleep_mode",
    "vllm_model_impl",
)
CORRECTION_KEYS = (
    "vllm_importance_sampling_mode",
    "vllm_importance_sampling_clip_max",
    "vllm_importance_sampling_clip_min",
    "vllm_importance_sampling_cap",
)
CORRECTION = "vllm_importance_sampling_correction"
MODES = ["colocate", "server"]
CORRECTION_MODES = ["token_truncate", "token_mask", "sequence_truncate", "sequence_mask"]
# Keys of TRL that our path would ignore.
ELSEWHERE = {"vllm_structured_outputs_regex": "replies are the policy's own; its text is judged by the environment"}


def key_problems(trainer: dict[str, Any]) -> list[str]:
    """vllm_… keys that would be ignored, or contradict each other. Values are of the right type already."""
    given = [key for key in trainer if key.startswith("vllm_")]
    if not trainer.get("use_vllm"):
        return [f"trainer.{key} counts only with use_vllm (--use-vllm); set it, or leave {key} out." for key in given]
    mode = trainer.get("vllm_mode", "colocate")
    others, other = (COLOCATE_KEYS, "colocate") if mode == "server" else (SERVER_KEYS, "server")
    problems = [
        f"trainer.{key} counts only with vllm_mode {other}, but vllm_mode is {mode}. Set vllm_mode, or leave {key} out."
        for key in given
        if key in others
    ]
    if "vllm_server_base_url" in given:
        problems += [
            f"trainer.vllm_server_base_url and trainer.{key} say the same thing: set one of them."
            for key in ("vllm_server_host", "vllm_server_port")
            if key in given
        ]
    corrected = trainer.get(CORRECTION, True)
    if not corrected:
        problems += [
            f"trainer.{key} counts only with {CORRECTION}, which is off: leave one of them out."
            for key in given
            if key in CORRECTION_KEYS
        ]
    correction_mode = trainer.get("vllm_importance_sampling_mode", "sequence_mask")
    if corrected and trainer.get("loss_type") == "vespo" and not correction_mode.startswith("token_"):
        problems.append(
            f"loss_type vespo takes vllm_importance_sampling_mode token_truncate or token_mask, not {correction_mode}."
        )
    if trainer.get("vllm_tensor_parallel_size", 1) > 1:
        problems.append(
            "trainer.vllm_tensor_parallel_size is more than 1: episodes of several processes take different numbers of "
            "turns, and an engine that spans them would wait for itself. Use vllm_mode server, started with "
            "--tensor-parallel-size."
        )
    return problems


def engine_problems(trainer: dict[str, Any], model: str, need: int | None) -> list[str]:
    """What is missing for sampling with vLLM: packages, a GPU, a server that serves `model`; within seconds.

    model: as vLLM has to load it (an adapter's base). need: tokens of a whole context, None: no limit is known.
    """
    if not trainer.get("use_vllm"):
        return []
    server = trainer.get("vllm_mode", "colocate") == "server"
    problems = []
    # A server's client needs them too: TRL hands the weights over with vLLM's own communicator, announced by requests.
    missing = [name for name in ("vllm", *(["requests"] if server else [])) if find_spec(name) is None]
    if missing:
        problems.append(
            f"use_vllm is set, but {' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed in the "
            f"Python that trains: pip install 'trl[vllm]', or leave use_vllm out (rollouts are then sampled with "
            f"transformers)."
        )
    if not torch.cuda.is_available():
        problems.append("use_vllm needs a CUDA GPU, which this PyTorch does not see. Leave use_vllm out.")
    if server:
        problems += _client_problems() or server_problems(server_url(trainer), model, need)
    elif need is not None and (most := trainer.get("vllm_max_model_length") or need) < need:
        problems.append(
            f"trainer.vllm_max_model_length is {most}; expected {need}, the context of an episode. Raise it, or set "
            f"--max-context-tokens {most}."
        )
    return problems


def _client_problems() -> list[str]:
    import trl
    from trl.generation.vllm_client import VLLMClient

    if hasattr(VLLMClient, "get_server_info"):
        return []
    return [
        f"TRL {trl.__version__} speaks with a server of its own (trl vllm-serve), not with `vllm serve`: vllm_mode "
        "server needs a later one. Run `setup`, or use vllm_mode colocate."
    ]
