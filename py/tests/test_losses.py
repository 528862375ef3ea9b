"""Each loss of the GRPO family on a fixed batch: the trainer's number against one added up by hand."""

import json
import math
from pathlib import Path

import pytest
import torch
from fake_host import FakeHost
from trainers import grpo
from trainers.grpo import build_trainer
from trainers.losses import aggregate
from trainers.model import UserError, load_policy
from trainers.shaping import Shaping, shape_advantages

TABLES = json.loads((Path(__file__).parents[2] / "src/core/fixtures/advantages.json").read_text())
LONGEST = 32  # the constant that dr_grpo divides by
SAMPLING = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "max_turn_tokens": 8,
    "max_episode_tokens": LONGEST,
    "max_context_tokens": None,
}
LOSSES = ["grpo", "dapo", "dr_grpo", "bnpo", "luspo", "cispo", "sapo", "vespo"]

# Four rows of six tokens; the third has a gap, the fourth is masked as a whole, as an invalid rollout is.
MASK = [[1, 1, 1, 1, 0, 0], [1, 1, 0, 0, 0, 0], [1, 1, 0, 0, 1, 1], [0, 0, 0, 0, 0, 0]]
LENGTHS = [4, 2, 6, 3]
TURNS = [[0] * 6, [0] * 6, [0, 0, 0, 0, 1, 1], [0] * 6]
ADVANTAGES = [1.5, -0.5, -1.0, 0.0]
# log(π / π_old) of each token: outside and inside both clips, up and down.
OFFSETS = [[0.5, -0.5, 0.1, 0.25, 0, 0], [0.4, -0.6, 0, 0, 0, 0], [-0.3, 0.05, 9, 9, 1.7, -0.1], [0] * 6]
REFERENCE = [[0.2, -0.2, 0.0, 0.4, 0, 0], [0.1, 0.3, 0, 0, 0, 0], [-0.1, 0.6, 5, 5, -0.2, 0.0], [0] * 6]


@pytest.fixture
def request_of(tiny_folder, tmp_path):
    def build(trainer=None, **changes):
        small = {"max_steps": 1, "per_device_train_batch_size": 4, "num_generations": 4, "learning_rate": 1e-2}
        return {
            "model": str(tiny_folder),
            "policy": "model:tiny",
            "output_dir": str(tmp_path / "run"),
            "seed": 5,
            "trainer": {**small, "save_strategy": "no", **(trainer or {})},
            "lora": None,
            "chat_template_kwargs": {},
            "task_ids": ["a", "b"],
            "sampling": SAMPLING,
            **changes,
        }

    return build


def toy(request, accumulation=1):
    """The trainer, the fixed batch with its reference and old log-probabilities, and the policy's own."""
    trainer, _ = build_trainer(request, load_policy(request), FakeHost())
    trainer.model.train()
    trainer.current_gradient_accumulation_steps = accumulation
    ids = torch.randint(1, 250, (4, 9), generator=torch.Generator().manual_seed(3))
    batch = {
        "prompt_ids": ids[:, :3],
        "prompt_mask": torch.ones(4, 3, dtype=torch.long),
        "completion_ids": ids[:, 3:],
        "completion_mask": torch.tensor([[1] * length + [0] * (6 - length) for length in LENGTHS]),
        "tool_mask": torch.tensor(MASK),
        "advantages": torch.tensor(ADVANTAGES),
        "num_items_in_batch": torch.tensor(40),  # of the whole generation batch
    }
    attention = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
    with torch.no_grad():
        logps, _, _ = trainer._get_per_token_logps_and_entropies(trainer.model, ids, attention, 6)
    batch["old_per_token_logps"] = logps - torch.tensor(OFFSETS)
    batch["ref_per_token_logps"] = logps + torch.tensor(REFERENCE)
    return trainer, batch, logps.double().tolist()


def clip(value, low, high):
    return min(max(value, low), high)


def by_hand(loss_type, logps, advantages, *, level="token", low=0.2, high=0.2, delta=math.inf, beta=0.0, kl="k3"):
    """(4, 6) losses of single tokens."""
    rows = []
    for row in range(4):
        places = [place for place in range(6) if MASK[row][place]]
        total = sum(OFFSETS[row][place] for place in places)
        losses = []
        for place in range(6):
            advantage = advantages[row][place]
            log_ratio = total / max(1, len(places)) if level == "sequence" else OFFSETS[row][place]
            ratio = math.exp(log_ratio)
            if loss_type == "cispo":
                loss = -min(ratio, high) * advantage * logps[row][place]
            elif loss_type == "sapo":
                tau = 1.0 if advantage > 0 else 1.05
                loss = -4 / tau / (1 + math.exp(-tau * (ratio - 1))) * advantage
            elif loss_type == "vespo":
                k, lam = (2.0, 3.0) if advantage >= 0 else (3.0, 2.0)
                whole = math.exp(total)
                loss = -(whole**k) * math.exp(lam * (1 - whole)) * advantage * logps[row][place]
            else:
                loss = -min(min(ratio, delta) * advantage, clip(ratio, 1 - low, 1 + high) * advantage)
            difference = REFERENCE[row][place]
            k3 = (math.exp(difference) - difference - 1) * ratio  # TRL's bias correction is on unless set
            losses.append(loss + beta * (difference**2 if kl == "squared" else k3))
        rows.append(losses)
    return rows


