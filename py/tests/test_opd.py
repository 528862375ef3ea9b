"""On-policy distillation: the loss is the reverse KL by hand, on the policy's tokens alone, and it falls."""

import math

import peft
import pytest
import torch
from fake_host import FakeHost
from teacher_server import TeacherServer
from trainers import opd
from trainers.model import UserError, load_policy
from trainers.opd import build_trainer, sampled_reverse_kl
from trainers.teacher import load_teacher, open_endpoint
from transformers import AutoModelForCausalLM

from tiny import tiny_model, tiny_tokenizer

SAMPLING = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "max_turn_tokens": 8,
    "max_episode_tokens": 32,
    "max_context_tokens": None,
}


@pytest.fixture(scope="session")
def teacher_folder(tiny_folder, tmp_path_factory):
    """The student with noise on every weight: near enough to be learnt from, far enough to be seen."""
    folder = tmp_path_factory.mktemp("models") / "teacher"
    model = AutoModelForCausalLM.from_pretrained(tiny_folder)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.04 * torch.randn(parameter.shape, generator=generator)
    model.save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture
def request_of(tiny_folder, teacher_folder, tmp_path):
    def build(trainer=None, sampling=None, **changes):
        small = {"max_steps": 2, "per_device_train_batch_size": 4, "learning_rate": 1e-2, "save_strategy": "no"}
        request = {
            "model": str(tiny_folder),
            "teacher": {"kind": "model", "model": str(teacher_folder)},
            "policy": "model:tiny",
            "output_dir": str(tmp_path / "run"),
            "seed": 5,
            "trainer": {**small, **(trainer or {})},
            "lora": None,
            "chat_template_kwargs": {},
            "task_ids": ["a", "b", "c", "d"],
            "sampling": {**SAMPLING, **(sampling or {})},
        }
        return {**request, **changes}

    return build


@pytest.fixture
def api_request_of(request_of, teacher_folder):
    """The same teacher behind HTTP."""
    with TeacherServer(AutoModelForCausalLM.from_pretrained(teacher_folder), tiny_tokenizer()) as server:

        def build(**changes):
            teacher = {**server.spec(), "tokenizer": str(teacher_folder)}
            return request_of(**{"teacher": teacher, **changes})

        yield build, server


def one_batch(request, host):
    """A trainer with one played batch, as its loss takes it."""
    if request["teacher"]["kind"] == "model":
        parts = {"teacher": load_teacher(request)}
    else:
        parts = {"endpoint": open_endpoint(request["teacher"])}
        parts["endpoint"].probe([1, 2, 3])
    trainer, _ = build_trainer(request, load_policy(request), host, **parts)
    trainer.model.train()
    trainer.current_gradient_accumulation_steps = 1  # set by train()
    size = request["trainer"]["per_device_train_batch_size"]
    return trainer, trainer._generate_and_score_completions([{"prompt": task} for task in "abcd"[:size]])


def logprobs_of(model, batch, temperature=1.0) -> torch.Tensor:
    """(B, C, V), with plain transformers."""
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
    attention = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
    # Positions as TRL leaves them: counted with the padding in front.
    logits = model.eval()(input_ids=ids, attention_mask=attention).logits
    width = batch["completion_ids"].size(1)
    return torch.log_softmax(logits[:, -width - 1 : -1] / temperature, -1)


def policy_mask(batch) -> torch.Tensor:
    return (batch["completion_mask"] * batch["tool_mask"]).bool()


def weights(folder) -> list[torch.Tensor]:
    return list(AutoModelForCausalLM.from_pretrained(folder).parameters())


def reverse_kl_by_hand(student: torch.Tensor, teacher: torch.Tensor, mask: torch.Tensor) -> float:
    """Σ p (log p − log q) a token, averaged over the policy's; with loops, to share nothing with the code."""
    total, count = 0.0, 0
    for row in range(mask.size(0)):
        for place in range(mask.size(1)):
            if mask[row, place]:
                p, q = student[row, place].double(), teacher[row, place].double()
                total += (p.exp() * (p - q)).sum().item()
                count += 1
    return total / count


