"""LoRA and QLoRA: a new adapter, an adapter that training goes on with, and what must hold of what is saved."""

from __future__ import annotations

import json
import os
import re
import warnings
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import nn
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, PreTrainedModel, TrainerCallback

from trainers.precision import asked_precision, bitsandbytes_problem, choose_device, choose_dtype, cuda_has_bf16
from trainers.sources import UserError, did_you_mean, find_model, is_adapter, load_model_config, loading

# The usual attention and feed-forward projections of Llama-like models (arxiv.md 10.2 trains these).
LORA_TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
LORA_DEFAULTS = {"r": 16, "lora_alpha": 32, "lora_dropout": 0.05, "target_modules": LORA_TARGETS}
# Beside an adapter: what its base was loaded as. peft records the base's name alone.
TRAINED_ON_FILE = "trained_on.json"


# ------------------------------------------------------------------------------------------------------ 4-bit base


def qlora_problems(request: dict) -> tuple[list[str], list[str]]:
    """Problems and warnings of `request["qlora"]`, before a model loads."""
    if not request.get("qlora"):
        return [], []
    problems = []
    processes = request.get("processes") or int(os.environ.get("WORLD_SIZE", 1))
    if processes > 1:
        problems.append(
            f"qlora trains in one process on one GPU, and this run has {processes}. "
            f"Start it alone, or take 16-bit LoRA (--no-qlora --lora)."
        )
    if asked_precision(request) not in ("auto", "bf16"):
        problems.append(
            f"qlora computes in bf16, but {asked_precision(request)} is asked for. Set precision to auto, or leave "
            f"qlora out."
        )
    why = quantization_problem()
    if why is None or problems:
        return problems, []
    try:
        dtype = choose_dtype(choose_device(request.get("device")), asked_precision(request))
    except UserError:  # for precision_problems to tell
        return [], []
    return [], [fallback_sentence(why, dtype)]


def quantization_problem() -> str | None:
    """Why a base can't be loaded in 4 bits here, as a half sentence; None: it can."""
    missing = bitsandbytes_problem()
    if missing is None and not cuda_has_bf16():
        return "this GPU does not compute in bfloat16"
    return missing


def fallback_sentence(why: str, dtype: torch.dtype) -> str:
    """What training does where there are no 4 bits; in the log and in the manifest."""
    return f"qlora: {why}, so the base is loaded in {8 * dtype.itemsize} bits and trained with plain LoRA."


def load_in_4_bits(base: str, device: torch.device, dtype: torch.dtype) -> tuple[PreTrainedModel, dict]:
    """A base in NF4 with double quantisation (arXiv:2305.14314), on one device, and how its loading went.

    Its parameters are frozen by peft, its norms stay in `dtype` as in TRL: peft's prepare_model_for_kbit_training would
    hold embeddings and head in 32 bits.
    """
    config = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=dtype,
    )
    return AutoModelForCausalLM.from_pretrained(
        base, dtype=dtype, quantization_config=config, device_map={"": device}, output_loading_info=True
    )


# -------------------------------------------------------------------------------------------------------- adapters


def add_lora(model: PreTrainedModel, lora: dict):
    """A new adapter of peft's LoraConfig keys; what is left out is LORA_DEFAULTS. It starts as if it were not there."""
    from peft import LoraConfig, get_peft_model

    known = [field.name for field in fields(LoraConfig)]
    for key in lora:
        if key not in known:
            raise UserError(f"lora.{key}: peft's LoraConfig has no such key.{did_you_mean(key, known)}")
    settings = {**LORA_DEFAULTS, **lora}
    try:
        return get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", **settings))
    except ValueError as error:
        raise UserError(
            f"lora.target_modules {settings['target_modules']} do not fit {type(model).__name__}: {error} "
            f"'all-linear' fits every model."
        ) from error


def load_adapter(base: PreTrainedModel, source: str, lora: dict | None, training: bool):
    """Goes on with an adapter that was trained before: a second one on top of it would have to be merged by hand."""
    from peft import PeftModel

    if training:
        check_continued(source, lora or {}, base)
    with loading(source, "adapter"):
        return PeftModel.from_pretrained(base, source, is_trainable=training)


