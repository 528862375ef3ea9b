"""Merges a LoRA adapter into its base, and proves it: what was written is loaded again and compared (search.md 9).

All on the CPU, in 32 bits: memory for one model at a time, 4 bytes a parameter. What is written is rounded once.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import shutil
import warnings
from collections import Counter
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import nn
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig
from transformers.utils import logging as transformers_logging

from trainers.adapters import adapter_config, read_trained_on
from trainers.model import UserError, load_tokenizer, load_weights
from trainers.precision import PRECISIONS
from trainers.sources import adapter_base, find_model, is_adapter, load_model_config, loading

MERGE_FILE = "merge.json"
# Largest difference of two logits, as a share of the largest logit (at least 1). What is compared is computed in 32
# bits both times: in fp32 only the order of sums differs, else the rounding of the weights, 2⁻⁹ of each in bf16, too.
TOLERANCE = {"fp32": 1e-4, "fp16": 1e-2, "bf16": 5e-2}
STORED = {"F32": "fp32", "F16": "fp16", "BF16": "bf16"}
PROMPTS = (
    "Which papers on reinforcement learning appeared last week?",
    "Add 17 and 25, then say the result in one word.",
    "Write a clue for a document about the history of paper.",
    "Cancel my reservation, please.",
    "你好，请用一句话介绍你自己。",
    'Answer in JSON with the keys "name" and "year".',
    "What is wrong with this line of Python: print('a' + 1)",
    "Translate 'good morning' into French, German and Spanish.",
)


def run(request: dict, host) -> dict:
    """Merges `adapter` (a folder) into `base` (None: the one that the adapter names), as the folder `output`.

    `dtype`: "bf16", "fp16", "fp32", None: as the base is stored. `force`: an `output` that an earlier merge made is
    replaced. `facts`: what goes into merge.json as it is. Raises UserError where nothing can be merged, and where what
    was written answers otherwise; then there is no output.
    """
    transformers_logging.disable_progress_bar()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of tied layers and more: what comes of them is proved
        return _merge(request)


def _merge(request: dict) -> dict:
    adapter, output = request["adapter"], Path(request["output"])
    source = check_adapter(adapter)
    adapter_config(source)  # LoRA, or a UserError
    base = check_base(request["base"] or adapter_base(source), adapter)
    weights = read_weights(source)
    base_dtype = stored_dtype(base)
    dtype = request["dtype"] or base_dtype
    recover(output)
    check_output(output, request["force"])
    check_space(output, base, dtype)
    tokenizer = load_tokenizer(source if (Path(source) / "tokenizer_config.json").is_file() else base)
    prompts = prompts_of(tokenizer)

    model = load_weights(base, torch.float32)
    rows = model.get_input_embeddings().weight.shape[0]
    if (highest := max(map(max, prompts))) >= rows:
        raise UserError(
            f"{adapter}: its tokenizer has tokens up to {highest}, but {base} has {rows} embeddings. "
            f"Name the base that it was trained on (--base)."
        )
    model = attach(model, source, weights, base)
    expected = logits_of(model, prompts)
    with model.disable_adapter():
        bare = logits_of(model, prompts)
    if not all(each.isfinite().all() for each in expected):
        raise UserError(f"{adapter} with {base} gives NaN or infinite logits: there is nothing to keep.")
    were_tied = model.get_base_model().config.get_text_config().tie_word_embeddings
    untie(model)
    model = merge_weights(model)
    untied = were_tied and no_longer_tied(model)
    largest = max(1.0, *(each.abs().max().item() for each in expected))

    def check(merged: list[torch.Tensor], stored_as: str) -> float:
        difference = farthest(expected, merged)
        if not difference <= TOLERANCE[stored_as] * largest:  # NaN is beyond it too
            raise UserError(
                f"{adapter}: merged into {base}, its logits differ by {difference:.3g}; {stored_as} may cost "
                f"{TOLERANCE[stored_as] * largest:.3g}. Nothing was written. Play base and adapter unmerged"
                f"{'.' if stored_as == 'fp32' else ', or take --dtype fp32.'}"
            )
        return difference

    check(logits_of(model, prompts), "fp32")  # before any rounding, so that rounding hides no fault of the merge
    model.to(PRECISIONS[dtype])
    if broken := [name for name, each in model.state_dict().items() if not each.isfinite().all()]:
        raise UserError(f"{adapter}: merged in {dtype}, {broken[0]} is no longer finite. Take --dtype bf16 or fp32.")
    generation = generation_config(source, base)

    with half_written(output) as half:
        model.generation_config = generation
        model.save_pretrained(half)
        tokenizer.save_pretrained(half)
        del model
        difference = check(logits_of(reload(half, dtype), prompts), dtype)
        proof = {
            "largest_logit_difference": difference,
            "tolerance": TOLERANCE[dtype] * largest,
            "adapter_effect": farthest(expected, bare),
            "prompts": len(prompts),
            "chat_template": bool(tokenizer.chat_template),
        }
        facts = {
            "base": base,
            "base_dtype": base_dtype,
            "adapter": adapter,
            "adapter_sha256": adapter_hash(source),
            "dtype": dtype,
            "untied_embeddings": untied,
            "trained_on": read_trained_on(source),
            **request["facts"],
            **proof,
            "versions": {name: metadata.version(name) for name in ("torch", "transformers", "peft")},
        }
        (half / MERGE_FILE).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    return {"output": str(output), **facts}


# ---------------------------------------------------------------------------------------------- what can be merged


def check_adapter(adapter: str) -> str:
    """The adapter's folder. Raises UserError where there is none."""
    source = find_model(adapter)
    if not is_adapter(source):
        raise UserError(f"{adapter} is a whole model, no adapter: there is nothing to merge.")
    return source


