"""DPO: only the replies in which two trajectories differ are scored, against the policy as it was loaded."""

import inspect
import json
import re

import pytest
import torch
from fake_host import FakeHost, prompt_of
from torch.utils.data import SequentialSampler
from trainers import dpo, preflight
from trainers.dpo_options import LOSSES
from trainers.model import UserError, load_policy
from trainers.preflight import trainer_problems
from trainers.sft import read_rows
from trainers.tokens import transcript_of
from transformers import AutoModelForCausalLM
from trl import DPOTrainer

LORA = {"r": 4, "lora_alpha": 8, "lora_dropout": 0.5, "target_modules": ["q_proj", "v_proj"]}
SAID = [{"role": "user", "content": "Observation: ok"}]


def turn(reply: str, observations: list | None = None) -> dict:
    return {"reply": reply, "observations": observations or []}


def pair(number: int, chosen: str | None = None, rejected: str | None = None, shared: int = 1) -> dict:
    return {
        "id": f"t{number}#0",
        "task_id": f"t{number}",
        "prompt": prompt_of(str(number)),
        "shared": [turn(f"look {number} {index}", SAID) for index in range(shared)],
        "chosen": [turn(f"call {number}" if chosen is None else chosen)],
        "rejected": [turn(f"give up on number {number}" if rejected is None else rejected)],
        "chosen_reward": 1.0,
        "rejected_reward": 0.0,
        "meta": {},
    }


@pytest.fixture
def request_of(tiny_folder, tmp_path):
    def build(rows=None, trainer=None, **changes):
        path = tmp_path / "pairs.jsonl"
        path.write_text("\n".join(json.dumps(each) for each in (rows or [pair(number) for number in range(8)])))
        settings = {"max_steps": 2, "per_device_train_batch_size": 4, "learning_rate": 1e-3, "save_strategy": "no"}
        request = {
            "model": str(tiny_folder),
            "output_dir": str(tmp_path / "run"),
            "seed": 3,
            "trainer": {**settings, **(trainer or {})},
            "lora": None,
            "chat_template_kwargs": {},
            "pairs_path": str(path),
            "max_length": 512,
        }
        return {**request, **changes}

    return build


def built(request):
    """The trainer on all pairs of a request, and its policy."""
    policy = load_policy(request)
    rows = read_rows(request["pairs_path"], dpo.check_pair)
    examples, _, _ = dpo.tokenise(rows, policy.chat, request["max_length"])
    trainer = dpo.build_trainer(request, policy, examples)
    trainer._get_train_sampler = lambda *_: SequentialSampler(trainer.train_dataset)
    return trainer, policy


def whole(row: dict, side: str, chat):
    return transcript_of({**row, "turns": [*row["shared"], *row[side]]}, chat)


def logp_by_hand(model, row: dict, side: str, chat) -> torch.Tensor:
    """Of the side's last reply and its end token, from plain logits of the row alone."""
    transcript = whole(row, side, chat)
    ids = torch.tensor([transcript.prompt_ids + transcript.completion_ids])
    with torch.no_grad():
        logps = model(ids).logits[0].log_softmax(dim=-1)
    scored = len(chat.reply_ids(row[side][-1]["reply"]))
    return sum(logps[at - 1, ids[0, at]] for at in range(ids.shape[1] - scored, ids.shape[1]))


# ------------------------------------------------------------------------------------------------------ tokens


def test_ids_are_those_of_the_rows_and_only_the_replies_that_differ_are_scored(request_of):
    rows = [pair(0), pair(1, chosen="yes " * 9, shared=0), pair(2, shared=3), pair(3)]
    trainer, policy = built(request_of(rows=rows))
    (batch,) = list(trainer.get_train_dataloader())
    sides = [(row, side) for side in ("chosen", "rejected") for row in rows]
    for (row, side), ids, attention, mask in zip(
        sides,
        *(batch[name].tolist() for name in ("input_ids", "attention_mask", "completion_mask")),
        strict=True,
    ):
        transcript, length = whole(row, side, policy.chat), sum(attention)
        assert ids[:length] == transcript.prompt_ids + transcript.completion_ids
        scored = policy.chat.reply_ids(row[side][0]["reply"])
        assert mask == [0] * (length - len(scored)) + [1] * len(scored) + [0] * (len(ids) - length)
        assert ids[length - 1] == policy.chat.end_id, "that a reply ends is scored too"


