"""The recipe that makes the tiny base: tokenizer, weights, and a folder that loads like any other."""

import json
import random

import pytest
import torch
from trainers import pretrain
from trainers.callbacks import COMPLETED, STOP_REQUESTED
from trainers.tokens import ChatFormat
from transformers import AutoModelForCausalLM, AutoTokenizer


def dialogue(number: int) -> dict:
    name = ["archive_ticket", "get_parcel_status"][number % 2]
    call = json.dumps({"name": name, "args": {"ref": number, "code": "AI"}})
    return {
        "prompt": [{"role": "user", "content": f"Task: call {name} with ref {number} and code AI."}],
        "turns": [
            {
                "reply": f"Thought: Next: {name}.\nAction: {call}",
                "observations": [{"role": "user", "content": 'Observation: {"status": "READY"}'}],
            },
            {"reply": "Thought: All steps are done.\nAction: FINISH", "observations": []},
        ],
    }


ROWS = [dialogue(number) for number in range(40)]
SHAPE = {"hidden_size": 32, "intermediate_size": 64, "layers": 2, "heads": 2, "initializer_range": 0.06}


class Host:
    def __init__(self, stop_after: int | None = None):
        self.logs: list[tuple[int, dict]] = []
        self.stop_after = stop_after

    @property
    def stop_requested(self) -> bool:
        return self.stop_after is not None and len(self.logs) >= self.stop_after

    def log(self, step, metrics):
        self.logs.append((step, metrics))


@pytest.fixture(scope="module")
def tokenizer():
    return pretrain.train_tokenizer(pretrain.texts_of(ROWS), 400)


@pytest.fixture
def request_(tmp_path):
    paths = {}
    for name in ("copy", "short", "full", "held_out"):
        paths[name] = str(tmp_path / f"{name}.jsonl")
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return {
        "seed": 1,
        "output_dir": str(tmp_path),
        "threads": 1,
        "dialogues": paths,
        "tokenizer_rows": [],
        "vocab_size": 400,
        "shape": SHAPE,
        "stages": [{"dialogues": "copy", "steps": 3}, {"dialogues": "full", "steps": 3}],
        "batch_size": 4,
        "learning_rate": 3e-3,
        "matrix_learning_rate": 0.02,
        "warmup_steps": 2,
        "bf16": False,
        "log_steps": 1,
        "held_out_steps": 3,
    }


def test_digits_and_codes_are_the_same_tokens_in_a_sentence_and_in_json(tokenizer):
    pieces = tokenizer.tokenize('ref 12 in cs.AI, AI {"ref": 12, "code": "AI"}')
    assert pieces.count("1") == pieces.count("2") == 2
    assert pieces.count("AI") == 3


def test_a_code_breaks_up_no_longer_word_in_capitals():
    rows = [f"Action: FINISH in NI or CV {number}" for number in range(60)]
    tokenizer = pretrain.train_tokenizer(rows, 320)
    assert "CV" in tokenizer.tokenize("in CV")
    assert "NI" not in tokenizer.tokenize("FINISH")


def test_the_folder_of_a_model_gives_the_same_tokenizer_back(tokenizer, tmp_path):
    """transformers puts Qwen2's pre-tokenizer into the place of any other that a Qwen2 folder names."""
    tokenizer.save_pretrained(tmp_path)
    pretrain.new_model(tokenizer, SHAPE, 0).save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    for text in pretrain.texts_of(ROWS):
        assert loaded.encode(text) == tokenizer.encode(text)


def test_any_text_comes_back(tokenizer):
    text = "Größe 第3篇 🙂 <x> \t  spaces\n\nÅ_b__c"
    assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False)) == text


def test_loss_falls_on_replies_and_their_end_alone(tokenizer):
    example = pretrain.example_of(ROWS[3], ChatFormat(tokenizer))
    told = [tokenizer.decode([token]) for token, wanted in zip(example.ids, example.mask, strict=True) if wanted]
    assert "".join(told) == "".join(f"{turn['reply']}<|im_end|>" for turn in ROWS[3]["turns"])
    assert [tokenizer.decode(example.ids[begin:end]) for begin, end in example.replies] == [
        f"{turn['reply']}<|im_end|>" for turn in ROWS[3]["turns"]
    ]


def test_batches_hold_every_row_once_a_pass(tokenizer):
    chat = ChatFormat(tokenizer)
    source = pretrain.batches(ROWS, chat, 8, random.Random(0))
    first = [tuple(example.ids) for _ in range(5) for example in next(source)]
    assert sorted(first) == sorted(tuple(pretrain.example_of(row, chat).ids) for row in ROWS)


def test_trains_and_saves_a_folder_that_loads(request_):
    host = Host()
    result = pretrain.run(request_, host)
    assert [step for step, _ in host.logs] == [1, 2, 3, 4, 5, 6]
    assert host.logs[-1][1]["loss"] < host.logs[0][1]["loss"]
    assert 0 <= result["held_out/actions"] <= 1
    assert result["steps"] == 6 and result["stop_reason"] == COMPLETED

    folder = f"{request_['output_dir']}/final"
    model = AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert model.config.architectures == ["Qwen2ForCausalLM"]
    assert set(model.generation_config.eos_token_id) == {tokenizer.eos_token_id, tokenizer.pad_token_id}
    assert ChatFormat(tokenizer).end_id == tokenizer.eos_token_id
    assert tokenizer.tokenize(" 12 AI") == ["Ġ", "1", "2", "Ġ", "AI"]


def test_one_seed_gives_one_model(request_, tmp_path):
    weights = []
    for name in ("a", "b"):
        pretrain.run({**request_, "output_dir": str(tmp_path / name)}, Host())
        weights.append(AutoModelForCausalLM.from_pretrained(tmp_path / name / "final").state_dict())
    assert all(torch.equal(weights[0][key], weights[1][key]) for key in weights[0])


def test_a_stop_saves_what_there_is(request_, tmp_path):
    result = pretrain.run(request_, Host(stop_after=2))
    assert result["stop_reason"] == STOP_REQUESTED and result["steps"] == 2
    assert (tmp_path / "final" / "model.safetensors").exists()


def test_held_out_counts_exact_actions(tokenizer):
    chat = ChatFormat(tokenizer)
    examples = [pretrain.example_of(row, chat) for row in ROWS[:4]]
    action_id = tokenizer.convert_tokens_to_ids("Action")

    class Oracle(torch.nn.Module):
        """Writes the next token of what it is shown, but always errs in the first dialogue's last reply."""

        def forward(self, input_ids):
            following = torch.roll(input_ids, -1, dims=1)
            for row, ids in enumerate(input_ids.tolist()):
                if ids[: len(examples[0].ids)] == examples[0].ids:
                    following[row, examples[0].replies[-1][1] - 2] += 1
            logits = torch.nn.functional.one_hot(following, len(tokenizer) + 1).float()
            return type("Output", (), {"logits": logits})

    figures = pretrain.held_out(Oracle(), examples, action_id, tokenizer.pad_token_id)
    assert figures == {"held_out/actions": 7 / 8, "held_out/dialogues": 3 / 4}
