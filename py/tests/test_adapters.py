"""LoRA and QLoRA: what is trained, what is refused, what the reference is, what is saved."""

import importlib.util
import json

import pytest
import torch
from fake_host import FakeHost, prompt_of
from safetensors.torch import load_file, save_file
from trainers import adapters, precision, preflight, sft
from trainers.adapters import LORA_TARGETS, check_saved, check_trainable, read_trained_on
from trainers.grpo import build_trainer
from trainers.model import UserError, load_policy

LORA = {"r": 2, "lora_alpha": 4, "lora_dropout": 0.05, "target_modules": ["q_proj", "v_proj"]}
SAMPLING = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "max_turn_tokens": 8,
    "max_episode_tokens": 32,
    "max_context_tokens": None,
}


@pytest.fixture
def sft_request(tiny_folder, tmp_path):
    def build(trainer=None, **changes):
        turns = [{"reply": "yes 1", "observations": []}]
        rows = [{"id": str(i), "task_id": "t", "prompt": prompt_of(str(i)), "turns": turns} for i in range(4)]
        path = tmp_path / "rows.jsonl"
        path.write_text("\n".join(map(json.dumps, rows)))
        small = {"max_steps": 1, "per_device_train_batch_size": 2, "learning_rate": 1e-2, "save_strategy": "no"}
        request = {
            "model": str(tiny_folder),
            "output_dir": str(tmp_path / "run"),
            "seed": 3,
            "trainer": {**small, **(trainer or {})},
            "lora": LORA,
            "chat_template_kwargs": {},
            "rows_path": str(path),
            "max_length": 512,
        }
        return {**request, **changes}

    return build


@pytest.fixture
def adapter(sft_request, tmp_path):
    """The folder of an adapter that was trained one step."""
    sft.run(sft_request(trainer={"save_strategy": "steps", "save_steps": 1}), FakeHost())
    return tmp_path / "run" / "final"


def moved(policy) -> bool:
    """Whether every B matrix of the adapter has left zero."""
    weights = [each for name, each in policy.model.named_parameters() if "lora_B" in name]
    return bool(weights) and all(each.abs().sum() > 0 for each in weights)


def refuse_4_bits(monkeypatch, why=None):
    monkeypatch.setattr(adapters, "quantization_problem", lambda: why)
    monkeypatch.setattr("trainers.model.quantization_problem", lambda: why)


@pytest.mark.parametrize("checkpointing", [True, False])
def test_gradients_reach_the_adapter_with_and_without_gradient_checkpointing(sft_request, tmp_path, checkpointing):
    result = sft.run(sft_request(trainer={"gradient_checkpointing": checkpointing}), FakeHost())
    assert result["steps"] == 1
    assert moved(load_policy({"model": str(tmp_path / "run" / "final"), "seed": 0}))


def test_settings_that_a_continued_adapter_would_ignore_are_refused(adapter, tiny_folder):
    def goes_on(lora):
        request = {"recipe": "sft", "model": str(adapter), "trainer": {}, "lora": lora, "chat_template_kwargs": {}}
        problems = preflight.run({**request, "gold": [], "budgets": {}}, FakeHost())["problems"]
        try:
            load_policy({"model": str(adapter), "seed": 0, "lora": lora})
        except UserError as error:
            assert problems == [str(error)], "told before a model loads, too"
            return str(error)
        assert problems == []
        return None

    for lora in (None, {}, LORA, {"target_modules": ["v_proj", "q_proj"]}, {"lora_alpha": 4.0}):
        assert goes_on(lora) is None
    for lora, says in (
        ({"r": 8}, "adapter with r 2, and training goes on with it, but lora.r is 8"),
        ({"lora_alpha": 32}, "lora_alpha 4"),
        ({"lora_dropout": 0.1}, "lora_dropout 0.05"),
        ({"target_modules": ["q_proj"]}, "target_modules q_proj, v_proj, and"),
        ({"target_modules": "all-linear"}, "but lora.target_modules is down_proj, gate_proj, k_proj"),
        ({"rank": 4}, "lora.rank is 4"),
    ):
        assert says in (goes_on(lora) or "went on"), lora