def test_what_the_environment_says_between_turns_of_a_side_is_not_scored(request_of):
    row = {**pair(0), "chosen": [turn("call 0", SAID), turn("done")], "rejected": [turn("no", SAID), turn("bye")]}
    trainer, policy = built(request_of(rows=[row]))
    (batch,) = list(trainer.get_train_dataloader())
    for ids, mask, side in zip(
        batch["input_ids"], batch["completion_mask"].bool(), ("chosen", "rejected"), strict=True
    ):
        replies = [index for each in row[side] for index in policy.chat.reply_ids(each["reply"])]
        assert ids[mask].tolist() == replies


CONTINUATION = {"separator": "\n", "opening": "Thought:", "stop": "Observation:"}


def test_in_the_continuation_style_a_later_reply_is_scored_behind_its_opening(request_of):
    row = pair(0, chosen="Thought: c\nAction: FINISH", rejected="Thought: d")
    row["shared"] = [turn("Thought: a\nAction: b", SAID)]
    trainer, policy = built(request_of(rows=[row], continuation=CONTINUATION))
    (batch,) = list(trainer.get_train_dataloader())
    ids, mask = batch["input_ids"][0], batch["completion_mask"][0].bool()
    assert policy.tokenizer.decode(ids[mask]) == " c\nAction: FINISH<|im_end|>"
    assert policy.tokenizer.decode(ids).endswith("b<|im_end|>\nObservation: ok\nThought: c\nAction: FINISH<|im_end|>")


def test_dt_06_pairs_without_a_difference_are_left_out_with_their_reasons(request_of):
    same = [pair(number, chosen="call it", rejected="call it") for number in range(3)]
    rows = [*same, pair(3, rejected=" \n"), *[pair(number) for number in range(4, 10)]]
    host = FakeHost()
    result = dpo.run(request_of(rows=rows), host)
    assert result["pairs"] == 6 and result["dropped"] == {"identical": 3, "empty": 1, "too_long": 0}
    assert host.notes == ["Left out of 10 pairs: 3 identical, 1 empty."]
    assert result["train_loss"] < 0.7 and result["margin_after"] != result["margin_before"]


def test_nothing_left_and_pairs_too_long_are_said_before_the_weights_load(request_of, monkeypatch):
    monkeypatch.setattr(dpo, "load_policy", lambda *_: pytest.fail("the weights were loaded"))
    with pytest.raises(
        UserError, match="None of the 2 pairs can teach anything: 1 have two identical sides, 1 an empty"
    ):
        dpo.run(request_of(rows=[pair(0, chosen="x", rejected="x"), pair(1, chosen="")]), FakeHost())
    with pytest.raises(UserError, match=r"1 of 8 pairs are longer than max_length 128, .*'t7#0'.*--max-length \d+"):
        rows = [*[pair(number) for number in range(7)], pair(7, rejected="no " * 200)]
        dpo.run(request_of(rows=rows, max_length=128), FakeHost())
    with pytest.raises(UserError, match="learning_rat"):
        dpo.run(request_of(trainer={"learning_rat": 1}), FakeHost())


def test_one_long_pair_in_a_hundred_is_left_out(request_of):
    policy = load_policy(request_of())
    rows = [pair(number % 10) for number in range(199)]
    examples, dropped, tokens = dpo.tokenise([*rows, pair(0, chosen="go " * 200)], policy.chat, 128)
    assert len(examples) == 199 and dropped["too_long"] == 1
    assert 0 < tokens["policy"] < tokens["total"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"chosen": []}, ":1: 'chosen' must be a list with at least one entry"),
        ({"shared": None}, ":1: 'shared' must be a list of turns"),
        ({"rejected": [turn("x", SAID)]}, ":1: 'rejected' ends with an observation"),
    ],
)
def test_a_row_that_is_no_pair_is_named_by_its_line(request_of, change, says):
    with pytest.raises(UserError, match=says):
        dpo.run(request_of(rows=[{**pair(0), **change}]), FakeHost())


