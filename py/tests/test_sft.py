"""SFT: the loss is on the policy's tokens, no more and no less, and what is saved can be used."""

import json

import pytest
import torch
from fake_host import FakeHost, prompt_of
from torch.utils.data import SequentialSampler
from trainers import preflight, sft
from trainers.model import UserError, load_policy
from trainers.tokens import transcript_of
from transformers import AutoModelForCausalLM, AutoTokenizer


def row(number: int, words: int = 3) -> dict:
    turns = [
        {
            "reply": f"call {number} " + "very " * words,
            "observations": [{"role": "user", "content": "Observation: ok"}],
        },
        {"reply": f"done {number}", "observations": []},
    ]
    return {"id": f"row-{number}", "task_id": f"t{number}", "prompt": prompt_of(str(number)), "turns": turns}


@pytest.fixture
def request_of(tiny_folder, tmp_path):
    def build(rows=None, trainer=None, **changes):
        path = tmp_path / "rows.jsonl"
        path.write_text("\n".join(json.dumps(each) for each in (rows or [row(number) for number in range(8)])))
        request = {
            "model": str(tiny_folder),
            "output_dir": str(tmp_path / "run"),
            "seed": 3,
            "trainer": {"max_steps": 2, "per_device_train_batch_size": 4, "learning_rate": 1e-2, **(trainer or {})},
            "lora": None,
            "chat_template_kwargs": {},
            "rows_path": str(path),
            "max_length": 512,
        }
        return {**request, **changes}

    return build


def batches(trainer):
    """What the loss sees, in the order of the rows."""
    trainer._get_train_sampler = lambda *_: SequentialSampler(trainer.train_dataset)
    return list(trainer.get_train_dataloader())


def test_dt_08_dt_09_labels_are_the_replies_and_their_end_tokens_alone_with_pad_equal_to_eos(request_of):
    rows = [row(0), row(1, words=9)]
    request = request_of(rows=rows)
    policy = load_policy(request)
    policy.tokenizer.pad_token = policy.tokenizer.eos_token  # the trap: padding looks like the end of a turn
    assert policy.tokenizer.pad_token_id in policy.chat.end_ids
    examples, dropped, tokens = sft.tokenise(rows, policy.chat, 512)
    assert dropped == 0
    (batch,) = batches(sft.build_trainer(request, policy, examples))

    for labels, ids, attention, each in zip(
        batch["labels"].tolist(), batch["input_ids"].tolist(), batch["attention_mask"].tolist(), rows, strict=True
    ):
        learnt = [label for label in labels if label != -100]
        expected = [index for turn in each["turns"] for index in policy.chat.reply_ids(turn["reply"])]
        assert learnt == expected
        assert learnt.count(policy.chat.end_id) == 2, "the end of both turns is learnt"
        length = sum(attention)
        assert labels[length - 1] == policy.chat.end_id and set(labels[length:]) <= {-100}
        assert (
            ids[:length]
            == transcript_of(each, policy.chat).prompt_ids + transcript_of(each, policy.chat).completion_ids
        )
    assert batch["attention_mask"][0].sum() < batch["attention_mask"][1].sum(), "one of the rows is padded"
    assert tokens["policy"] == (batch["labels"] != -100).sum()


CONTINUATION = {"separator": "\n", "opening": "Thought:", "stop": "Observation:"}


def test_in_the_continuation_style_labels_are_the_replies_behind_their_openings(request_of):
    turns = [
        {"reply": "Thought: a\nAction: b", "observations": [{"role": "user", "content": "Observation: ok"}]},
        {"reply": "Thought: c\nAction: FINISH", "observations": []},
    ]
    request = request_of(rows=[{**row(0), "turns": turns}] * 2, continuation=CONTINUATION)
    policy = load_policy(request)
    examples, _, _ = sft.tokenise(sft.read_rows(request["rows_path"]), policy.chat, 512)
    (batch,) = batches(sft.build_trainer(request, policy, examples))
    learnt = [label for label in batch["labels"][0].tolist() if label != -100]
    assert policy.tokenizer.decode(learnt) == "Thought: a\nAction: b<|im_end|> c\nAction: FINISH<|im_end|>"
    assert policy.tokenizer.decode(batch["input_ids"][0]).endswith(
        "Action: b<|im_end|>\nObservation: ok\nThought: c\nAction: FINISH<|im_end|>"
    )


def test_a_row_that_the_style_could_not_have_is_the_users_to_mend(request_of):
    request = request_of(rows=[row(7)], continuation=CONTINUATION)
    with pytest.raises(UserError, match="row row-7, turn 2: the reply does not begin with 'Thought:'"):
        sft.run(request, FakeHost())
    budgets = dict.fromkeys(("max_turn_tokens", "max_episode_tokens", "max_context_tokens"))
    checked = {**request, "recipe": "sft", "gold": [row(7)], "budgets": {**budgets, "max_length": 512}}
    [problem] = preflight.run(checked, FakeHost())["problems"]
    assert "gold: row row-7, turn 2" in problem