def test_all_linear_is_what_an_adapter_of_all_linear_has(tiny_folder, tmp_path):
    lora = {"r": 2, "target_modules": "all-linear"}
    load_policy({"model": str(tiny_folder), "seed": 0, "lora": lora}).model.save_pretrained(tmp_path)
    load_policy({"model": str(tmp_path), "seed": 0, "lora": lora})
    load_policy({"model": str(tmp_path), "seed": 0, "lora": {"target_modules": LORA_TARGETS}})
    with pytest.raises(UserError, match=r"lora\.target_modules is k_proj, v_proj"):
        load_policy({"model": str(tmp_path), "seed": 0, "lora": {"target_modules": "model.*[kv]_proj"}})


def test_an_adapter_of_another_kind_is_refused_by_name(tmp_path, tiny_folder):
    config = {"peft_type": "IA3", "base_model_name_or_path": str(tiny_folder), "target_modules": ["q_proj"]}
    (tmp_path / "adapter_config.json").write_text(json.dumps({**config, "feedforward_modules": []}))
    with pytest.raises(UserError, match="adapter of kind IA3; expected a LoRA adapter"):
        load_policy({"model": str(tmp_path), "seed": 0})


@pytest.mark.parametrize("continued", [False, True])
def test_the_reference_is_the_base_under_a_new_adapter_and_the_start_of_a_continued_one(
    tiny_folder, adapter, tmp_path, continued
):
    trainer = {"per_device_train_batch_size": 4, "num_generations": 4, "beta": 0.1, "save_strategy": "no"}
    request = {
        "model": str(adapter if continued else tiny_folder),
        "policy": "model:tiny",
        "output_dir": str(tmp_path / "grpo"),
        "seed": 5,
        "trainer": trainer,
        "lora": None if continued else LORA,
        "task_ids": ["a"],
        "sampling": SAMPLING,
    }
    policy = load_policy(request)
    build_trainer(request, policy, FakeHost())
    model = policy.model.eval()
    ids = torch.arange(12).view(1, 12)
    with torch.no_grad():
        start = model(input_ids=ids).logits
        with model.disable_adapter():
            base = model(input_ids=ids).logits
        assert torch.equal(start, base) is not continued
        for each in model.parameters():
            if each.requires_grad:
                each.add_(0.1)  # the policy moves; its reference must not
        model.set_adapter("ref")
        assert torch.equal(model(input_ids=ids).logits, start)


def test_what_is_trained_is_checked(tiny_folder):
    policy = load_policy({"model": str(tiny_folder), "seed": 0, "lora": LORA})
    check_trainable(policy.model)
    policy.model.get_input_embeddings().weight.requires_grad = True
    with pytest.raises(RuntimeError, match=r"1 of 9 trainable parameters are not its own, as .*embed_tokens"):
        check_trainable(policy.model)
    policy.model.requires_grad_(False)
    with pytest.raises(RuntimeError, match="0 of 0"):
        check_trainable(policy.model)


def test_a_saved_adapter_is_whole_and_says_what_it_was_trained_on(adapter):
    check_saved(adapter)
    for folder in (adapter, adapter.parent / "checkpoint-1"):
        assert read_trained_on(folder) == {"dtype": "float32", "quantization": None}
    weights = load_file(adapter / "adapter_model.safetensors")
    save_file({"x": torch.zeros(1)}, adapter / "adapter_model.safetensors")
    with pytest.raises(RuntimeError, match="holds no LoRA weights"):
        check_saved(adapter)
    (adapter / "adapter_model.safetensors").unlink()
    with pytest.raises(RuntimeError, match=r"adapter_model\.safetensors was not saved"):
        check_saved(adapter)
    assert weights


def test_a_run_whose_adapter_was_not_saved_does_not_end_well(sft_request, tmp_path, monkeypatch):
    monkeypatch.setattr("peft.PeftModel.save_pretrained", lambda self, folder, **_: None)
    with pytest.raises(RuntimeError, match="was not saved"):
        sft.run(sft_request(), FakeHost())
    assert not (tmp_path / "run" / "final").exists()


# ----------------------------------------------------------------------------------------------------------- QLoRA


def test_without_cuda_qlora_is_plain_lora_and_one_sentence_says_so(sft_request, tmp_path):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    request = sft_request(qlora=True)
    asked = {"recipe": "sft", "gold": [], "budgets": {}, **request}
    result = preflight.run(asked, FakeHost())
    sentence = "qlora: there is no CUDA GPU, so the base is loaded in 32 bits and trained with plain LoRA."
    assert result["problems"] == [] and result["warnings"] == [sentence]
    if precision.cpu_has_bf16():
        assert "16 bits" in preflight.run({**asked, "precision": "bf16"}, FakeHost())["warnings"][0]
    hardware = sft.run(request, FakeHost())["hardware"]
    assert hardware["quantization"] is None and hardware["quantization_why"] == sentence
    plain = sft.run(sft_request(output_dir=str(tmp_path / "plain")), FakeHost())["hardware"]
    assert plain["quantization"] is None and plain["quantization_why"] is None


