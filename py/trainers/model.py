"""Loads a policy: model, tokenizer and chat format, with precision and device by hardware. No other file does."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    set_seed,
)
from transformers.utils import logging as transformers_logging

from trainers.adapters import (
    add_lora,
    check_lora,
    check_trainable,
    fallback_sentence,
    load_adapter,
    load_in_4_bits,
    qlora_problems,
    quantization_problem,
)
from trainers.chat_templates import template_kwargs
from trainers.continuation import DialogueFormat, continuation_format
from trainers.precision import (
    asked_precision,
    choose_device,
    choose_dtype,
    choose_optimizer,
    describe_hardware,
    on_one_device,
    peak_memory_gib,
    precision_arguments,
    precision_problems,
)
from trainers.sources import (
    UserError,
    adapter_base,
    check_weights,
    context_limit,
    did_you_mean,
    find_model,
    is_adapter,
    load_model_config,
    loading,
)
from trainers.tokens import ChatFormat

# What belongs to a policy, for those who load one: they need to know this file alone.
__all__ = [
    "Policy",
    "UserError",
    "chat_format",
    "check_lora",
    "check_weights",
    "choose_device",
    "choose_dtype",
    "context_limit",
    "did_you_mean",
    "find_model",
    "is_adapter",
    "load_model_config",
    "load_policy",
    "load_tokenizer",
    "load_weights",
    "on_one_device",
    "peak_memory_gib",
    "precision_arguments",
]


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
    optim: str | None = None  # what hardware makes of trainer.optim; None: nothing
    engine: Any = None  # the vLLM that samples in the model's place; None: the model samples


def load_policy(request: dict, *, training: bool = True) -> Policy:
    """Loads the model that `request["model"]` names: a folder in Hugging Face format, an adapter's folder, or a hub id.

    Other keys: `seed`; optional `lora` (keys of peft's LoraConfig, None: all parameters are trained), `qlora` (its base
    in 4 bits), `precision` ("auto", "bf16", "fp16", "fp32"), `trainer` (keys of TRL's config, read for bf16, fp16 and
    optim), `chat_template` (of a shipped name or a file, in place of the model's own), `chat_template_kwargs`, `tools`
    (function schemas for the template), `continuation` (texts of the continuation style, None: observations are
    messages) and `device` ("cpu", "cuda", …).

    Raises UserError where there is no such model, within seconds also without a network, or where the keys do not fit.
    """
    problems = [*precision_problems(request)[0], *qlora_problems(request)[0]] if training else []
    if problems:
        raise UserError(" ".join(problems))
    set_seed(request.get("seed", 0))  # LoRA's first weights are random
    transformers_logging.disable_progress_bar()
    device = choose_device(request.get("device"))
    dtype = choose_dtype(device, asked_precision(request))
    source = find_model(request["model"])
    lora = request.get("lora")
    tokenizer = load_tokenizer(request["model"])

    adapter = is_adapter(source)
    base = adapter_base(source) if adapter else source
    qlora = training and request.get("qlora", False)
    if qlora and lora is None and not adapter:
        raise UserError("qlora trains an adapter on a frozen base in 4 bits; set lora too, as {}.")
    missing = quantization_problem() if qlora else None
    quantization = "nf4" if qlora and missing is None else None
    # The optimizer's small steps vanish in 16 bits, so weights under full training stay float32 and the trainer
    # computes in `dtype` by autocast. Frozen weights need no more than `dtype`; peft keeps adapters in float32.
    full = training and lora is None and not adapter
    model = load_weights(base, torch.float32 if full else dtype, device if quantization else None)
    if adapter:
        model = load_adapter(model, source, lora, training)
    elif lora is not None:
        model = add_lora(model, lora)
    if training and not full:
        check_trainable(model)
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
    optim = choose_optimizer(request.get("trainer") or {}, quantization) if training else None
    hardware = {
        **describe_hardware(device, dtype),
        "quantization": quantization,
        "quantization_why": fallback_sentence(missing, dtype) if missing else None,
        "optim": optim,
    }
    return Policy(model, tokenizer, chat, device, dtype, parameters, hardware, optim)


def load_tokenizer(model: str) -> PreTrainedTokenizerBase:
    """The tokenizer alone, with a pad token. An adapter's folder may lack one: then its base's is taken."""
    source = find_model(model)
    if is_adapter(source) and not (Path(source) / "tokenizer_config.json").is_file():
        source = adapter_base(source)
    with loading(model, "tokenizer"):
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
    """The format of `request["model"]` by `chat_template`, `chat_template_kwargs`, `tools` and `continuation`, as
    load_policy takes them.

    Raises UserError where the model's template is not fit for it.
    """
    model, kwargs = request["model"], template_kwargs(request)
    tools = request.get("tools")
    if generation_config is None:
        source = find_model(model)
        try:
            generation_config = GenerationConfig.from_pretrained(source)
        except OSError:  # a folder without generation_config.json
            generation_config = GenerationConfig()
    try:
        eos_token_ids = generation_config.eos_token_id
        if continuation := request.get("continuation"):
            return continuation_format(
                tokenizer, kwargs, eos_token_ids=eos_token_ids, continuation=continuation, tools=tools
            )
        return ChatFormat(tokenizer, kwargs, eos_token_ids=eos_token_ids, tools=tools)
    except ValueError as error:
        raise UserError(f"{model}: {error}") from error


def load_weights(base: str, dtype: torch.dtype, in_4_bits_on: torch.device | None = None) -> PreTrainedModel:
    """The bare model of `base`, all of whose weights are there. Raises UserError where they are not."""
    with loading(base, "model"):
        if in_4_bits_on is not None:
            model, found = load_in_4_bits(base, in_4_bits_on, dtype)
        else:
            model, found = AutoModelForCausalLM.from_pretrained(base, dtype=dtype, output_loading_info=True)
    if missing := sorted(found["missing_keys"]):  # the library makes them up, and warns
        raise UserError(
            f"{base}: {len(missing)} of the weights that its config.json asks for are not there, as {missing[0]}. "
            f"Take a whole causal language model whose config.json belongs to its weights."
        )
    return model


def _agree_on_special_tokens(model, tokenizer: PreTrainedTokenizerBase, chat: DialogueFormat) -> None:
    """The saved model pads and stops as it was trained: every end-of-turn id ends a reply."""
    text_config = model.config.get_text_config()
    text_config.pad_token_id = tokenizer.pad_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    model.generation_config.eos_token_id = [chat.end_id, *sorted(chat.end_ids - {chat.end_id})]