# --------------------------------------------------------------------------------------------------- reference


@pytest.mark.parametrize("precompute", [False, True])
def test_the_loss_of_a_fixed_batch_is_the_papers_formula(request_of, tiny_folder, precompute):
    """−log σ(β (log π/π_ref of chosen − of rejected)), arXiv:2305.18290 equation 7, from logits without padding."""
    rows = [pair(0), pair(1, chosen="call 1 " * 5), pair(2, shared=2)]
    trainer, policy = built(request_of(rows=rows, trainer={"beta": 0.3, "precompute_ref_log_probs": precompute}))
    torch.manual_seed(5)
    with torch.no_grad():
        for each in policy.model.parameters():
            each.add_(0.02 * torch.randn_like(each))
    (batch,) = list(trainer.get_train_dataloader())
    loss = trainer.compute_loss(trainer.model, batch)

    reference = AutoModelForCausalLM.from_pretrained(tiny_folder).eval()
    moved = AutoModelForCausalLM.from_pretrained(tiny_folder).eval()
    moved.load_state_dict(policy.model.state_dict())
    margins = [
        0.3
        * sum(
            sign * (logp_by_hand(moved, row, side, policy.chat) - logp_by_hand(reference, row, side, policy.chat))
            for side, sign in (("chosen", 1), ("rejected", -1))
        )
        for row in rows
    ]
    by_hand = sum(torch.log1p(torch.exp(-margin)) for margin in margins) / len(rows)
    assert loss.item() == pytest.approx(by_hand.item(), abs=1e-5)
    assert abs(by_hand.item() - 0.6931) > 1e-3, "the policy has moved"
    measured = dpo.side_logps(trainer)
    assert measured[0, 1].item() == pytest.approx(logp_by_hand(moved, rows[1], "chosen", policy.chat).item(), abs=1e-4)


def test_the_margin_rises_is_logged_and_stands_in_the_result(request_of, tmp_path):
    host = FakeHost()
    result = dpo.run(request_of(trainer={"max_steps": 6, "beta": 0.5}), host)
    assert result["steps"] == 6 and result["stop_reason"] == "max_steps_or_epochs_completed"
    assert result["margin_before"] == pytest.approx(0, abs=1e-5)
    assert result["margin_after"] > 0.1 and result["accuracy_after"] > 0.8
    assert result["chosen_logp_before"] < 0
    difference = [result[f"chosen_logp_{when}"] - result[f"rejected_logp_{when}"] for when in ("before", "after")]
    assert result["margin_after"] == pytest.approx(0.5 * (difference[1] - difference[0]), abs=1e-4)
    points = [log["metrics"] for log in host.logs if "loss" in log["metrics"]]
    assert len(points) == 6 and points[0]["loss"] == pytest.approx(0.6931, abs=1e-3)
    assert points[0]["rewards/margins"] == pytest.approx(0, abs=1e-5)
    assert points[-1]["rewards/margins"] > 0.1
    assert 0 <= points[-1]["rewards/accuracies"] <= 1
    final = tmp_path / "run" / "final"
    assert (final / "model.safetensors").is_file() and (final / "tokenizer.json").is_file()
    assert not (final / "training_args.bin").exists()


def test_precomputed_reference_and_batches_by_length_change_nothing_but_the_way(request_of):
    plain, precomputed = (
        dpo.run(request_of(trainer={"max_steps": 3, "precompute_ref_log_probs": precompute}), FakeHost())
        for precompute in (False, True)
    )
    assert precomputed["train_loss"] == pytest.approx(plain["train_loss"], abs=1e-5)
    assert precomputed["margin_after"] == pytest.approx(plain["margin_after"], abs=1e-5)
    grouped = dpo.run(request_of(trainer={"train_sampling_strategy": "group_by_length"}), FakeHost())
    assert grouped["steps"] == 2 and grouped["margin_after"] > 0