def test_two_steps_train_log_and_save_an_ordinary_folder(request_of, tiny_folder, tmp_path):
    host = FakeHost()
    result = sft.run(request_of(), host)
    assert result["steps"] == 2 and result["stop_reason"] == "max_steps_or_epochs_completed"
    assert 0 < result["train_loss"] < 20 and result["rows"] == 8 and result["rows_dropped"] == 0
    losses = [log["metrics"]["loss"] for log in host.logs if "loss" in log["metrics"]]
    assert [log["step"] for log in host.logs][:2] == [1, 2] and losses[1] < losses[0]
    assert result["parameters"]["total"] == result["parameters"]["trainable"]

    final = tmp_path / "run" / "final"
    before, after = (AutoModelForCausalLM.from_pretrained(folder) for folder in (tiny_folder, final))
    assert any(not torch.equal(a, b) for a, b in zip(before.parameters(), after.parameters(), strict=True))
    assert AutoTokenizer.from_pretrained(final).chat_template
    assert AutoTokenizer.from_pretrained(final).encode("Hi 12") == AutoTokenizer.from_pretrained(tiny_folder).encode(
        "Hi 12"
    )
    assert load_policy({"model": str(final), "seed": 0}).chat.end_id in after.generation_config.eos_token_id
    assert not list(final.glob("*.bin")) and not list((tmp_path / "run").glob("*.tmp"))


def test_lora_trains_the_adapter_alone_and_its_folder_loads_and_goes_on(request_of, tmp_path):
    lora = {"r": 2, "lora_alpha": 4, "lora_dropout": 0.05, "target_modules": ["q_proj", "v_proj"]}
    result = sft.run(request_of(lora=lora), FakeHost())
    assert 0 < result["parameters"]["trainable"] < result["parameters"]["total"] / 10
    final = tmp_path / "run" / "final"
    assert (final / "adapter_model.safetensors").is_file() and not (final / "model.safetensors").exists()

    policy = load_policy({"model": str(final), "seed": 0, "lora": lora})
    trainable = [name for name, each in policy.model.named_parameters() if each.requires_grad]
    assert trainable and all("lora_" in name for name in trainable)
    assert any(each.abs().sum() > 0 for name, each in policy.model.named_parameters() if "lora_B" in name)
    with pytest.raises(UserError, match="with r 2"):
        load_policy({"model": str(final), "seed": 0, "lora": {**lora, "r": 8}})


def test_a_requested_stop_saves_a_checkpoint_and_ends_cleanly(request_of, tmp_path):
    result = sft.run(request_of(trainer={"max_steps": 50, "save_strategy": "no"}), FakeHost(stop_at_step=2))
    assert result["stopped"] and result["stop_reason"] == "stop_requested" and result["steps"] == 2
    assert (tmp_path / "run" / "checkpoint-2" / "optimizer.pt").is_file()
    assert (tmp_path / "run" / "final" / "model.safetensors").is_file()


def test_a_loss_that_is_not_finite_stops_the_run_and_saves_nothing(request_of, tmp_path):
    host = FakeHost()
    # A step of this size takes the weights out of float32's range.
    result = sft.run(request_of(trainer={"max_steps": 9, "learning_rate": 1e38, "save_strategy": "no"}), host)
    assert result["stop_reason"] == "loss_not_finite" and result["steps"] < 9
    assert not (tmp_path / "run" / "final").exists()


def test_rows_too_long_are_left_out_below_1_percent_and_refused_above(request_of):
    policy = load_policy(request_of())
    rows = [row(number % 10) for number in range(199)]
    examples, dropped, _ = sft.tokenise([*rows, row(0, words=200)], policy.chat, 128)
    assert (len(examples), dropped) == (199, 1)
    with pytest.raises(UserError, match=r"2 of 20 rows are longer than max_length 128.*--max-length \d+"):
        sft.tokenise([*rows[:18], row(0, words=200), row(1, words=200)], policy.chat, 128)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('\n{"prompt": [{}], "turns": [{"reply": "x", "observations": []}]}\n\n{"prompt":', ":4: not JSON"),
        ("[]", ":1: row must be an object"),
        ('{"prompt": [{}], "turns": []}', ":1: 'turns'"),
        ('{"prompt": [{}], "turns": [{"reply": "x", "observations": [{"role": "user"}]}]}', "ends with .* role 'user'"),
        ("", "no rows"),
    ],
)
def test_dt_02_dt_09_bad_rows_are_named_by_their_line(tmp_path, text, says):
    path = tmp_path / "rows.jsonl"
    path.write_text(text)
    with pytest.raises(UserError, match=says):
        sft.read_rows(str(path))


def test_dt_01_a_byte_order_mark_and_windows_line_ends_change_nothing(tmp_path):
    path = tmp_path / "rows.jsonl"
    rows = [row(0), row(1)]
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(json.dumps(each) for each in rows).encode())
    assert sft.read_rows(str(path)) == rows


def test_wrong_trainer_keys_stop_before_the_model_loads(request_of):
    with pytest.raises(UserError, match="learning_rat"):
        sft.run(request_of(trainer={"learning_rat": 1}, model="/nowhere"), FakeHost())