def test_qlora_refuses_several_processes_another_precision_and_full_training(tiny_folder, monkeypatch):
    def problem(**changes):
        with pytest.raises(UserError) as caught:
            load_policy({"model": "there/is/no/such/model", "device": "cpu", "qlora": True, "lora": {}, **changes})
        return str(caught.value)

    assert "qlora computes in bf16, but fp32 is asked for" in problem(precision="fp32")
    assert "qlora computes in bf16, but fp32 is asked for" in problem(trainer={"bf16": False})
    assert "set lora too" in problem(model=str(tiny_folder), lora=None)
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert "qlora trains in one process on one GPU, and this run has 2" in problem()


def test_why_there_are_no_4_bits(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(precision, "find_spec", lambda name: None)
    assert adapters.quantization_problem() == "bitsandbytes is not installed (pip install bitsandbytes)"
    assert "loaded in 16 bits" in adapters.fallback_sentence("x", torch.float16)
    monkeypatch.setattr(precision, "find_spec", lambda name: name)
    monkeypatch.setattr(adapters, "cuda_has_bf16", lambda: False)
    assert adapters.quantization_problem() == "this GPU does not compute in bfloat16"
    monkeypatch.setattr(adapters, "cuda_has_bf16", lambda: True)
    assert adapters.quantization_problem() is None


def test_the_base_is_asked_for_in_nf4_with_double_quantisation(tiny_folder, monkeypatch):
    """What transformers is given; the loading itself needs bitsandbytes, as the test below."""
    asked = {}
    real = adapters.AutoModelForCausalLM.from_pretrained

    def load(base, quantization_config, device_map, **rest):
        asked.update(quantization_config.to_dict(), device_map=device_map)
        return real(base, **rest)

    monkeypatch.setattr(adapters.AutoModelForCausalLM, "from_pretrained", load)
    refuse_4_bits(monkeypatch)
    request = {"model": str(tiny_folder), "seed": 0, "device": "cpu", "precision": "bf16", "qlora": True, "lora": LORA}
    policy = load_policy(request)
    assert policy.hardware["quantization"] == "nf4" and policy.hardware["quantization_why"] is None
    assert asked["bnb_4bit_quant_type"] == "nf4" and asked["load_in_4bit"] and asked["bnb_4bit_use_double_quant"]
    assert asked["bnb_4bit_compute_dtype"] == "bfloat16" and asked["device_map"] == {"": torch.device("cpu")}


@pytest.mark.skipif(importlib.util.find_spec("bitsandbytes") is None, reason="bitsandbytes is optional")
@pytest.mark.parametrize("checkpointing", [True, False])
def test_an_adapter_learns_on_a_4_bit_base_and_goes_on_there(sft_request, tmp_path, monkeypatch, checkpointing):
    """On a CPU too, where bitsandbytes is slow: there the product itself takes plain LoRA."""
    refuse_4_bits(monkeypatch)
    trainer = {"gradient_checkpointing": checkpointing, "optim": "adamw_torch"}
    bits4 = {"qlora": True, "precision": "bf16", "device": "cpu"}
    result = sft.run(sft_request(trainer=trainer, **bits4), FakeHost())
    assert result["hardware"]["quantization"] == "nf4"
    final = tmp_path / "run" / "final"
    assert read_trained_on(final)["quantization"] == "nf4"
    policy = load_policy({"model": str(final), "seed": 0, "lora": {}, **bits4})
    kinds = {type(part).__name__ for part in policy.model.modules()}
    assert "Linear4bit" in kinds and moved(policy)
    assert {each.dtype for name, each in policy.model.named_parameters() if "norm" in name} == {torch.bfloat16}
    again = sft_request(model=str(final), lora=None, output_dir=str(tmp_path / "again"), trainer=trainer, **bits4)
    assert sft.run(again, FakeHost())["steps"] == 1
    before, after = (
        load_file(each / "final" / "adapter_model.safetensors") for each in (tmp_path / "run", tmp_path / "again")
    )
    assert before.keys() == after.keys() and any(not torch.equal(before[name], after[name]) for name in before)
