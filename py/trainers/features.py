"""What training needs of the installed libraries, by what they can do. Versions other than the pins only warn.

A missing feature is refused, with what it is for. Some are not in a signature but in what TRL does inside: they are
looked for in its source. Where a TRL newer than the pinned one does not show them any more it may have other names for
them, so that is a warning.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.version import Version

REQUIREMENTS = Path(__file__).parents[2] / "requirements.txt"
LIBRARIES = ("torch", "transformers", "trl", "peft", "accelerate", "datasets")

# Keys that the trainers set themselves, whatever the user gives.
SET_BY_US = {
    "sft": "output_dir seed max_length packing disable_tqdm logging_nan_inf_filter logging_steps report_to bf16 fp16 "
    "use_cpu gradient_checkpointing",
    "dpo": "output_dir seed disable_tqdm logging_nan_inf_filter logging_steps report_to bf16 fp16 use_cpu "
    "gradient_checkpointing beta",
    "opd": "output_dir seed temperature disable_tqdm logging_nan_inf_filter logging_steps report_to bf16 fp16 use_cpu "
    "gradient_checkpointing beta",
    "grpo": "output_dir seed temperature max_completion_length disable_tqdm logging_nan_inf_filter logging_steps "
    "report_to bf16 fp16 use_cpu gradient_checkpointing num_generations steps_per_generation",
}

# In TRL's source: a text, and what it stands for.
GRPO_SOURCE = {
    "self.rollout_func(prompts, self)": "rollout functions without vLLM (rollout_func)",
    "env_mask": "a loss on the policy's tokens alone (env_mask)",
    "log_metric": "figures of a reward function (log_metric)",
    "unscorable_mask": "failed rollouts that stay out of their group's statistics",
    '["num_items_in_batch"].clamp': "steps in which no token counts",
    "_buffered_inputs": "a step's rollouts kept for its micro-batches",
}
VLLM_SOURCE = {"nan_to_num(per_token_logps_diff": "tokens for which vLLM gives no logprob"}
SFT_SOURCE = {"assistant_masks": "a loss on the policy's tokens alone (assistant_masks)"}


def missing_features(recipe: str, *, use_vllm: bool = False) -> tuple[list[str], list[str]]:
    """Problems and warnings: what the installed libraries lack for a recipe, a sentence each."""
    if recipe not in SET_BY_US:
        return [], []
    try:
        trainer, config = _trl_classes(recipe)
    except Exception as error:  # TRL imports a submodule when it is first asked for, and wraps what goes wrong in it
        reason = str(error.__cause__ or error).strip().split("\n")[-1]
        return [f"TRL {installed('trl')} can't be imported here: {reason} {_advice()}"], []

    lacks = []
    if recipe == "grpo" and "rollout_func" not in inspect.signature(trainer.__init__).parameters:
        lacks.append("GRPOTrainer's rollout_func")
    known = {field.name for field in dataclasses.fields(config)}
    lacks += [f"{config.__name__}.{name}" for name in SET_BY_US[recipe].split() if name not in known]
    problems = [f"TRL {installed('trl')} lacks {', '.join(lacks)}. {_advice()}"] if lacks else []

    texts = {"sft": SFT_SOURCE, "grpo": GRPO_SOURCE | (VLLM_SOURCE if use_vllm else {})}.get(recipe, {})
    source = inspect.getsource(inspect.getmodule(trainer))
    hidden = [meaning for text, meaning in texts.items() if text not in source]
    warned = []
    if hidden and Version(installed("trl")) > Version(pins()["trl"]):
        warned.append(f"TRL {installed('trl')} may lack {', '.join(hidden)}: its source does not show it. {_advice()}")
    elif hidden:
        problems.append(f"TRL {installed('trl')} lacks {', '.join(hidden)}. {_advice()}")
    if recipe in ("grpo", "opd") and (problem := _cache_problem()):
        problems.append(problem)
    return problems, warned


def version_warnings() -> list[str]:
    """One line on the libraries whose versions are not those that the project is tested with; [] where all are."""
    pinned = pins()
    others = [
        f"{name} {version} (tested: {pinned[name]})"
        for name in LIBRARIES
        if name in pinned and (version := installed(name)) not in (None, pinned[name])
    ]
    return [f"other versions than the project is tested with: {', '.join(others)}."] if others else []


def installed(name: str) -> str | None:
    """The version of a package without its build: "2.13.0" for "2.13.0+cpu". None: not installed."""
    try:
        return metadata.version(name).split("+")[0]
    except metadata.PackageNotFoundError:
        return None


def pins() -> dict[str, str]:
    """The exact versions of requirements.txt."""
    return dict(re.findall(r"^([A-Za-z0-9._-]+)==([^\s;#]+)", REQUIREMENTS.read_text(encoding="utf-8"), re.MULTILINE))


def _trl_classes(recipe: str) -> tuple[Any, Any]:
    import trl

    return {
        "sft": lambda: (trl.SFTTrainer, trl.SFTConfig),
        "dpo": lambda: (trl.DPOTrainer, trl.DPOConfig),
        "grpo": lambda: (trl.GRPOTrainer, trl.GRPOConfig),
        "opd": lambda: (trl.DistillationTrainer, trl.DistillationConfig),
    }[recipe]()


def _cache_problem(find: Callable[[], Any] | None = None) -> str | None:
    """What our KV cache is built on: layers that are told how to store. `find` imports transformers.cache_utils."""
    try:
        module = (find or _cache_module)()
        accepted = inspect.signature(module.Cache.__init__).parameters
        complete = "layers" in accepted and hasattr(module.DynamicLayer, "update")
    except (ImportError, AttributeError):
        complete = False
    if complete:
        return None
    return (
        f"transformers {installed('transformers')} lacks caches made of layers (DynamicLayer, Cache(layers=…)), which "
        f"sampling is built on. {_advice()}"
    )


def _cache_module() -> Any:
    import transformers.cache_utils

    return transformers.cache_utils


def _advice() -> str:
    return f"Install TRL {pins()['trl']} with transformers {pins()['transformers']}, or run `setup`."