@pytest.mark.parametrize("temperature", [1.0, 0.9, 1.7])
def test_the_loss_is_the_reverse_kl_by_hand(request_of, teacher_folder, tiny_folder, temperature):
    request = request_of(sampling={"temperature": temperature})
    trainer, batch = one_batch(request, FakeHost())
    mask = policy_mask(batch)
    assert 0 < mask.sum() < batch["completion_mask"].sum(), "both kinds of token are there"
    loss = trainer.compute_loss(trainer.model, batch)
    models = [AutoModelForCausalLM.from_pretrained(folder) for folder in (tiny_folder, teacher_folder)]
    with torch.no_grad():
        student, teacher = (logprobs_of(model, batch, temperature) for model in models)
    expected = reverse_kl_by_hand(student, teacher, mask)
    assert loss.item() == pytest.approx(expected, rel=1e-4) and expected > 0.01
    divergence, teacher_sum, student_sum, count = trainer._sums.tolist()
    assert count == mask.sum() and divergence / count == pytest.approx(expected, rel=1e-4)
    drawn = batch["completion_ids"].unsqueeze(-1)
    assert teacher_sum == pytest.approx(teacher.gather(-1, drawn).squeeze(-1)[mask].sum().item(), rel=1e-4)
    assert student_sum == pytest.approx(student.gather(-1, drawn).squeeze(-1)[mask].sum().item(), rel=1e-4)


def test_its_gradient_is_the_reverse_kls(request_of, teacher_folder):
    trainer, batch = one_batch(request_of(), FakeHost())
    trainer.compute_loss(trainer.model, batch).backward()
    ours = [parameter.grad.clone() for parameter in trainer.model.parameters()]
    trainer.model.zero_grad()
    mask = policy_mask(batch)
    with torch.no_grad():
        teacher = logprobs_of(AutoModelForCausalLM.from_pretrained(teacher_folder), batch)
    student = logprobs_of(trainer.model, batch)
    ((student.exp() * (student - teacher)).sum(-1)[mask].sum() / mask.sum()).backward()
    for mine, parameter in zip(ours, trainer.model.parameters(), strict=True):
        assert torch.allclose(mine, parameter.grad, atol=1e-5)