def added_up(loss_type, losses, accumulation=1, tokens=40):
    sums = [sum(loss for loss, bit in zip(*row, strict=True) if bit) for row in zip(losses, MASK, strict=True)]
    counts = [sum(row) for row in MASK]
    if loss_type in ("dapo", "cispo", "vespo"):
        return sum(sums) / tokens
    total = {
        "grpo": sum(each / max(1, count) for each, count in zip(sums, counts, strict=True)) / 4,
        "bnpo": sum(sums) / sum(counts),
        "dr_grpo": sum(sums) / (4 * LONGEST),
        "luspo": sum(sums) / 4,
    }
    return total["grpo" if loss_type == "sapo" else loss_type] / accumulation


def wide(advantages):
    return [[advantage] * 6 for advantage in advantages]


@pytest.mark.parametrize("loss_type", LOSSES)
@pytest.mark.parametrize("level", ["token", "sequence"])
def test_the_loss_of_a_fixed_batch(request_of, loss_type, level):
    if loss_type == "vespo" and level == "sequence":
        pytest.skip("refused: VESPO weighs sequences by itself")
    high = 5.0 if loss_type == "cispo" else 0.28
    trainer, batch, logps = toy(
        request_of(
            {
                "loss_type": loss_type,
                "importance_sampling_level": level,
                "epsilon_high": high,
                "scale_rewards": "none" if loss_type == "dr_grpo" else "group",
                "gradient_accumulation_steps": 2,
            }
        ),
        accumulation=2,
    )
    loss = trainer.compute_loss(trainer.model, batch)
    expected = added_up(loss_type, by_hand(loss_type, logps, wide(ADVANTAGES), level=level, high=high), 2)
    assert loss.item() == pytest.approx(expected, rel=2e-5, abs=1e-6)
    loss.backward()
    assert all(torch.isfinite(each.grad).all() for each in trainer.model.parameters() if each.grad is not None)


@pytest.mark.parametrize("kl", ["k3", "squared"])
@pytest.mark.parametrize("loss_type", LOSSES)
def test_the_kl_term_is_added_up_as_the_loss_is(request_of, loss_type, kl):
    high = 5.0 if loss_type == "cispo" else 0.2
    trainer, batch, logps = toy(
        request_of(
            {"loss_type": loss_type, "beta": 0.3, "epsilon_high": high, "gradient_accumulation_steps": 2},
            shaping={"advantage": "none", "kl_estimator": kl},
        ),
        accumulation=2,
    )
    loss = trainer.compute_loss(trainer.model, batch)
    hand = by_hand(loss_type, logps, wide(ADVANTAGES), high=high, beta=0.3, kl=kl)
    assert loss.item() == pytest.approx(added_up(loss_type, hand, 2), rel=2e-5, abs=1e-6)
    assert trainer.beta == 0.3 and trainer._logps is None
    values = by_hand("bnpo", logps, wide([0.0] * 4), beta=1.0, kl=kl)
    assert trainer._metrics["train"]["kl"] == pytest.approx([added_up("bnpo", values)], rel=1e-5)


def test_the_squared_kl_pulls_towards_the_reference(request_of):
    request = request_of({"beta": 0.5, "loss_type": "bnpo"}, shaping={"advantage": "none", "kl_estimator": "squared"})
    trainer, batch, _ = toy(request)
    batch["advantages"] = torch.zeros(4)
    original, seen = trainer._get_per_token_logps_and_entropies, []

    def kept(*args, **kwargs):
        outputs = original(*args, **kwargs)
        outputs[0].retain_grad()
        seen.append(outputs[0])
        return outputs

    trainer._get_per_token_logps_and_entropies = kept
    trainer.compute_loss(trainer.model, batch).backward()
    mask = torch.tensor(MASK)
    expected = 0.5 * 2 * -torch.tensor(REFERENCE) * mask / mask.sum()
    assert torch.allclose(seen[0].grad, expected, atol=1e-6)


