"""Loads a policy: model, tokenizer and chat format, with precision and device by hardware. No other file does."""

import contextlib
import difflib
import os
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    TrainingArguments,
    set_seed,
)
from transformers.utils import logging as transformers_logging

from trainers.continuation import DialogueFormat, continuation_format
from trainers.tokens import ChatFormat

HUB_TIMEOUT_S = 5
# The usual attention and feed-forward projections of Llama-like models (arXiv.md 10.2 trains these).
LORA_TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
LORA_DEFAULTS = {"r": 16, "lora_alpha": 32, "lora_dropout": 0.05, "target_modules": LORA_TARGETS}


class UserError(ValueError):
    """The user's mistake, in a config, a path or data. Its message alone is shown."""


@dataclass
class Policy:
    """A model that can be sampled and trained, with what belongs to it."""

    model: PreTrainedModel  # or a PeftModel around one
    tokenizer: PreTrainedTokenizerBase
    chat: DialogueFormat
    device: torch.device
    dtype: torch.dtype  # of the computations; the weights of a fully trained model stay float32
    parameters: dict[str, int]  # total, trainable
    hardware: dict[str, Any]  # for the manifest
    engine: Any = None  # the vLLM that samples in the model's place; None: the model samples


def load_policy(request: dict, *, training: bool = True) -> Policy:
    """Loads the model that `request["model"]` names: a folder in Hugging Face format, an adapter's folder, or a hub id.

    Other keys: `seed`; optional `lora` (keys of peft's LoraConfig, None: all parameters are trained),
    `chat_template_kwargs`, `continuation` (texts of the continuation style, None: observations are messages),
    `device` ("cpu", "cuda", …) and `dtype` ("bfloat16", "float16", "float32").

    Raises UserError where there is no such model, within seconds also without a network, or where the keys do not fit.
    """
    set_seed(request.get("seed", 0))  # LoRA's first weights are random
    transformers_logging.disable_progress_bar()
    device = choose_device(request.get("device"))
    dtype = choose_dtype(device, request.get("dtype"))
    source = find_model(request["model"])
    lora = request.get("lora")
    tokenizer = load_tokenizer(request["model"])

    adapter = is_adapter(source)
    base = adapter_base(source) if adapter else source
    # The optimizer's small steps vanish in 16 bits, so weights under full training stay float32 and the trainer
    # computes in `dtype` by autocast. Frozen weights need no more than `dtype`; peft keeps adapters in float32.
    full = training and lora is None and not adapter
    model = _load_weights(base, torch.float32 if full else dtype)
    if adapter:
        model = _load_adapter(model, source, lora, training)
    elif lora is not None:
        model = _add_lora(model, lora)
    model.to(device)

    chat = chat_format(request, tokenizer, model.generation_config)
    if template := chat.kwargs.get("chat_template"):
        tokenizer.chat_template = template  # what is saved speaks as it was trained
    _agree_on_special_tokens(model, tokenizer, chat)
    if not training:
        model.eval()
    parameters = {
        "total": sum(parameter.numel() for parameter in model.parameters()),
        "trainable": sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad),
    }
    return Policy(model, tokenizer, chat, device, dtype, parameters, describe_hardware(device, dtype))


def load_tokenizer(model: str) -> PreTrainedTokenizerBase:
    """The tokenizer alone, with a pad token. An adapter's folder may lack one: then its base's is taken."""
    source = find_model(model)
    if is_adapter(source) and not (Path(source) / "tokenizer_config.json").is_file():
        source = adapter_base(source)
    with _loading(model, "tokenizer"):
        tokenizer = AutoTokenizer.from_pretrained(source)
    if len(tokenizer) <= len(set(tokenizer.all_special_tokens)):  # transformers makes an empty one where there is none
        raise UserError(f"{model}: its tokenizer knows no word; is tokenizer.json missing?")
    if tokenizer.pad_token is None:
        # Masks and labels are built token by token, so that pad = eos hides no end of turn from the loss.
        tokenizer.pad_token = tokenizer.eos_token
    if tokenizer.pad_token is None:
        raise UserError(
            f"{model}: its tokenizer has neither a pad nor an eos token; name one in tokenizer_config.json."
        )
    return tokenizer