def check_base(base: str, adapter: str) -> str:
    """Where the base lies. Raises UserError for a quantised one: merged into rounded weights, an adapter answers
    otherwise than it was trained to, and the rounding stays (cases.md MG-03)."""
    source = find_model(base)
    if is_adapter(source):
        raise UserError(f"{base} is an adapter itself, and {adapter} can't be merged into it. Merge {base} first.")
    if quantized := getattr(load_model_config(base), "quantization_config", None):
        facts = quantized if isinstance(quantized, dict) else quantized.to_dict()
        method = facts.get("quant_method", "quantised")
        bits = "4 bits" if facts.get("load_in_4bit") else "8 bits" if facts.get("load_in_8bit") else "few bits"
        raise UserError(
            f"{base} is a quantised model ({getattr(method, 'value', method)}, {bits}): merging would keep its "
            f"rounding. Name the 16-bit model that it was made from: --base MODEL."
        )
    return source


def read_weights(source: str) -> dict[str, torch.Tensor]:
    """The adapter's tensors. Raises UserError where one is not finite."""
    from peft import load_peft_weights

    with loading(source, "adapter"):
        weights = load_peft_weights(source, device="cpu")
    if broken := [name for name, each in weights.items() if not each.isfinite().all()]:
        raise UserError(
            f"{source}: {len(broken)} of {len(weights)} tensors hold NaN or infinity, as {broken[0]}. "
            f"Take an earlier checkpoint."
        )
    return weights


def stored_dtype(base: str) -> str:
    """What most of a base's weights are stored as: its config may say otherwise."""
    counts: Counter[str] = Counter()
    for file in Path(base).glob("*.safetensors"):
        with safe_open(file, framework="pt") as opened:
            for name in opened.keys():  # noqa: SIM118
                part = opened.get_slice(name)
                counts[part.get_dtype()] += math.prod(part.get_shape())
    if not counts:  # on the hub, or in files of torch's own
        named = getattr(load_model_config(base), "dtype", None)
        return next((name for name, dtype in PRECISIONS.items() if dtype == named), "fp32")
    kind = counts.most_common(1)[0][0]
    if kind not in STORED:
        raise UserError(f"{base}: its weights are stored as {kind}; expected one of {', '.join(STORED)}.")
    return STORED[kind]


def attach(model: Any, source: str, weights: dict[str, torch.Tensor], base: str) -> Any:
    """Base and adapter, unmerged. Raises UserError where the adapter was made for another base."""
    from peft import PeftModel, get_peft_model_state_dict

    with loading(source, "adapter"):
        model = PeftModel.from_pretrained(model, source).eval()
    fits = get_peft_model_state_dict(model, save_embedding_layers=False).keys()
    missing = sorted(fits - weights.keys())
    surplus = sorted(name for name in weights.keys() - fits if not _whole_embedding(name))
    if missing or surplus:
        raise UserError(
            f"{source} was made for another base than {base}: {len(missing)} tensors that it would need are not in it, "
            f"and {len(surplus)} of its own have no place, as {(missing + surplus)[0]}. Name its base (--base)."
        )
    return model


def _whole_embedding(name: str) -> bool:
    """peft saves embeddings whole beside the adapter of a grown vocabulary."""
    return name.removesuffix(".weight").removesuffix(".base_layer").endswith(("embed_tokens", "lm_head"))


# ------------------------------------------------------------------------------------------------------- the merge


def untie(model: Any) -> None:
    """Gives the output head a matrix of its own where the adapter changes one of two layers that share one.

    Merged in place, the change would reach both (cases.md MG-01).
    """
    inside = model.get_base_model()
    first, last = inside.get_input_embeddings(), inside.get_output_embeddings()
    if last is None or not inside.config.get_text_config().tie_word_embeddings:
        return
    if not any(hasattr(layer, "base_layer") for layer in (first, last)):
        return  # a module that is saved whole has its own copy already
    while hasattr(last, "base_layer") or hasattr(last, "original_module"):
        last = last.base_layer if hasattr(last, "base_layer") else last.original_module
    last.weight = nn.Parameter(last.weight.detach().clone(), requires_grad=False)


def merge_weights(model: Any) -> Any:
    """The plain model with the adapter in its weights."""
    return model.merge_and_unload()


