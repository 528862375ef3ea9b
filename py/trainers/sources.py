"""Where a model lies: a folder, an adapter's folder, or the hub; and what can be read of it without its weights."""

import contextlib
import difflib
import os
from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors import safe_open
from transformers import AutoConfig

HUB_TIMEOUT_S = 5


class UserError(ValueError):
    """The user's mistake, in a config, a path or data. Its message alone is shown."""


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

    with loading(source, "adapter_config.json"):
        base = PeftConfig.from_pretrained(source).base_model_name_or_path
    if not base:
        raise UserError(f"{source}/adapter_config.json names no base model (base_model_name_or_path).")
    try:
        return find_model(base)
    except UserError as error:
        raise UserError(f"{source} is an adapter, and its base is missing: {error}") from error


def load_model_config(model: str):
    """The transformers config of a model, without its weights."""
    source = find_model(model)
    base = adapter_base(source) if is_adapter(source) else source
    with loading(model, "config.json"):
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
            with loading(str(file), "header"), safe_open(file, framework="pt"):
                pass


@contextlib.contextmanager
def loading(model: str, part: str) -> Iterator[None]:
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