def chat_format(request: dict, tokenizer: PreTrainedTokenizerBase, generation_config=None) -> DialogueFormat:
    """The format of `request["model"]` by `chat_template_kwargs` and `continuation`, as load_policy takes them.

    Raises UserError where the model's template is not fit for it.
    """
    model, kwargs = request["model"], request.get("chat_template_kwargs")
    if generation_config is None:
        source = find_model(model)
        try:
            generation_config = GenerationConfig.from_pretrained(source)
        except OSError:  # a folder without generation_config.json
            generation_config = GenerationConfig()
    try:
        eos_token_ids = generation_config.eos_token_id
        if continuation := request.get("continuation"):
            return continuation_format(tokenizer, kwargs, eos_token_ids=eos_token_ids, continuation=continuation)
        return ChatFormat(tokenizer, kwargs, eos_token_ids=eos_token_ids)
    except ValueError as error:
        raise UserError(f"{model}: {error}") from error


def load_model_config(model: str):
    """The transformers config of a model, without its weights."""
    source = find_model(model)
    base = adapter_base(source) if is_adapter(source) else source
    with _loading(model, "config.json"):
        return AutoConfig.from_pretrained(base)


def check_weights(model: str) -> None:
    """Raises UserError where a folder's weights are missing or cut off. Reads no more than their headers."""
    source = find_model(model)
    for folder in [Path(source), Path(adapter_base(source))] if is_adapter(source) else [Path(source)]:
        if not folder.is_dir():
            continue  # on the hub
        files = sorted(folder.glob("*.safetensors"))
        if not files and not any(folder.glob("*.bin")):
            raise UserError(f"{folder}: no weights are in this folder; expected *.safetensors, or *.bin.")
        for file in files:
            with _loading(str(file), "header"), safe_open(file, framework="pt"):
                pass