@pytest.mark.parametrize(
    "trainer",
    [
        {"sync_ref_model": True, "ref_model_sync_steps": 1, "ref_model_mixup_alpha": 1.0},
        {"loss_type": ["sigmoid", "sft"], "loss_weights": [1.0, 0.2], "ld_alpha": 0.5},
        {"gradient_checkpointing": True, "gradient_accumulation_steps": 2, "per_device_train_batch_size": 2},
    ],
)
def test_trls_other_keys_reach_it(request_of, trainer):
    host = FakeHost()
    result = dpo.run(request_of(trainer={"max_steps": 4, **trainer}), host)
    assert result["margin_before"] == pytest.approx(0, abs=1e-5) and result["margin_after"] > 0.01
    last = [log["metrics"]["rewards/margins"] for log in host.logs if "loss" in log["metrics"]][-1]
    assert (abs(last) < 1e-5) == ("sync_ref_model" in trainer), "a reference that follows leaves no margin"


def test_a_new_adapters_reference_is_the_model_with_it_off(request_of, tmp_path):
    trainer, policy = built(request_of(lora=LORA))
    assert list(policy.model.peft_config) == ["default"] and trainer.ref_model is None
    with torch.no_grad():
        for name, each in policy.model.named_parameters():
            if "lora_B" in name:
                each.fill_(0.1)
    reference = dpo.side_logps(trainer, reference=True)
    assert not torch.allclose(reference, dpo.side_logps(trainer), atol=1e-2)
    with policy.model.disable_adapter():
        assert torch.equal(reference, dpo.side_logps(trainer))

    result = dpo.run(request_of(lora=LORA, trainer={"max_steps": 6, "learning_rate": 1e-2}), FakeHost())
    assert result["margin_before"] == pytest.approx(0, abs=1e-5) and result["margin_after"] > 0.01
    assert result["parameters"]["trainable"] < result["parameters"]["total"] / 10
    final = tmp_path / "run" / "final"
    assert (final / "adapter_model.safetensors").is_file() and not (final / "model.safetensors").exists()


def test_ck_07_an_adapter_goes_on_from_a_frozen_copy_of_itself(request_of, tmp_path):
    trained = dpo.run(request_of(lora=LORA, trainer={"max_steps": 6, "learning_rate": 1e-2}), FakeHost())
    first = str((tmp_path / "run" / "final").rename(tmp_path / "first"))
    # With dropout: the copy must not drop anything out while the policy does.
    request = request_of(model=first, trainer={"max_steps": 4, "learning_rate": 1e-2, "disable_dropout": False})
    trainer, policy = built(request)
    before = dpo.side_logps(trainer, reference=True)
    assert torch.equal(before, dpo.side_logps(trainer))
    assert before[0].mean().item() == pytest.approx(trained["chosen_logp_after"], abs=1e-3), "not the bare base's"
    trainer.train()
    assert "ref" in policy.model.peft_config
    policy.model.train()  # as in a step
    assert torch.allclose(before, dpo.side_logps(trainer, reference=True), atol=1e-5)
    assert dpo.margins(dpo.side_logps(trainer), before, 0.1).mean() > 0

    host = FakeHost()
    result = dpo.run({**request, "trainer": {**request["trainer"], "disable_dropout": True}}, host)
    assert result["margin_before"] == 0 and host.logs[0]["metrics"]["loss"] == pytest.approx(0.6931, abs=1e-3)
    assert not (tmp_path / "run" / "final" / "ref").exists()
    assert load_policy({"model": str(tmp_path / "run" / "final"), "seed": 0}).model.peft_config.keys() == {"default"}


def test_a_loss_that_is_not_finite_leaves_no_model_and_no_figures(request_of, tmp_path):
    result = dpo.run(request_of(trainer={"max_steps": 9, "learning_rate": 1e38}), FakeHost())
    assert result["stop_reason"] == "loss_not_finite" and result["margin_after"] is None
    assert not (tmp_path / "run" / "final").exists()


