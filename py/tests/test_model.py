"""Loading a policy: where it comes from, in which precision, and what is said where there is none."""

import json
import shutil
import subprocess
import sys
import time

import pytest
import torch
from trainers.adapters import LORA_TARGETS
from trainers.model import (
    UserError,
    check_weights,
    choose_device,
    find_model,
    load_model_config,
    load_policy,
    load_tokenizer,
)
from transformers import AutoTokenizer


def test_a_folder_gives_a_policy_that_fits_together(tiny_folder):
    policy = load_policy({"model": str(tiny_folder), "seed": 0})
    assert policy.device.type in ("cpu", "cuda", "mps")
    assert policy.parameters["total"] == policy.parameters["trainable"] > 0
    assert policy.tokenizer.pad_token_id == policy.model.config.pad_token_id
    assert set(policy.model.generation_config.eos_token_id) == policy.chat.end_ids
    assert policy.hardware["device"] == policy.device.type and policy.hardware["cpu_threads"] >= 1
    json.dumps(policy.hardware)


def test_a_policy_to_play_with_is_in_evaluation_mode(tiny_folder):
    assert not load_policy({"model": str(tiny_folder), "seed": 0}, training=False).model.training


def test_the_seed_decides_the_adapters_first_weights(tiny_folder):
    def first(seed):
        policy = load_policy({"model": str(tiny_folder), "seed": seed, "lora": {"r": 2}})
        return next(each for name, each in policy.model.named_parameters() if "lora_A" in name)

    assert torch.equal(first(1), first(1)) and not torch.equal(first(1), first(2))


def test_lora_defaults_and_mistakes(tiny_folder):
    policy = load_policy({"model": str(tiny_folder), "seed": 0, "lora": {}})
    config = policy.model.peft_config["default"]
    assert (config.r, config.lora_alpha, config.lora_dropout) == (16, 32, 0.05)
    assert set(config.target_modules) == set(LORA_TARGETS)
    assert all(("lora_" in name) == each.requires_grad for name, each in policy.model.named_parameters())
    with pytest.raises(UserError, match=r"lora\.rank.*LoraConfig"):
        load_policy({"model": str(tiny_folder), "seed": 0, "lora": {"rank": 4}})
    with pytest.raises(UserError, match=r"target_modules.*all-linear"):
        load_policy({"model": str(tiny_folder), "seed": 0, "lora": {"target_modules": ["c_attn"]}})


def test_a_missing_folder_names_what_stands_beside_it(tiny_folder):
    with pytest.raises(UserError, match=f"no such folder.*{tiny_folder.name}"):
        find_model(str(tiny_folder.parent / "tinny"))


def test_a_file_and_a_folder_without_a_model_are_told_apart(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="is a file"):
        find_model(str(tmp_path / "file"))
    with pytest.raises(UserError, match=r"neither config.json nor adapter_config.json"):
        find_model(str(tmp_path))


def test_an_adapter_without_its_base_says_so(tmp_path):
    (tmp_path / "adapter_config.json").write_text(
        json.dumps({"peft_type": "LORA", "base_model_name_or_path": str(tmp_path / "gone")})
    )
    with pytest.raises(UserError, match="is an adapter, and its base is missing"):
        load_policy({"model": str(tmp_path), "seed": 0})


@pytest.mark.parametrize("environment", [{"HF_HUB_OFFLINE": "1"}, {"HF_ENDPOINT": "http://127.0.0.1:9"}])
def test_ln_09_a_hub_id_that_cannot_be_had_fails_within_10_seconds(environment, tmp_path):
    script = (
        "import time\nfrom trainers.model import UserError, find_model\nbegin = time.time()\n"
        "try:\n    find_model('some-org/some-model')\nexcept UserError as error:\n"
        "    print(time.time() - begin, error)\n"
    )
    # PATH alone: whatever proxies and caches this machine has, the hub is out of reach.
    environment = {"PATH": "/usr/bin:/bin", "HF_HOME": str(tmp_path), "PYTHONPATH": "py", **environment}
    begin = time.time()
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, timeout=120)
    took, _, message = done.stdout.partition(" ")
    assert "some-org/some-model: no such folder" in message, done.stderr
    assert float(took) < 10 and time.time() - begin < 60


def test_pad_falls_back_to_eos(tiny_folder, tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(tiny_folder)
    tokenizer.pad_token = None
    tokenizer.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text((tiny_folder / "config.json").read_text())
    loaded = load_tokenizer(str(tmp_path))
    assert loaded.pad_token == loaded.eos_token is not None


def test_a_device_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert choose_device().type == "cpu"
    with pytest.raises(UserError, match="sees no CUDA device"):
        choose_device("cuda")


def copy_of(folder, tmp_path, **files):
    """A copy of a model's folder with files replaced, or left out where None."""
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    for name, content in files.items():
        path = next(copy.glob(f"{name}.*"))
        path.unlink() if content is None else path.write_bytes(content)
    return str(copy)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"model": None}, r"no weights are in this folder"),
        ({"model": b""}, r"model.safetensors: its header can't be loaded"),
        ({"model": b"x" * 1000}, r"model.safetensors: its header can't be loaded"),
    ],
)
def test_weights_that_are_not_whole_are_found_before_they_load(tiny_folder, tmp_path, files, message):
    broken = copy_of(tiny_folder, tmp_path, **files)
    with pytest.raises(UserError, match=message):
        check_weights(broken)
    with pytest.raises(UserError, match="its model can't be loaded"):
        load_policy({"model": broken, "seed": 0})


def test_weights_that_were_cut_off_are_found_before_they_load(tiny_folder, tmp_path):
    whole = (tiny_folder / "model.safetensors").read_bytes()
    with pytest.raises(UserError, match="its header can't be loaded"):
        check_weights(copy_of(tiny_folder, tmp_path, model=whole[:-10]))
    check_weights(str(tiny_folder))


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"model_type": "zork"}'])
def test_a_config_that_is_none_is_the_users_mistake(tiny_folder, tmp_path, content):
    broken = copy_of(tiny_folder, tmp_path, config=content)
    with pytest.raises(UserError, match=r"config\.json can't be loaded"):
        load_model_config(broken)
    with pytest.raises(UserError, match="can't be loaded"):
        load_policy({"model": broken, "seed": 0})


def test_weights_that_the_library_would_make_up_are_refused(tiny_folder, tmp_path):
    config = json.loads((tiny_folder / "config.json").read_text())
    config["num_hidden_layers"] += 1
    config.pop("layer_types", None)
    broken = copy_of(tiny_folder, tmp_path, config=json.dumps(config).encode())
    with pytest.raises(
        UserError, match=r"of the weights that its config\.json asks for are not there, as model\.layers"
    ):
        load_policy({"model": broken, "seed": 0})


@pytest.mark.parametrize("content", [None, b"{}", b"{"])
def test_a_tokenizer_that_is_none_is_the_users_mistake(tiny_folder, tmp_path, content):
    broken = copy_of(tiny_folder, tmp_path, tokenizer=content)
    with pytest.raises(UserError, match="its tokenizer"):
        load_tokenizer(broken)
