"""Precision and optimizers by hardware: what is chosen, what is refused, what becomes another one and says so."""

import pytest
import torch
from fake_host import FakeHost
from trainers import precision, preflight
from trainers.model import UserError, load_policy
from trainers.precision import (
    BITSANDBYTES_OPTIMIZERS,
    OPTIMIZER_PACKAGES,
    asked_precision,
    choose_dtype,
    choose_optimizer,
    optimizer_problems,
    precision_arguments,
    precision_problems,
)
from transformers.training_args import OptimizerNames

CPU, CUDA, MPS = (torch.device(name) for name in ("cpu", "cuda", "mps"))


@pytest.mark.parametrize(
    ("device", "has_bf16", "wanted", "dtype"),
    [
        (CPU, True, "auto", torch.float32),
        (CPU, True, "bf16", torch.bfloat16),
        (CPU, False, "bf16", torch.float32),  # many times slower there
        (CPU, True, "fp32", torch.float32),
        (MPS, True, "auto", torch.float32),
        (MPS, True, "bf16", torch.float32),
        (CUDA, True, "auto", torch.bfloat16),
        (CUDA, False, "auto", torch.float16),
        (CUDA, True, "fp16", torch.float16),
        (CUDA, False, "fp32", torch.float32),
        (CUDA, False, "bf16", "precision is bf16, which this GPU does not have"),
        (CPU, True, "fp16", "precision is fp16, which trains on CUDA only, not on cpu"),
        (MPS, True, "fp16", "not on mps"),
        (CPU, True, "int8", "precision is 'int8'; expected one of auto, bf16, fp16, fp32"),
    ],
)
def test_precision_follows_the_hardware(monkeypatch, device, has_bf16, wanted, dtype):
    monkeypatch.setattr(precision, "cpu_has_bf16", lambda: has_bf16)
    monkeypatch.setattr(precision, "cuda_has_bf16", lambda: has_bf16)
    if isinstance(dtype, str):
        with pytest.raises(UserError, match=dtype):
            choose_dtype(device, wanted)
    else:
        assert choose_dtype(device, wanted) == dtype


@pytest.mark.parametrize(
    ("asked", "trainer", "meant"),
    [
        ("auto", {}, "auto"),
        ("auto", {"bf16": True}, "bf16"),
        ("auto", {"fp16": True}, "fp16"),
        ("auto", {"bf16": False}, "fp32"),
        ("auto", {"bf16": False, "fp16": True}, "fp16"),
        ("auto", {"fp16": False}, "auto"),
        (None, {"bf16": None}, "auto"),
        ("fp32", {}, "fp32"),
        ("bf16", {"bf16": True, "fp16": False}, "bf16"),
    ],
)
def test_precision_and_trls_own_keys_mean_one_thing(monkeypatch, asked, trainer, meant):
    assert asked_precision({"precision": asked, "trainer": trainer}) == meant


@pytest.mark.parametrize(
    ("asked", "trainer", "says"),
    [
        ("auto", {"bf16": True, "fp16": True}, "trainer.bf16 and trainer.fp16 are both true"),
        ("bf16", {"bf16": False}, "precision is bf16, but trainer.bf16 is false"),
        ("bf16", {"fp16": True}, "precision is bf16, but trainer.fp16 is true"),
        ("fp32", {"bf16": True}, "precision is fp32, but trainer.bf16 is true"),
        ("fp16", {}, "precision is fp16, which trains on CUDA only"),
        ("auto", {"optim": "lion_8bit"}, "trainer.optim is lion_8bit, but there is no CUDA GPU. Set --optim"),
        ("auto", {"optim": "galore_adamw"}, "needs the package galore_torch, which is not installed"),
    ],
)
def test_contradictions_are_refused_by_preflight_and_before_a_model_loads(tiny_folder, asked, trainer, says):
    request = {"model": str(tiny_folder), "device": "cpu", "precision": asked, "trainer": trainer}
    assert any(says in problem for problem in precision_problems(request)[0])
    with pytest.raises(UserError) as caught:
        load_policy({**request, "model": "there/is/no/such/model"})
    assert says in str(caught.value)
    empty = {"chat_template_kwargs": {}, "gold": [], "budgets": {}}
    result = preflight.run({"recipe": "sft", "lora": None, **request, **empty}, FakeHost())
    trls_words = "At most one of fp16 and bf16"  # TRL's own check comes first
    assert any(says in problem or trls_words in problem for problem in result["problems"])


def test_bf16_on_a_cpu_without_it_becomes_fp32_and_says_so(monkeypatch):
    monkeypatch.setattr(precision, "cpu_has_bf16", lambda: False)
    problems, (warning,) = precision_problems({"device": "cpu", "precision": "bf16"})
    assert problems == [] and "no instructions" in warning and "fp32" in warning
    assert precision_problems({"device": "cpu", "trainer": {"bf16": True}}) == ([], []), "configs say it for all"


@pytest.mark.parametrize("asked", [{}, {"precision": "bf16"}, {"trainer": {"bf16": True}}])
def test_weights_and_autocast_follow_one_precision(tiny_folder, monkeypatch, asked):
    monkeypatch.setattr(precision, "cpu_has_bf16", lambda: True)
    request = {"model": str(tiny_folder), "seed": 0, "device": "cpu", **asked}
    full, lora = load_policy(request), load_policy({**request, "lora": {"r": 2}})
    dtype = torch.bfloat16 if asked else torch.float32
    assert full.dtype == lora.dtype == dtype
    assert {each.dtype for each in full.model.parameters()} == {torch.float32}, "small steps vanish in 16 bits"
    assert {each.dtype for each in lora.model.parameters() if not each.requires_grad} == {dtype}
    assert {each.dtype for each in lora.model.parameters() if each.requires_grad} == {torch.float32}
    assert precision_arguments(full, request.get("trainer", {})) == {
        "use_cpu": True,
        "bf16": bool(asked),
        "fp16": False,
        "gradient_checkpointing": False,
    }
    assert "gradient_checkpointing" not in precision_arguments(full, {"gradient_checkpointing": True})


def test_every_optimizer_of_transformers_that_needs_a_package_is_known():
    names = [each.value for each in OptimizerNames]
    own = {"adamw_torch", "adamw_torch_fused", "adafactor", "sgd", "adagrad", "rmsprop"}
    known = {name for name in names if name.startswith(tuple(OPTIMIZER_PACKAGES))} | set(BITSANDBYTES_OPTIMIZERS)
    assert set(names) - known == own


def test_adamw_of_bitsandbytes_becomes_torchs_and_trains(tiny_folder, monkeypatch):
    problems, (warning,) = optimizer_problems({"optim": "paged_adamw_8bit"})
    assert problems == [] and "training with adamw_torch_fused instead" in warning
    request = {"model": str(tiny_folder), "seed": 0, "device": "cpu", "trainer": {"optim": "paged_adamw_8bit"}}
    policy = load_policy(request)
    assert precision_arguments(policy, request["trainer"])["optim"] == policy.hardware["optim"] == "adamw_torch_fused"
    assert choose_optimizer({"optim": "adafactor"}, None) is None and choose_optimizer({}, None) is None
    monkeypatch.setattr(precision, "bitsandbytes_problem", lambda: None)
    assert optimizer_problems({"optim": "paged_lion_8bit"}) == ([], [])
    assert choose_optimizer({"optim": "paged_lion_8bit"}, None) is None
    assert choose_optimizer({}, "nf4") == "paged_adamw_8bit" and choose_optimizer({}, None) is None
    assert choose_optimizer({"optim": "adamw_torch"}, "nf4") is None