def no_longer_tied(model: Any) -> bool:
    """Whether input and output embeddings have a matrix each; then the config says so, and both are saved."""
    first, last = model.get_input_embeddings(), model.get_output_embeddings()
    if last is None or first.weight.data_ptr() == last.weight.data_ptr():
        return False
    for config in (model.config, model.config.get_text_config()):
        config.tie_word_embeddings = False
    model.all_tied_weights_keys = {}  # save_pretrained would leave the head out
    return True


def generation_config(source: str, base: str) -> GenerationConfig:
    """As the adapter was trained: where replies end is beside it."""
    for folder in (source, base):
        with contextlib.suppress(OSError):
            return GenerationConfig.from_pretrained(folder)
    return GenerationConfig()


def adapter_hash(source: str) -> str:
    """SHA-256 of the file with the adapter's weights."""
    file = next(
        path for path in sorted(Path(source).glob("adapter_model.*")) if path.suffix in (".safetensors", ".bin")
    )
    digest = hashlib.sha256()
    with file.open("rb") as opened:
        while chunk := opened.read(2**22):
            digest.update(chunk)
    return digest.hexdigest()


# ------------------------------------------------------------------------------------------------------- the proof


def prompts_of(tokenizer: Any) -> list[list[int]]:
    """Eight prompts as the model's own chat template writes them; plain text where it has none."""
    if not tokenizer.chat_template:
        return [tokenizer(text)["input_ids"] for text in PROMPTS]
    return [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], add_generation_prompt=True, tokenize=True, return_dict=False
        )
        for text in PROMPTS
    ]


@torch.no_grad()
def logits_of(model: Any, prompts: list[list[int]]) -> list[torch.Tensor]:
    """Logits at every place of every prompt, each (length, vocabulary)."""
    return [model(input_ids=torch.tensor([ids])).logits[0] for ids in prompts]


def farthest(some: list[torch.Tensor], others: list[torch.Tensor]) -> float:
    """Largest difference of two logits; NaN where one is none."""
    return max((a - b).abs().max().item() for a, b in zip(some, others, strict=True))


def reload(folder: Path, dtype: str) -> Any:
    """What was written, as a user's program reads it, then in 32 bits. Raises RuntimeError where it is not plain."""
    if left := sorted(path.name for path in folder.glob("adapter_*")):
        raise RuntimeError(f"{folder}: {left[0]} is in the merged folder.")
    AutoTokenizer.from_pretrained(folder)
    model, found = AutoModelForCausalLM.from_pretrained(folder, dtype="auto", output_loading_info=True)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if found[kind]:
            raise RuntimeError(f"{folder}: {kind} after loading it again, as {sorted(map(str, found[kind]))[0]}.")
    if model.dtype != PRECISIONS[dtype]:
        raise RuntimeError(f"{folder}: loaded again it is {model.dtype}, not {dtype}.")
    return model.float().eval()


# ------------------------------------------------------------------------------------------------------ the folder


def check_output(output: Path, force: bool) -> None:
    """Raises UserError where there is something that must not be replaced."""
    if not output.exists() or (output.is_dir() and not any(output.iterdir())):
        return
    if not force:
        raise UserError(f"{output} is there already. Choose another --out, or replace it with --force.")
    if not (output / MERGE_FILE).is_file():
        raise UserError(f"{output} was not made by merge (no {MERGE_FILE}), so --force does not replace it.")


def check_space(output: Path, base: str, dtype: str) -> None:
    """Raises UserError where the disk has no room for the model."""
    above = output.parent
    while not above.exists():
        above = above.parent
    with loading(base, "config.json"), torch.device("meta"):
        parameters = sum(
            each.numel() for each in AutoModelForCausalLM.from_config(load_model_config(base)).parameters()
        )
    needed, free = parameters * PRECISIONS[dtype].itemsize, shutil.disk_usage(above).free
    if needed > free:
        raise UserError(f"{output} needs {needed / 2**30:.1f} GiB, and its disk has {free / 2**30:.1f} GiB free.")


def recover(output: Path) -> None:
    """Puts in order what a killed merge left: half a model goes, a model that was just being replaced comes back."""
    half, old = _aside(output)
    shutil.rmtree(half, ignore_errors=True)
    if old.exists():
        if output.exists():
            shutil.rmtree(old)
        else:
            old.rename(output)


@contextlib.contextmanager
def half_written(output: Path) -> Iterator[Path]:
    """A folder beside `output` that becomes `output` when all is written and proved; else it goes."""
    half, old = _aside(output)
    try:
        half.mkdir(parents=True)
        yield half
        for path in half.iterdir():
            with path.open("rb") as file:
                os.fsync(file.fileno())
        if output.exists():
            output.rename(old)
        half.rename(output)
        shutil.rmtree(old, ignore_errors=True)
    except (OSError, SafetensorError) as error:
        raise UserError(f"{output} can't be written: {getattr(error, 'strerror', None) or error}.") from error
    finally:
        shutil.rmtree(half, ignore_errors=True)


def _aside(output: Path) -> tuple[Path, Path]:
    return output.with_name(f"{output.name}.tmp"), output.with_name(f"{output.name}.old")