# ----------------------------------------------------------------------------------------------------- options


def test_the_losses_are_those_that_trl_has():
    source = inspect.getsource(DPOTrainer._compute_loss)
    assert sorted(re.findall(r'loss_type == "(\w+)"', source)) == sorted(LOSSES)


@pytest.mark.parametrize(
    ("trainer", "says"),
    [
        ({"loss_type": "sigmoidd"}, "trainer.loss_type is 'sigmoidd'; expected one of sigmoid, hinge"),
        ({"loss_type": ["sigmoid", "sftt"]}, "trainer.loss_type is 'sftt'"),
        ({"loss_type": []}, "trainer.loss_type is '[]'"),
        ({"loss_type": ["sft", "sft"]}, "expected each loss once"),
        ({"f_divergence_type": "kl"}, "expected one of reverse_kl"),
        ({"f_divergence_type": "forward_kl", "loss_type": "apo_zero"}, "does not go with loss_type apo_zero"),
        ({"max_length": 10}, "--max-length"),
        ({"truncation_mode": "keep_end"}, "left out, not cut"),
        ({"padding_free": True}, "padded"),
        ({"label_smoothing": 0.1}, "label_smoothing is set, but it counts only with loss_type exo_pair, robust"),
        ({"loss_type": "exo_pair"}, "exo_pair needs label_smoothing above 0"),
        ({"loss_type": "robust", "label_smoothing": 0.5}, "0 to below 0.5"),
        ({"discopop_tau": 0.1}, "only with loss_type discopop"),
        ({"f_alpha_divergence_coef": 0.4}, "only with f_divergence_type alpha_divergence"),
        ({"ref_model_sync_steps": 4}, "only with sync_ref_model"),
        ({"precompute_ref_batch_size": 4}, "only with precompute_ref_log_probs"),
        ({"sync_ref_model": True, "precompute_ref_log_probs": True}, "set one"),
        ({"use_weighting": True, "loss_type": "aot"}, "use_weighting does not go"),
        ({"ld_alpha": 2}, "ld_alpha is 2; expected 0 to 1"),
        ({"loss_type": ["sigmoid", "sft"], "loss_weights": [1.0]}, "DPOConfig refuses it"),
        ({"beta": -0.1}, "trainer.beta is -0.1"),
        ({"max_prompt_length": 4}, "DPOConfig has no such key"),
    ],
)
def test_keys_that_do_not_fit_or_would_be_ignored_are_refused(trainer, says):
    problems, _ = trainer_problems("dpo", trainer)
    assert says in " ".join(problems)


@pytest.mark.parametrize(
    "trainer",
    [
        {},
        {"loss_type": ["sigmoid", "sft"], "loss_weights": [1.0, 0.2]},
        {"loss_type": "ipo", "ld_alpha": 0.5, "use_weighting": True},
        {"sync_ref_model": True, "ref_model_sync_steps": 4},
        {"precompute_ref_log_probs": True, "precompute_ref_batch_size": 2},
    ],
)
def test_good_trainer_blocks_pass(trainer):
    assert trainer_problems("dpo", trainer) == ([], [])


def test_preflight_measures_the_longest_sides_and_knows_what_an_adapter_does_not_go_with(request_of):
    budgets = dict.fromkeys(("max_turn_tokens", "max_episode_tokens", "max_context_tokens"))
    row = pair(0, rejected="no " * 100)
    gold = [{**row, "turns": [*row["shared"], *row["rejected"]]}]
    request = {**request_of(lora=LORA, trainer={"sync_ref_model": True}), "recipe": "dpo", "gold": gold}
    result = preflight.run({**request, "budgets": {**budgets, "max_length": 64}}, FakeHost())
    sync, length = result["problems"]
    assert "sync_ref_model needs a reference model of its own" in sync
    assert re.search(r"max_length is 64, but .*--max-length \d+", length)