@pytest.mark.parametrize(("advantage", "ratio", "expected"), TABLES["token_loss"])
def test_the_table_of_token_losses_with_delta_as_the_dual_clip(request_of, advantage, ratio, expected):
    trainer, batch, _ = toy(request_of({"loss_type": "bnpo", "delta": 3.0}))
    logps = batch["old_per_token_logps"] + torch.tensor(OFFSETS)
    batch["old_per_token_logps"] = logps - math.log(ratio)
    batch["advantages"] = torch.full((4,), float(advantage))
    assert trainer.compute_loss(trainer.model, batch).item() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("row", [each for each in TABLES["kl"] if each["k3"] < 10])  # TRL clamps neither
@pytest.mark.parametrize("estimator", ["k3", "squared"])
def test_the_table_of_kl_estimators(request_of, estimator, row):
    shaping = {"advantage": "none", "kl_estimator": estimator}
    trainer, batch, _ = toy(request_of({"loss_type": "bnpo", "beta": 1.0}, shaping=shaping))
    logps = batch["old_per_token_logps"] + torch.tensor(OFFSETS)
    batch["old_per_token_logps"], batch["advantages"] = logps, torch.zeros(4)
    batch["ref_per_token_logps"] = logps + row["ref"] - row["logp"]
    assert trainer.compute_loss(trainer.model, batch).item() == pytest.approx(row[estimator], abs=2e-6)


@pytest.mark.parametrize(
    ("loss_type", "mode"),
    [
        ("bnpo", "token-mean"),
        ("luspo", "seq-mean-token-sum"),
        ("grpo", "seq-mean-token-mean"),
        ("dr_grpo", "seq-mean-token-sum-norm"),
    ],
)
def test_the_example_of_ways_to_add_up(loss_type, mode):
    table = TABLES["aggregation"]
    widest = max(map(len, table["advantages"]))
    rows = [[-each for each in row] + [9.0] * (widest - len(row)) for row in table["advantages"]]
    mask = torch.tensor([[1] * len(row) + [0] * (widest - len(row)) for row in table["advantages"]])
    total = aggregate(torch.tensor(rows), mask, loss_type, accumulation=1, tokens=None, longest=widest)
    assert total.item() == pytest.approx(table[mode], abs=1e-6)


@pytest.mark.parametrize("shaper", ["lata", "turn_discount", "turn_scores"])
@pytest.mark.parametrize("loss_type", ["dapo", "bnpo", "cispo"])
@pytest.mark.parametrize("level", ["token", "sequence"])
def test_shaped_advantages_go_into_the_loss_token_by_token(request_of, shaper, loss_type, level):
    high = 5.0 if loss_type == "cispo" else 0.2
    given = {"loss_type": loss_type, "importance_sampling_level": level, "epsilon_high": high}
    trainer, batch, logps = toy(request_of(given))
    scores = [[0.5], [-2.0], [0.25, -1.0], None]
    shaped = shape_advantages(
        batch["advantages"], torch.tensor(MASK), torch.tensor(TURNS), Shaping(advantage=shaper), scores
    )
    batch["advantages"] = shaped
    loss = trainer.compute_loss(trainer.model, batch).item()
    hand = by_hand(loss_type, logps, shaped.tolist(), level=level, high=high)
    assert loss == pytest.approx(added_up(loss_type, hand), rel=2e-5, abs=1e-6)
    if loss_type != "cispo":
        assert math.isfinite(trainer._metrics["train"]["clip_ratio/region_mean"][0])


# ------------------------------------------------------------------------------------------ from rollouts to the loss


def played(request):
    """A trainer with the micro-batches of one optimizer step, as they reach the loss."""
    finishes = lambda episode: len(episode.replies) == 1 + episode.trial % 2  # noqa: E731
    host = FakeHost(reward=lambda episode: episode.trial / 3, finishes=finishes)
    trainer, _ = build_trainer(request, load_policy(request), host)
    trainer.model.train()
    trainer.current_gradient_accumulation_steps = trainer.args.gradient_accumulation_steps
    rows = [{"prompt": task} for task in ("a", "b") for _ in range(4)]
    batches = []
    for step in range(trainer.args.gradient_accumulation_steps):
        trainer._step = step
        batches.append(trainer._prepare_inputs(rows))
    return trainer, batches