def check_lora(model: str, lora: dict | None) -> None:
    """Raises UserError where LoRA's keys or target modules do not fit the model. No weights are read."""
    if lora is None:
        return
    source = find_model(model)
    with torch.device("meta"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the run itself says what there is to say
        bare = AutoModelForCausalLM.from_config(load_model_config(model))
        if is_adapter(source):
            check_continued(source, lora, bare)
        else:
            add_lora(bare, lora)


def check_continued(source: str, lora: dict, base: PreTrainedModel) -> None:
    """Raises UserError for an adapter that is no LoRA, and for settings of `lora` that it does not have: they would be
    ignored."""
    config = adapter_config(source)
    for key, asked in lora.items():
        has = getattr(config, key, None)
        if key == "target_modules":
            asked, has = _modules(asked, base), _modules(has, base)
        if asked != has:
            raise UserError(
                f"{source} is an adapter with {key} {_shown(has)}, and training goes on with it, but lora.{key} is "
                f"{_shown(asked)}. Leave it out, or merge the adapter into its base first (trestle merge)."
            )


def adapter_config(source: str) -> Any:
    """The LoraConfig of an adapter's folder. Raises UserError where it is of another kind."""
    from peft import PeftConfig

    with loading(source, "adapter_config.json"):
        config = PeftConfig.from_pretrained(source)
    kind = getattr(config.peft_type, "value", config.peft_type)
    if kind != "LORA":
        raise UserError(f"{source} is an adapter of kind {kind}; expected a LoRA adapter.")
    return config


def _modules(names: Any, model: PreTrainedModel) -> set[str]:
    """Full names of the modules that `target_modules` means: a list of endings, a pattern, or all linear layers."""
    parts = dict(model.named_modules())
    if names == "all-linear":
        head = model.get_output_embeddings()
        return {name for name, part in parts.items() if isinstance(part, nn.Linear) and part is not head}
    if isinstance(names, str):
        return {name for name in parts if re.fullmatch(names, name)}
    return {name for name in parts if any(f".{name}".endswith(f".{ending}") for ending in names or [])}


def _shown(value: Any) -> str:
    return ", ".join(sorted({name.rsplit(".", 1)[-1] for name in value})) if isinstance(value, set) else str(value)


# ------------------------------------------------------------------------------------------------------ invariants


def check_trainable(model: Any) -> None:
    """Of a model with an adapter, the adapter and the modules saved with it are trained, and nothing else."""
    trained = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    other = [name for name in trained if "lora_" not in name and ".modules_to_save." not in name]
    if other or not trained:
        raise RuntimeError(
            f"an adapter is trained, but {len(other)} of {len(trained)} trainable parameters are not its own"
            + (f", as {other[0]}." if other else ".")
        )


def check_saved(folder: str | Path) -> None:
    """Raises RuntimeError where a folder does not hold a whole adapter: the only thing that its run has made."""
    folder = Path(folder)
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        if not (folder / name).is_file():
            raise RuntimeError(f"{folder}: {name} was not saved, so the adapter is not whole.")
    with safe_open(folder / "adapter_model.safetensors", framework="pt") as file:
        if not any("lora_" in name for name in file.keys()):  # noqa: SIM118
            raise RuntimeError(f"{folder}/adapter_model.safetensors holds no LoRA weights.")


def write_trained_on(folder: str | Path, hardware: dict[str, Any]) -> None:
    """Says beside an adapter what its base was loaded as, which `merge` passes on."""
    facts = {name: hardware.get(name) for name in ("dtype", "quantization")}
    (Path(folder) / TRAINED_ON_FILE).write_text(json.dumps(facts) + "\n", encoding="utf-8")


def read_trained_on(folder: str | Path) -> dict[str, Any] | None:
    """What `write_trained_on` said; None where it did not."""
    try:
        facts = json.loads((Path(folder) / TRAINED_ON_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return facts if isinstance(facts, dict) else None


class TrainedOnCallback(TrainerCallback):
    """Writes `trained_on.json` into every checkpoint of an adapter."""

    def __init__(self, hardware: dict[str, Any]):
        self.hardware = hardware

    def on_save(self, args, state, control, **_):
        folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        if state.is_world_process_zero and (folder / "adapter_config.json").is_file():
            write_trained_on(folder, self.hardware)
