"""KL to a reference: zero against itself, the right sums against another model, batches that do not matter."""

import json

import pytest
import torch
from fake_host import FakeHost
from trainers import reference_kl
from trainers.model import UserError, load_policy
from trainers.tokens import transcript_of
from transformers import AutoModelForCausalLM, AutoTokenizer

ROWS = [
    {
        "id": f"r{number}",
        "prompt": [{"role": "user", "content": "user " * number}],
        "turns": [
            {"reply": "the name", "observations": [{"role": "user", "content": "Observation"}]},
            {"reply": "args " * (number + 1), "observations": []},
        ],
    }
    for number in range(4)
]


@pytest.fixture
def request_of(tiny_folder, tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))

    def build(**changes):
        return {"model": str(tiny_folder), "reference": str(tiny_folder), "rows_path": str(rows), **changes}

    return build


def moved(folder, target):
    """A copy of a model with other weights."""
    model = AutoModelForCausalLM.from_pretrained(folder)
    torch.manual_seed(3)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * 0.05)
    model.save_pretrained(target)
    AutoTokenizer.from_pretrained(folder).save_pretrained(target)
    return str(target)


def test_a_model_is_as_far_from_itself_as_nothing(request_of):
    rows = reference_kl.run(request_of(), FakeHost())["rows"]
    assert [row["id"] for row in rows] == [row["id"] for row in ROWS]
    assert all(row["tokens"] > 0 and row["kl"] == row["squared"] == 0 for row in rows)


def test_sums_are_those_of_the_two_models_logits(request_of, tiny_folder, tmp_path, monkeypatch):
    request = request_of(model=moved(tiny_folder, tmp_path / "moved"))
    found = reference_kl.run(request, FakeHost())["rows"]
    policies = [
        load_policy({**request, "model": name}, training=False) for name in (request["model"], str(tiny_folder))
    ]
    for row, result in zip(ROWS, found, strict=True):
        transcript = transcript_of(row, policies[0].chat)
        ids = torch.tensor([transcript.prompt_ids + transcript.completion_ids])
        sums = []
        for policy in policies:
            with torch.inference_mode():
                logprobs = policy.model(input_ids=ids).logits[0].float().log_softmax(-1)
            start = len(transcript.prompt_ids)
            sums.append(
                torch.stack(
                    [
                        logprobs[start + place - 1, token]
                        for place, (token, bit) in enumerate(
                            zip(transcript.completion_ids, transcript.env_mask, strict=True)
                        )
                        if bit
                    ]
                ).double()
            )
        difference = sums[0] - sums[1]
        assert result["tokens"] == len(difference) == transcript.policy_tokens
        assert result["kl"] == pytest.approx(difference.sum().item(), abs=1e-4)
        assert result["squared"] == pytest.approx(difference.square().sum().item(), abs=1e-4)
    monkeypatch.setattr(reference_kl, "BATCH_TOKENS", 1)
    alone = reference_kl.run(request, FakeHost())["rows"]
    assert [row["kl"] for row in alone] == pytest.approx([row["kl"] for row in found], abs=1e-4)


def test_an_adapters_reference_is_the_model_without_it(request_of, tiny_folder, tmp_path):
    policy = load_policy({"model": str(tiny_folder), "lora": {"r": 2}})
    for name, weight in policy.model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.2)
    policy.model.save_pretrained(tmp_path / "adapter")
    policy.tokenizer.save_pretrained(tmp_path / "adapter")
    request = request_of(model=str(tmp_path / "adapter"), reference=None)
    off = reference_kl.run(request, FakeHost())["rows"]
    named = reference_kl.run({**request, "reference": str(tiny_folder)}, FakeHost())["rows"]
    assert [row["kl"] for row in off] == pytest.approx([row["kl"] for row in named], abs=1e-4)
    assert all(row["squared"] > 0 for row in off)


def test_a_whole_model_needs_a_reference_that_fits(request_of):
    with pytest.raises(UserError, match="no adapter, so its reference has to be named"):
        reference_kl.run(request_of(reference=None), FakeHost())