@pytest.mark.parametrize("loss_type", ["dapo", "bnpo"])
def test_the_loss_of_an_update_is_the_token_mean_of_9_2(request_of, loss_type):
    """dapo: one mean over the update's tokens; bnpo: the mean of the micro-batches' means, the original's scope."""
    trainer = {"loss_type": loss_type, "per_device_train_batch_size": 2, "gradient_accumulation_steps": 4}
    trainer, batches = played(request_of(trainer, shaping={"advantage": "lata", "kl_estimator": "k3"}))
    means, total, tokens = [], 0.0, 0
    for batch in batches:
        mask = batch["completion_mask"] * batch["tool_mask"]
        assert batch["advantages"].shape == mask.shape and (batch["advantages"][mask == 0] == 0).all()
        whole = -batch["advantages"].double().sum().item()  # one update on what was sampled: the ratio is 1
        means.append(whole / mask.sum().item())
        total, tokens = total + whole, tokens + mask.sum().item()
    losses = [trainer.compute_loss(trainer.model, batch).item() for batch in batches]
    expected = total / tokens if loss_type == "dapo" else sum(means) / 4
    assert sum(losses) == pytest.approx(expected, abs=1e-6)


def test_every_row_keeps_its_own_matrix_through_shuffling_dealing_and_trimming(request_of):
    given = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 4}
    _, batches = played(request_of(given, shaping={"advantage": "lata", "alpha": 1.3}))
    seen = 0
    for batch in batches:
        for ids, mask, tool, matrix in zip(
            batch["completion_ids"], batch["completion_mask"], batch["tool_mask"], batch["advantages"], strict=True
        ):
            length = int(mask.sum())
            # its advantage back from the weights of its own mask
            alone = shape_advantages(
                torch.ones(1),
                tool[None, :length],
                torch.zeros(1, length, dtype=torch.long),
                Shaping(advantage="lata", alpha=1.3),
            )[0]
            used = alone > 0
            ratios = matrix[:length][used] / alone[used]
            assert torch.allclose(ratios, ratios[0].expand_as(ratios), rtol=1e-4, atol=1e-6)
            assert (matrix[length:] == 0).all() and len(ids) == len(matrix)
            seen += 1
    assert seen == 8 and len({batch["advantages"].shape[1] for batch in batches}) > 1


@pytest.mark.parametrize("row", TABLES["group"])
def test_the_table_of_group_advantages_but_for_trls_epsilon(request_of, row):
    size = len(row["rewards"])
    request = request_of({"per_device_train_batch_size": size, "num_generations": size})
    trainer, _ = build_trainer(request, load_policy(request), FakeHost(reward=lambda e: row["rewards"][e.trial]))
    trainer.model.train()
    advantages = trainer._generate_and_score_completions([{"prompt": "a"} for _ in range(size)])["advantages"]
    std = torch.tensor(row["rewards"]).double().std().item()
    expected = [advantage * (std + 1e-6) / (std + 1e-4) for advantage in row["advantages"]]
    assert advantages.tolist() == pytest.approx(expected, abs=2e-5)


def test_a_run_logs_where_its_advantages_lie(request_of):
    figures = {}
    for advantage in ("none", "turn_discount"):
        host = FakeHost(reward=lambda episode: episode.trial / 3, observation="x" * 150)
        shaping = {"advantage": advantage, "alpha": 1.05}
        result = grpo.run(request_of({"max_steps": 2}, shaping=shaping), host)
        assert result["steps"] == 2
        figures[advantage] = host.logs[0]["metrics"]
    plain, discounted = figures["none"], figures["turn_discount"]
    assert plain["adv/abs_mean"] > 0 and discounted["adv/abs_mean"] == pytest.approx(plain["adv/abs_mean"], rel=1e-5)
    # the second reply begins behind 150 tokens of the environment
    assert plain["adv/first100_share"] < 0.95 < 0.99 < discounted["adv/first100_share"]


def test_turn_scores_teach_even_where_the_rewards_are_equal(request_of):
    class Scored(FakeHost):
        def _finish(self, payload):
            answer = super()._finish(payload)
            for row, episode in enumerate(answer["episodes"]):
                replies = len(self.finished[-len(answer["episodes"]) + row]["episode"].replies)
                episode["turn_scores"] = [0.5, -0.5][:replies] if row != 1 else None
            return answer

    request = request_of(shaping={"advantage": "turn_scores"})
    host = Scored(reward=lambda episode: 0.5)
    trainer, _ = build_trainer(request, load_policy(request), host)
    trainer.model.train()
    batch = trainer._generate_and_score_completions([{"prompt": "a"} for _ in range(4)])
    for row in (0, 2, 3):
        mask = (batch["completion_mask"] * batch["tool_mask"])[row].bool()
        values = batch["advantages"][row][mask].tolist()
        assert set(values) == {0.5, -0.5} and values == sorted(values, reverse=True)
    assert (batch["advantages"][1] == 0).all()

    with pytest.raises(UserError, match="none of the step's 4 rollouts came with turn_scores"):
        grpo.run(request, FakeHost())