def test_other_betas_are_trls(request_of, teacher_folder, tiny_folder):
    trainer, batch = one_batch(request_of(trainer={"beta": 0.0}), FakeHost())
    loss = trainer.compute_loss(trainer.model, batch)
    with torch.no_grad():
        student, teacher = (
            logprobs_of(AutoModelForCausalLM.from_pretrained(folder), batch) for folder in (tiny_folder, teacher_folder)
        )
    mask = policy_mask(batch)
    assert loss.item() == pytest.approx(reverse_kl_by_hand(teacher, student, mask), rel=1e-4), "the forward KL"
    # What is logged as the reverse KL is then estimated from the sampled tokens.
    drawn = batch["completion_ids"].unsqueeze(-1)
    gap = (student - teacher).gather(-1, drawn).squeeze(-1)[mask].mean().item()
    assert (trainer._sums[0] / trainer._sums[3]).item() == pytest.approx(gap, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("kind", ["model", "api"])
def test_dt_11_what_the_environment_wrote_contributes_nothing(request_of, api_request_of, kind):
    """Other teachers' opinions of observations change neither loss nor gradient; the policy's tokens do."""
    request = request_of() if kind == "model" else api_request_of[0]()
    trainer, batch = one_batch(request, FakeHost(observation="12345"))
    mask = policy_mask(batch)
    observed = batch["completion_mask"].bool() & ~mask
    assert observed.sum(dim=1).min() >= 5
    gradients, losses = [], []
    for changed in (None, observed, mask):
        variant = dict(batch)
        # A label says which token a position is judged by; context is left as it is.
        if changed is not None:
            variant["teacher_logps"] = batch["teacher_logps"] - 3.0 * changed if kind == "api" else None
        if kind == "model" and changed is not None:
            head = trainer.teacher_model.get_output_embeddings()
            original = trainer._get_last_hidden_state

            def shifted(model, *args, original=original, changed=changed, head=head, **kwargs):
                hidden = original(model, *args, **kwargs)
                if model.get_output_embeddings() is not head:
                    return hidden
                return torch.where(changed.unsqueeze(-1), hidden * -2, hidden)

            trainer._get_last_hidden_state = shifted
        trainer.model.zero_grad()
        loss = trainer.compute_loss(trainer.model, variant)
        loss.backward()
        losses.append(loss.item())
        gradients.append([each.grad.clone() for each in trainer.model.parameters()])
        if kind == "model" and changed is not None:
            trainer._get_last_hidden_state = original
    assert losses[0] == losses[1] != losses[2]
    assert all(torch.equal(a, b) for a, b in zip(gradients[0], gradients[1], strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(gradients[0], gradients[2], strict=True))


def test_a_failed_episode_counts_for_nothing(request_of):
    host = FakeHost(reward=lambda episode: None if episode.task_id == "b" else 0.5)
    trainer, batch = one_batch(request_of(), host)
    assert policy_mask(batch).sum(dim=1).gt(0).tolist() == [True, False, True, True]
    assert batch["num_items_in_batch"] == policy_mask(batch).sum() == trainer.teacher_counts.tokens
    metrics = trainer._metrics["train"]
    assert metrics["rollout/invalid"] == [0.25] and metrics["reward"] == [0.5]


@pytest.mark.parametrize("kind", ["model", "api"])
def test_a_step_without_a_valid_episode_changes_nothing(request_of, api_request_of, tiny_folder, kind):
    request = request_of() if kind == "model" else api_request_of[0]()
    request["trainer"]["max_steps"] = 1
    host = FakeHost(reward=lambda episode: None)
    result = opd.run(request, host)
    metrics = host.logs[0]["metrics"]
    assert metrics["loss"] == 0 and metrics["rollout/empty_step"] == 1 and "opd/reverse_kl" not in metrics
    assert result["teacher_tokens"] == 0
    final = weights(f"{request['output_dir']}/final")
    assert all(torch.equal(a, b) for a, b in zip(weights(tiny_folder), final, strict=True))


def test_two_steps_learn_log_and_save(request_of, tiny_folder, tmp_path):
    host = FakeHost(reward_weights={"length": 0.7})
    result = opd.run(request_of(), host)
    assert result["steps"] == 2 and result["rollouts"] == 8 and math.isfinite(result["train_loss"])
    assert result["stop_reason"] == "max_steps_or_epochs_completed" and not host.open
    assert result["teacher_tokens"] == result["policy_tokens"] > 0 and result["teacher_calls"] == 0
    final = weights(tmp_path / "run" / "final")
    assert any(not torch.equal(a, b) for a, b in zip(weights(tiny_folder), final, strict=True))
    metrics = host.logs[0]["metrics"]
    assert metrics["loss"] == pytest.approx(metrics["opd/reverse_kl"], rel=1e-4) and metrics["opd/reverse_kl"] > 0
    assert metrics["opd/teacher_logprob"] < 0 and metrics["opd/student_logprob"] < 0
    assert metrics["reward_components/length"] == pytest.approx(metrics["reward"])
    assert metrics["reward_weights/length"] == pytest.approx(0.7) and metrics["completions/mean_length"] > 0
    for name in ("turns", "finished", "truncated", "invalid", "success"):
        assert f"rollout/{name}" in metrics
    seeds = [each["seed"] for start in host.starts for each in start["episodes"]]
    assert len(set(seeds)) == 8 and {each["trial"] for start in host.starts for each in start["episodes"]} == {0}


def test_one_seed_one_run_bit_for_bit(request_of, tmp_path):
    hosts = [FakeHost(), FakeHost()]
    for name, host in zip(("one", "two"), hosts, strict=True):
        opd.run(request_of(output_dir=str(tmp_path / name)), host)
    replies = [[each["episode"].replies for each in host.finished] for host in hosts]
    assert replies[0] == replies[1]
    finals = [weights(tmp_path / name / "final") for name in ("one", "two")]
    assert all(torch.equal(a, b) for a, b in zip(*finals, strict=True))


def test_batch_1_times_accumulation_4_is_batch_4(request_of, tmp_path):
    figures = []
    for batch, accumulation in ((4, 1), (1, 4)):
        host = FakeHost()
        trainer = {
            "per_device_train_batch_size": batch,
            "gradient_accumulation_steps": accumulation,
            "max_steps": 1,
            "max_grad_norm": 1e9,
        }
        opd.run(request_of(trainer=trainer, output_dir=str(tmp_path / str(batch))), host)
        names = ("loss", "grad_norm", "opd/reverse_kl", "opd/teacher_logprob", "opd/student_logprob")
        figures.append([host.logs[0]["metrics"][name] for name in names])
    assert figures[0] == pytest.approx(figures[1], rel=1e-3)


@pytest.mark.parametrize(
    ("kind", "steps", "rows", "share"),
    # The estimate from sampled tokens is noisy: it takes more of them for less.
    [("model", 25, 8, 0.5), ("api", 50, 16, 0.7)],
)
def test_the_reverse_kl_falls(request_of, api_request_of, kind, steps, rows, share):
    trainer = {
        "max_steps": steps,
        "learning_rate": 1e-3,
        "lr_scheduler_type": "linear",
        "per_device_train_batch_size": rows,
        "save_strategy": "no",
    }
    host = FakeHost()
    opd.run((request_of if kind == "model" else api_request_of[0])(trainer=trainer), host)
    curve = [log["metrics"]["opd/reverse_kl"] for log in host.logs if "opd/reverse_kl" in log["metrics"]]
    first, last = sum(curve[:3]) / 3, sum(curve[-8:]) / 8
    assert last < share * first, curve


def test_a_student_that_is_its_teacher_has_nothing_to_learn(request_of, tiny_folder):
    host = FakeHost()
    opd.run(request_of(teacher={"kind": "model", "model": str(tiny_folder)}, trainer={"max_steps": 1}), host)
    metrics = host.logs[0]["metrics"]
    assert abs(metrics["opd/reverse_kl"]) < 1e-5 and metrics["grad_norm"] < 1e-4
    assert metrics["opd/teacher_logprob"] == pytest.approx(metrics["opd/student_logprob"], abs=1e-4)


def test_an_adapter_is_trained_and_saved(request_of, tmp_path):
    lora = {"r": 2, "lora_alpha": 4, "lora_dropout": 0.0, "target_modules": ["q_proj", "v_proj"]}
    result = opd.run(request_of(lora=lora), FakeHost())
    assert result["parameters"]["trainable"] < result["parameters"]["total"] / 10
    assert (tmp_path / "run" / "final" / "adapter_model.safetensors").is_file()


def test_an_adapter_teaches_as_the_model_it_makes(request_of, tiny_folder, tmp_path):
    base = AutoModelForCausalLM.from_pretrained(tiny_folder)
    base.name_or_path = str(tiny_folder)
    adapted = peft.get_peft_model(base, peft.LoraConfig(r=2, target_modules=["q_proj"], init_lora_weights=False))
    adapted.save_pretrained(tmp_path / "adapter")
    teacher = load_teacher(request_of(teacher={"kind": "model", "model": str(tmp_path / "adapter")}))
    ids = torch.tensor([[5, 6, 7, 8]])
    assert torch.allclose(teacher(ids).logits, adapted.eval()(ids).logits, atol=1e-5)
    assert not any(parameter.requires_grad for parameter in teacher.parameters())


# -------------------------------------------------------------------------------------------------------- endpoint


def test_in_expectation_the_sampled_loss_is_the_exact_one():
    """A vocabulary of 7: summed over every token that could be drawn, value and gradient are those of the KL."""
    torch.manual_seed(0)
    logits = torch.randn(3, 7, dtype=torch.float64, requires_grad=True)
    teacher = torch.log_softmax(torch.randn(3, 7, dtype=torch.float64), -1)
    student = torch.log_softmax(logits, -1)
    exact = (student.exp() * (student - teacher)).sum()
    exact_gradient = torch.autograd.grad(exact, logits, retain_graph=True)[0]

    expected = torch.zeros((), dtype=torch.float64)
    gradient = torch.zeros_like(logits)
    for token in range(7):
        estimate = sampled_reverse_kl(student[:, token], teacher[:, token])
        probability = student[:, token].exp().detach()
        expected += (probability * estimate.detach()).sum()
        gradient += torch.autograd.grad((probability * estimate).sum(), logits, retain_graph=True)[0]
    assert expected.item() == pytest.approx(exact.item(), abs=1e-12)
    assert torch.allclose(gradient, exact_gradient, atol=1e-12)


def test_the_endpoints_loss_is_the_estimator_on_what_was_drawn(api_request_of, teacher_folder):
    build, _ = api_request_of
    trainer, batch = one_batch(build(), FakeHost())
    loss = trainer.compute_loss(trainer.model, batch)
    loss.backward()
    ours = [parameter.grad.clone() for parameter in trainer.model.parameters()]
    trainer.model.zero_grad()
    mask, drawn = policy_mask(batch), batch["completion_ids"].unsqueeze(-1)
    student = logprobs_of(trainer.model, batch).gather(-1, drawn).squeeze(-1)[mask]
    with torch.no_grad():
        model = AutoModelForCausalLM.from_pretrained(teacher_folder)
        teacher = logprobs_of(model, batch).gather(-1, drawn).squeeze(-1)[mask]
    assert torch.allclose(batch["teacher_logps"][mask], teacher, atol=1e-3)
    advantage = (teacher - student).detach()
    assert loss.item() == pytest.approx(-advantage.mean().item(), abs=1e-4)
    (-(advantage * student).sum() / mask.sum()).backward()
    for mine, parameter in zip(ours, trainer.model.parameters(), strict=True):
        assert torch.allclose(mine, parameter.grad, atol=1e-4)


def test_tk_12_tokens_without_a_number_are_neutral_and_counted(api_request_of):
    build, server = api_request_of
    server.drop = lambda place: place % 3 == 0
    host = FakeHost()
    result = opd.run(build(), host)
    metrics = host.logs[0]["metrics"]
    assert 0.2 < metrics["opd/missing_logprobs"] < 0.5 and math.isfinite(metrics["loss"])
    assert result["missing_logprobs"] > 0
    assert result["teacher_tokens"] + result["missing_logprobs"] == result["policy_tokens"]
    trainer, batch = one_batch(build(), FakeHost())
    known = policy_mask(batch)
    assert batch["num_items_in_batch"] == known.sum() < (batch["student_logps"] != 0).sum()
    first = trainer.compute_loss(trainer.model, batch).item()
    batch["teacher_logps"] = torch.where(known, batch["teacher_logps"], -50.0)
    assert trainer.compute_loss(trainer.model, batch).item() == first


def test_a_teacher_that_knows_no_token_ends_the_run(api_request_of):
    build, server = api_request_of
    request = build()
    trainer, _ = one_batch(request, FakeHost())
    server.drop = lambda place: True
    with pytest.raises(RuntimeError, match="none of 64 tokens"):
        trainer._generate_and_score_completions([{"prompt": task} for task in "abcd"])


def test_only_valid_episodes_are_sent_and_calls_are_counted(api_request_of):
    build, _ = api_request_of
    request = build(trainer={"max_steps": 1, "per_device_train_batch_size": 4, "save_strategy": "no"})
    result = opd.run(request, FakeHost(reward=lambda episode: None if episode.task_id == "b" else 0.5))
    assert result["teacher_calls"] == 3
    assert result["teacher_tokens"] == 3 * 16


# --------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"sampling": {"temperature": 0.0}}, "temperature is 0"),
        ({"trainer": {"temperature": 0.5}}, "--temperature"),
        ({"trainer": {"beta": 1.5}}, r"beta must be in \[0.0, 1.0\]"),
        ({"trainer": {"use_vllm": True}}, "sampled with transformers"),
        ({"trainer": {"max_observation_tokens": 256}}, "environment's affair; max_context_tokens"),
        ({"trainer": {"teacher_model_name_or_path": "x"}}, "--teacher model:"),
        ({"trainer": {"lmbdaa": 1.0}}, "DistillationConfig has no such key"),
        ({"teacher": {"kind": "model", "model": "/nowhere"}}, "/nowhere"),
    ],
)
def test_settings_that_cannot_work_stop_before_the_model_loads(request_of, changes, says):
    with pytest.raises(UserError, match=says):
        opd.run(request_of(**changes), FakeHost())


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"sampling": {"temperature": 0.9}}, "temperature is 0.9.*--temperature 1"),
        ({"sampling": {"top_p": 0.9}}, "top_p is 0.9"),
        ({"sampling": {"top_k": 5}}, "--top-k 0"),
        ({"trainer": {"beta": 0.5}}, "beta is 0.5.*reverse KL"),
    ],
)
def test_what_sampled_tokens_cannot_tell_is_refused_with_an_endpoint(request_of, changes, says):
    teacher = {"kind": "api", "base_url": "http://127.0.0.1:9", "model": "m", "tokenizer": None}
    with pytest.raises(UserError, match=says):
        opd.run(request_of(teacher=teacher, **changes), FakeHost())


def test_a_wider_padded_output_layer_of_the_teacher_is_cut(request_of, tmp_path, tiny_folder):
    tokenizer = tiny_tokenizer()
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "max_position_embeddings": 1024}
    folder = tmp_path / "padded"
    tiny_model(tokenizer, end_rate=0, vocab_size=len(tokenizer) + 40, **shape).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    request = request_of(teacher={"kind": "model", "model": str(folder)}, trainer={"max_steps": 1})
    assert math.isfinite(opd.run(request, FakeHost())["train_loss"])
    swapped = request_of(model=str(folder), teacher={"kind": "model", "model": str(tiny_folder)})
    with pytest.raises(UserError, match="rows, the student's"):
        opd.run(swapped, FakeHost())