@contextlib.contextmanager
def _loading(model: str, part: str) -> Iterator[None]:
    """A UserError for whatever a library's loader raises; which classes those are is its affair, and changes."""
    try:
        yield
    except (UserError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise UserError(
            f"{model}: its {part} can't be loaded ({reason}). Is it whole, and for this version?"
        ) from error


def context_limit(config) -> int | None:
    """Positions that the model can attend to; None where its config names no limit."""
    return getattr(config.get_text_config(), "max_position_embeddings", None)


def find_model(model: str) -> str:
    """`model` as from_pretrained takes it, once it is sure to be there.

    Raises UserError within about 5 s, also where the network is gone and the loaders would retry for minutes.
    """
    folder = Path(model).expanduser()
    if folder.is_dir():
        if not any((folder / name).is_file() for name in ("config.json", "adapter_config.json")):
            raise UserError(
                f"{model}: neither config.json nor adapter_config.json is in this folder; expected a model in Hugging "
                f"Face format."
            )
        return str(folder)
    if folder.exists():
        raise UserError(
            f"{model} is a file; expected a folder in Hugging Face format, or a hub id like Qwen/Qwen3-0.6B."
        )
    if model.startswith((".", "/", "~")) or model.count("/") > 1 or model.endswith("/"):
        raise UserError(f"{model}: there is no such folder.{_nearby_folders(folder)}")

    from huggingface_hub import HfApi, try_to_load_from_cache
    from huggingface_hub import constants as hub
    from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError

    cached = any(
        isinstance(try_to_load_from_cache(model, name), str) for name in ("config.json", "adapter_config.json")
    )
    if hub.HF_HUB_OFFLINE:
        if cached:
            return model
        raise UserError(
            f"{model}: no such folder, and not in the hub cache, where HF_HUB_OFFLINE=1 keeps us. "
            f"Give a folder, or unset HF_HUB_OFFLINE.{_nearby_folders(folder)}"
        )
    try:
        HfApi().model_info(model, timeout=HUB_TIMEOUT_S)
    except (RepositoryNotFoundError, HFValidationError) as error:
        if not cached:
            raise UserError(
                f"{model}: no such folder, and the hub has no such model.{_nearby_folders(folder)}"
            ) from error
    except Exception as error:  # which classes a broken network raises is the HTTP client's affair, and changes
        if not cached:
            raise UserError(
                f"{model}: no such folder, and the hub cannot be reached ({type(error).__name__}). "
                f"Give a folder.{_nearby_folders(folder)}"
            ) from error
        # The cache has it: keep the loaders from retrying the network file by file.
        hub.HF_HUB_OFFLINE = True
        os.environ["HF_HUB_OFFLINE"] = "1"
    return model


def is_adapter(source: str) -> bool:
    """Whether a folder holds a LoRA adapter and not a whole model."""
    folder = Path(source)
    return (folder / "adapter_config.json").is_file() and not (folder / "config.json").is_file()


def adapter_base(source: str) -> str:
    """The base model of an adapter's folder."""
    from peft import PeftConfig

    with _loading(source, "adapter_config.json"):
        base = PeftConfig.from_pretrained(source).base_model_name_or_path
    if not base:
        raise UserError(f"{source}/adapter_config.json names no base model (base_model_name_or_path).")
    try:
        return find_model(base)
    except UserError as error:
        raise UserError(f"{source} is an adapter, and its base is missing: {error}") from error


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


def choose_dtype(device: torch.device, wanted: str | None = None) -> torch.dtype:
    """`wanted`, or by hardware: on CUDA bfloat16, on older CUDA float16, float32 elsewhere."""
    if wanted is not None:
        names = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
        if wanted not in names:
            raise UserError(f"dtype is '{wanted}'; expected one of {', '.join(names)}.")
        return names[wanted]
    if device.type != "cuda":
        return torch.float32
    return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16


def precision_arguments(policy: Policy, trainer: dict) -> dict:
    """Keys of TRL's config that hardware decides. What the user gave under `trainer` wins.

    TRL turns bf16 and gradient checkpointing on by default, which on a CPU is slow and gains nothing. bf16 that was
    asked for on a CPU without instructions for it, where it would be many times slower, becomes float32.
    """
    arguments: dict[str, Any] = {"use_cpu": policy.device.type == "cpu"}
    if not {"bf16", "fp16"} & trainer.keys():
        arguments |= {"bf16": policy.dtype == torch.bfloat16, "fp16": policy.dtype == torch.float16}
    elif trainer.get("bf16") and policy.device.type == "cpu" and not cpu_has_bf16():
        arguments["bf16"] = False
    if policy.device.type == "cpu" and "gradient_checkpointing" not in trainer:
        arguments["gradient_checkpointing"] = False
    return arguments


def cpu_has_bf16() -> bool:
    """Whether this CPU multiplies bfloat16 matrices by itself (AVX-512 BF16, AMX, or Arm's BF16)."""
    capabilities = torch.cpu.get_capabilities()
    return any(capabilities.get(name, False) for name in ("avx512_bf16", "amx_bf16", "arm_bf16", "bf16"))


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


def _load_weights(base: str, dtype: torch.dtype) -> PreTrainedModel:
    with _loading(base, "model"):
        model, loading = AutoModelForCausalLM.from_pretrained(base, dtype=dtype, output_loading_info=True)
    if missing := sorted(loading["missing_keys"]):  # the library makes them up, and warns
        raise UserError(
            f"{base}: {len(missing)} of the weights that its config.json asks for are not there, as {missing[0]}. "
            f"Take a whole causal language model whose config.json belongs to its weights."
        )
    return model


def _add_lora(model: PreTrainedModel, lora: dict):
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


def check_lora(model: str, lora: dict) -> None:
    """Raises UserError where LoRA's keys or target modules do not fit the model. No weights are read."""
    if not is_adapter(find_model(model)):
        with torch.device("meta"):
            _add_lora(AutoModelForCausalLM.from_config(load_model_config(model)), lora)


def _load_adapter(base: PreTrainedModel, source: str, lora: dict | None, training: bool):
    """Goes on with an adapter that was trained before: a second one on top of it would have to be merged by hand."""
    from peft import PeftModel

    with _loading(source, "adapter"):
        model = PeftModel.from_pretrained(base, source, is_trainable=training)
    rank = model.peft_config["default"].r
    if lora and lora.get("r", rank) != rank:
        raise UserError(
            f"{source} is an adapter of rank {rank}, and training goes on with it, but lora.r is {lora['r']}. "
            f"Leave lora out, or merge the adapter into its base first."
        )
    return model


def _agree_on_special_tokens(model, tokenizer: PreTrainedTokenizerBase, chat: DialogueFormat) -> None:
    """The saved model pads and stops as it was trained: every end-of-turn id ends a reply."""
    text_config = model.config.get_text_config()
    text_config.pad_token_id = tokenizer.pad_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    model.generation_config.eos_token_id = [chat.end_id, *sorted(chat.end_ids - {chat.end_id})]


def _nearby_folders(folder: Path) -> str:
    """Names what could have been meant, from the same parent folder."""
    parent = folder.parent
    if not parent.is_dir():
        return ""
    names = sorted(entry.name for entry in parent.iterdir() if (entry / "config.json").is_file())
    return f" Models in {parent}: {', '.join(names[:8])}." if names else ""


def did_you_mean(name: str, known: list[str]) -> str:
    """' Did you mean x?' with its leading space, or nothing where no known name is near."""
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f" Did you mean '{near[0]}'?" if near else ""
