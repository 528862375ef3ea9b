"""Merging: what is written answers as base and adapter do, or is not written."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from fake_host import FakeHost
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from trainers import merge
from trainers.model import UserError, load_policy
from transformers import AutoModelForCausalLM, AutoTokenizer

from tiny import tiny_model, tiny_tokenizer

SHAPE = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "max_position_embeddings": 256}


@pytest.fixture(scope="module")
def bases(tmp_path_factory):
    """Makes a base once: bases(tied, dtype)."""
    made = {}

    def build(tied=False, dtype=torch.float32, **shape):
        key = (tied, dtype, *shape.items())
        if key not in made:
            made[key] = folder = tmp_path_factory.mktemp("bases") / "base"
            tokenizer = tiny_tokenizer()
            model = tiny_model(tokenizer, end_rate=0, tie_word_embeddings=tied, **{**SHAPE, **shape})
            model.to(dtype).save_pretrained(folder)
            tokenizer.save_pretrained(folder)
        return made[key]

    return build


def adapter_of(base, folder: Path, scale=0.3, **lora) -> Path:
    """An adapter with random weights, as training leaves it."""
    torch.manual_seed(1)
    settings = {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj", "down_proj"], **lora}
    model = get_peft_model(AutoModelForCausalLM.from_pretrained(base), LoraConfig(task_type="CAUSAL_LM", **settings))
    with torch.no_grad():
        for each in model.parameters():
            if each.requires_grad:
                each.add_(scale * torch.randn_like(each))
    model.save_pretrained(folder)
    return folder


def request_of(adapter, output, **changes):
    asked = {"adapter": str(adapter), "base": None, "output": str(output), "dtype": None, "force": False}
    return {**asked, "facts": {"recipe": "grpo", "step": 3}, **changes}


def logits(model):
    with torch.no_grad():
        return model.eval()(input_ids=torch.arange(5, 25).view(1, 20)).logits.float()


def nothing_left(output: Path) -> bool:
    return not output.exists() and not list(output.parent.glob(f"{output.name}*"))


def test_the_merged_folder_answers_as_base_and_adapter_do_and_is_plain(bases, tmp_path):
    base = bases()
    adapter, output = adapter_of(base, tmp_path / "adapter"), tmp_path / "out" / "merged"
    result = merge.run(request_of(adapter, output), FakeHost())
    merged, found = AutoModelForCausalLM.from_pretrained(output, output_loading_info=True)
    assert not any(found[name] for name in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    bare = logits(AutoModelForCausalLM.from_pretrained(base))
    expected = logits(PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base), adapter))
    assert (logits(merged) - expected).abs().max() < 1e-5 < 0.1 < (logits(merged) - bare).abs().max()
    facts = json.loads((output / "merge.json").read_text())
    assert {**facts, "output": str(output)} == result
    assert facts["base"] == str(base) and facts["adapter"] == str(adapter) and len(facts["adapter_sha256"]) == 64
    assert facts["dtype"] == facts["base_dtype"] == "fp32" and facts["recipe"] == "grpo" and facts["step"] == 3
    assert facts["largest_logit_difference"] < 1e-5 < facts["adapter_effect"] and facts["prompts"] == 8
    assert facts["chat_template"] and facts["trained_on"] is None and not facts["untied_embeddings"]
    names = {path.name for path in output.iterdir()}
    assert not [name for name in names if "adapter" in name] and {"config.json", "model.safetensors"} <= names
    assert json.loads((output / "config.json").read_text())["architectures"] == ["Qwen2ForCausalLM"]
    assert AutoTokenizer.from_pretrained(output).chat_template == AutoTokenizer.from_pretrained(base).chat_template
    assert load_policy({"model": str(output), "seed": 0}, training=False).chat.end_ids
    assert not list(output.parent.glob("*.tmp"))


@pytest.mark.parametrize(
    ("lora", "unties"),
    [
        ({}, False),
        ({"target_modules": ["lm_head", "q_proj"]}, True),
        ({"target_modules": ["embed_tokens", "q_proj"]}, True),
        ({"target_modules": ["embed_tokens", "lm_head"]}, True),
        ({"target_modules": ["embed_tokens", "q_proj"], "ensure_weight_tying": True}, True),
        ({"modules_to_save": ["embed_tokens"], "ensure_weight_tying": True}, False),
        ({"modules_to_save": ["lm_head"]}, True),
        ({"modules_to_save": ["embed_tokens"]}, True),
        ({"modules_to_save": ["lm_head", "embed_tokens"]}, True),
        ({"modules_to_save": ["norm"]}, False),
        ({"target_modules": "all-linear", "use_rslora": True}, False),
        ({"use_dora": True}, False),
    ],
)
@pytest.mark.parametrize("tied", [True, False])
def test_mg_01_tied_embeddings_and_modules_saved_whole(bases, tmp_path, lora, unties, tied):
    base = bases(tied)
    adapter, output = adapter_of(base, tmp_path / "adapter", scale=0.1, **lora), tmp_path / "merged"
    expected = logits(PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base), adapter))
    result = merge.run(request_of(adapter, output), FakeHost())
    merged = AutoModelForCausalLM.from_pretrained(output)
    assert (logits(merged) - expected).abs().max() < 1e-5
    assert result["untied_embeddings"] is (tied and unties)
    shared = merged.get_input_embeddings().weight is merged.get_output_embeddings().weight
    assert shared is merged.config.tie_word_embeddings is (tied and not unties)


@pytest.mark.parametrize(
    ("stored", "asked", "written"),
    [
        (torch.bfloat16, None, torch.bfloat16),
        (torch.float16, None, torch.float16),
        (torch.bfloat16, "fp32", torch.float32),
        (torch.float32, "bf16", torch.bfloat16),
    ],
)
def test_mg_04_the_output_is_stored_as_its_base_or_as_asked(bases, tmp_path, stored, asked, written):
    base = bases(dtype=stored)
    adapter, output = adapter_of(base, tmp_path / "adapter"), tmp_path / "merged"
    assert {each.dtype for each in load_file(adapter / "adapter_model.safetensors").values()} == {torch.float32}
    result = merge.run(request_of(adapter, output, dtype=asked), FakeHost())
    assert {each.dtype for each in load_file(output / "model.safetensors").values()} == {written}
    assert json.loads((output / "config.json").read_text())["dtype"] == str(written).removeprefix("torch.")
    assert 0 <= result["largest_logit_difference"] <= result["tolerance"]
    if written == stored:
        sizes = [(folder / "model.safetensors").stat().st_size for folder in (base, output)]
        assert sizes[0] == pytest.approx(sizes[1], rel=0.02)


def refused(request, says) -> None:
    with pytest.raises(UserError, match=says):
        merge.run(request, FakeHost())


def test_mg_03_a_quantised_base_is_refused_by_name_and_a_16_bit_one_is_taken(bases, tmp_path):
    base = bases()
    four = tmp_path / "four"
    shutil.copytree(base, four)
    config = json.loads((four / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "bitsandbytes", "load_in_4bit": True}
    (four / "config.json").write_text(json.dumps(config))
    adapter, output = adapter_of(base, tmp_path / "adapter"), tmp_path / "merged"
    settings = json.loads((adapter / "adapter_config.json").read_text())
    (adapter / "adapter_config.json").write_text(json.dumps({**settings, "base_model_name_or_path": str(four)}))
    (adapter / "trained_on.json").write_text('{"dtype": "bfloat16", "quantization": "nf4"}')
    refused(request_of(adapter, output), r"four is a quantised model \(bitsandbytes, 4 bits\).*--base MODEL")
    assert nothing_left(output)
    result = merge.run(request_of(adapter, output, base=str(base)), FakeHost())
    assert result["trained_on"]["quantization"] == "nf4" and result["base"] == str(base)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_mg_09_an_adapter_with_nan_is_refused(bases, tmp_path, value):
    adapter, output = adapter_of(bases(), tmp_path / "adapter"), tmp_path / "merged"
    weights = load_file(adapter / "adapter_model.safetensors")
    next(iter(weights.values())).view(-1)[3] = value
    save_file(weights, adapter / "adapter_model.safetensors")
    refused(request_of(adapter, output), "1 of 12 tensors hold NaN or infinity")
    assert nothing_left(output)


@pytest.mark.parametrize(
    ("shape", "says"),
    [
        ({"hidden_size": 64}, "adapter can't be loaded"),
        ({"num_hidden_layers": 1}, "made for another base.*6 of its own have no place"),
        ({"num_hidden_layers": 3}, "made for another base.*6 tensors that it would need are not in it"),
    ],
)
def test_an_adapter_of_another_base_is_refused(bases, tmp_path, shape, says):
    adapter, output = adapter_of(bases(), tmp_path / "adapter"), tmp_path / "merged"
    refused(request_of(adapter, output, base=str(bases(**shape))), says)
    assert nothing_left(output)


def test_what_is_no_adapter_or_no_base(bases, tmp_path):
    base = bases()
    adapter, output = adapter_of(base, tmp_path / "adapter"), tmp_path / "merged"
    refused(request_of(base, output), "is a whole model, no adapter")
    refused(request_of(adapter, output, base=str(adapter)), "is an adapter itself")
    refused(request_of(adapter, output, base=str(tmp_path / "gone")), "no such folder")
    (adapter / "adapter_model.safetensors").write_bytes(b"x")
    refused(request_of(adapter, output), "adapter can't be loaded")
    (adapter / "adapter_model.safetensors").unlink()
    refused(request_of(adapter, output), "adapter can't be loaded")
    assert nothing_left(output)


def test_an_output_is_replaced_only_when_asked_and_only_one_of_ours(bases, tmp_path):
    base = bases()
    adapter, output = adapter_of(base, tmp_path / "adapter"), tmp_path / "merged"
    output.mkdir()
    merge.run(request_of(adapter, output), FakeHost())  # an empty folder holds nothing to lose
    first = load_file(output / "model.safetensors")
    other = adapter_of(base, tmp_path / "other", scale=0.5)
    refused(request_of(other, output), "is there already.*--force")
    assert torch.equal(next(iter(load_file(output / "model.safetensors").values())), next(iter(first.values())))
    merge.run(request_of(other, output, force=True), FakeHost())
    second = load_file(output / "model.safetensors")
    assert any(not torch.equal(first[name], second[name]) for name in first)
    assert [path.name for path in tmp_path.glob("merged*")] == ["merged"]
    (output / "merge.json").unlink()
    refused(request_of(other, output, force=True), "was not made by merge")
    assert (output / "model.safetensors").is_file()


def test_what_answers_otherwise_than_base_and_adapter_is_not_written(bases, tmp_path, monkeypatch):
    adapter, output = adapter_of(bases(), tmp_path / "adapter"), tmp_path / "merged"
    monkeypatch.setattr(merge, "merge_weights", lambda model: model.unload())  # forgets the adapter
    refused(request_of(adapter, output), r"its logits differ by \d.*Nothing was written")
    assert nothing_left(output)


def test_a_model_that_overflows_float16_is_refused(bases, tmp_path):
    adapter = adapter_of(bases(), tmp_path / "adapter", lora_alpha=10_000_000)
    refused(request_of(adapter, tmp_path / "merged", dtype="fp16"), "merged in fp16.*no longer finite")
    assert nothing_left(tmp_path / "merged")


def test_a_full_disk_is_seen_before_the_model_loads(bases, tmp_path, monkeypatch):
    adapter = adapter_of(bases(), tmp_path / "adapter")
    monkeypatch.setattr(merge.shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(2**40, 2**40, 1000))
    refused(request_of(adapter, tmp_path / "deep" / "merged"), "needs 0.0 GiB, and its disk has 0.0 GiB free")
    assert not (tmp_path / "deep").exists()


def in_a_process(request, before: str) -> subprocess.Popen:
    """Merges in a process of its own, after the lines of `before`."""
    script = (
        "import json, sys, time\nimport torch\ntorch.set_num_threads(1)\nfrom fake_host import FakeHost\n"
        f"from trainers import merge\n{before}\n"
        "try:\n    merge.run(json.loads(sys.argv[1]), FakeHost())\n"
        "except merge.UserError as error:\n    sys.exit(f'UserError: {error}')\n"
    )
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": f"{root / 'py'}:{root / 'py' / 'tests'}"}
    return subprocess.Popen(
        [sys.executable, "-c", script, json.dumps(request)], env=environment, stderr=subprocess.PIPE, text=True
    )


def test_a_write_that_the_system_cuts_off_leaves_nothing(bases, tmp_path):
    adapter, output = adapter_of(bases(), tmp_path / "adapter"), tmp_path / "merged"
    limit = "import resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    limit += "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))"
    process = in_a_process(request_of(adapter, output), limit)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 1 and "UserError" in stderr and "merged can't be written" in stderr
    assert nothing_left(output)


@pytest.mark.parametrize("replaces", [False, True])
def test_a_merge_that_is_killed_leaves_no_half_model_and_can_be_run_again(bases, tmp_path, replaces):
    adapter, output = adapter_of(bases(), tmp_path / "adapter"), tmp_path / "merged"
    request = request_of(adapter, output, force=replaces)
    if replaces:
        merge.run(request, FakeHost())
        # Killed between the two renames: the old model has been put aside, the new one is not yet there.
        wait = (
            "rename = merge.Path.rename\nmerge.Path.rename = lambda *a: (rename(*a), print(flush=True), time.sleep(99))"
        )
        there = lambda: (tmp_path / "merged.old").exists()  # noqa: E731
    else:
        wait = "merge.reload = lambda *a: time.sleep(99)"  # all is written and nothing proved
        there = lambda: (tmp_path / "merged.tmp" / "tokenizer_config.json").exists()  # noqa: E731
    process = in_a_process(request, wait)
    begin = time.time()
    while not there():
        assert process.poll() is None, process.stderr.read()
        assert time.time() - begin < 120
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stderr.close()
    assert not output.exists(), "no half model under the name of a whole one"
    result = merge.run({**request, "force": False} if not replaces else request, FakeHost())
    assert result["largest_logit_difference"] < 1e-5
    assert [path.name for path in tmp_path.glob("merged*")] == ["merged"]


def test_a_model_that_was_being_replaced_comes_back_where_the_new_one_is_refused(bases, tmp_path):
    adapter, output = adapter_of(bases(), tmp_path / "adapter"), tmp_path / "merged"
    merge.run(request_of(adapter, output), FakeHost())
    output.rename(tmp_path / "merged.old")
    refused(request_of(adapter, output), "is there already")
    assert (output / "merge.json").is_file() and not (tmp_path / "merged.old").exists()


def test_without_a_chat_template_the_prompts_are_plain_text(bases, tmp_path):
    base = tmp_path / "base"
    shutil.copytree(bases(), base)
    (base / "chat_template.jinja").unlink()
    result = merge.run(request_of(adapter_of(base, tmp_path / "adapter"), tmp_path / "merged"), FakeHost())
    assert result["chat_template"] is False and result["largest_logit_difference"] < 1e-5
