"""Advantages a token: the tables of airline.md 9, which src/core/shaping.test.ts reads too, and the trainer's use."""

import json
import math
from pathlib import Path

import pytest
import torch
from trainers.losses import squared_kl
from trainers.shaping import Shaping, advantage_sums, discounts, shape_advantages
from trainers.tokens import Transcript

TABLES = json.loads((Path(__file__).parents[2] / "src/core/fixtures/advantages.json").read_text())
MASK = [1, 1, 0, 1, 0, 1, 1]
TURNS = [0, 0, 0, 1, 1, 2, 2]


def shaped(mask, turns=None, scores=None, advantages=(1.0,), **shaping) -> list[float]:
    rows = torch.tensor([mask] * len(advantages))
    index = torch.tensor([turns or [0] * len(mask)] * len(advantages))
    matrix = shape_advantages(torch.tensor(advantages), rows, index, Shaping(**shaping), scores)
    assert matrix.dtype == torch.float32
    return matrix[0].tolist() if len(advantages) == 1 else matrix.tolist()


@pytest.mark.parametrize("row", TABLES["discount"], ids=lambda row: "".join(map(str, row["mask"])))
def test_the_table_with_gaps(row):
    assert shaped(row["mask"], advantage="turn_discount") == pytest.approx(row["w"], abs=1e-6)
    assert shaped(row["mask"], advantage="lata") == pytest.approx(row["lata"], abs=1e-6)


@pytest.mark.parametrize("row", TABLES["contiguous"], ids=lambda row: str(row["length"]))
def test_the_table_without_gaps(row):
    length = row["length"]
    mask = torch.ones(1, length)
    weights = discounts(mask.bool(), torch.zeros(1, length), Shaping(advantage="turn_discount"))[0]
    assert weights[0].item() == pytest.approx(row["first_w"], rel=5e-4)
    shares = [weights[:count].sum().item() / length for count in (20, 60, 100)]
    assert shares == pytest.approx(row["shares"], abs=6e-4)
    assert (weights[0] / weights[-1]).item() == pytest.approx(row["ratio"], rel=0.05)
    assert shaped([1] * length, advantage="lata")[0] == pytest.approx(row["first_lata"], rel=2e-3)
    sums = advantage_sums(weights.unsqueeze(0), mask)
    assert (sums[0] / sums[1]).item() == pytest.approx(row["shares"][2], abs=6e-4)
    assert (sums[1] / sums[2]).item() == pytest.approx(1)


def test_shares_of_two_rows_in_a_token_mean():
    table = TABLES["two_rows"]
    for shaping, expected in ((Shaping(), table["vanilla"]), (Shaping(advantage="lata"), table["lata"])):
        mask = torch.tensor([[1] * length + [0] * (4000 - length) for length in table["lengths"]])
        matrix = shape_advantages(torch.ones(2), mask, torch.zeros_like(mask), shaping)
        assert (matrix.sum(dim=1) / mask.sum()).tolist() == pytest.approx(expected, abs=5e-6)


@pytest.mark.parametrize("row", TABLES["kl"])
def test_squared_kl(row):
    value = squared_kl(torch.tensor(row["ref"]), torch.tensor(row["logp"]))
    assert value.item() == pytest.approx(row["squared"], abs=1e-6)


def test_alpha_by_turn_is_equal_within_a_turn():
    row = shaped(MASK, TURNS, advantage="turn_discount", alpha=2.0, alpha_unit="turn")
    assert row == pytest.approx([weight * 5 / 12 for weight in (4, 4, 0, 2, 0, 1, 1)])


def test_the_lengths_root_goes_with_every_shaper():
    assert shaped(MASK, TURNS, length_norm="sqrt") == pytest.approx([bit / math.sqrt(5) for bit in MASK])
    by_turns = shaped(MASK, TURNS, length_norm="sqrt", length_base="turns")
    assert by_turns == pytest.approx([bit / math.sqrt(3) for bit in MASK])
    discount = shaped(MASK, TURNS, advantage="turn_discount")
    lata = shaped(MASK, TURNS, advantage="lata", length_base="turns")
    assert lata == pytest.approx([value / math.sqrt(3) for value in discount])
    assert shaped(MASK, TURNS, advantage="lata", length_norm="none") == discount


def test_turn_scores_are_added_to_their_turns_tokens():
    rows = shaped(MASK, TURNS, [[1, -2, 0.25], None], (0.5, 0.5), advantage="turn_scores")
    assert rows[0] == [1.5, 1.5, 0, -1.5, 0, 0.75, 0.75]
    assert rows[1] == [bit / 2 for bit in MASK]
    with pytest.raises(ValueError, match="row 0 has 3 turns, but 2 turn scores"):
        shaped(MASK, TURNS, [[1, 2]], advantage="turn_scores")


@pytest.mark.parametrize("advantage", ["none", "turn_discount", "lata", "turn_scores"])
@pytest.mark.parametrize("alpha_unit", ["token", "turn"])
def test_a_row_without_policy_tokens_is_zeros(advantage, alpha_unit):
    for base in ("tokens", "turns"):
        row = shaped([0, 0, 0], None, [[1.0]], advantage=advantage, alpha_unit=alpha_unit, length_base=base)
        assert row == [0, 0, 0]


@pytest.mark.parametrize("advantage", ["none", "turn_discount", "lata"])
def test_the_longest_completion_and_equal_rewards_are_numbers(advantage):
    length = 12_288  # α^(L−1) is beyond float64's range
    mask = torch.ones(3, length, dtype=torch.long)
    mask[1, 5_000:9_000] = 0
    mask[2] = 0
    shaping = Shaping(advantage=advantage)
    matrix = shape_advantages(torch.ones(3), mask, torch.zeros_like(mask), shaping)
    assert torch.isfinite(matrix).all() and (matrix[2] == 0).all()
    scale = math.sqrt(length) if shaping.divides else 1.0
    assert matrix[0].double().sum().item() * scale == pytest.approx(length, rel=1e-5)
    assert (shape_advantages(torch.zeros(3), mask, torch.zeros_like(mask), shaping) == 0).all()


def test_alpha_1_is_none_and_rounding_is_the_last_step():
    generator = torch.Generator().manual_seed(1)
    for alpha in (0.9, 1.0, 1.05, 1.3):
        mask = torch.randint(0, 2, (5, 37), generator=generator)
        advantages = torch.randn(5, generator=generator)
        turns = mask.cumsum(1) // 4
        matrix = shape_advantages(advantages, mask, turns, Shaping(advantage="turn_discount", alpha=alpha))
        mean = matrix.double().sum(1) / mask.sum(1)
        assert mean.tolist() == pytest.approx(advantages.tolist(), abs=1e-6)
        assert (matrix[mask == 0] == 0).all()
        if alpha == 1.0:
            assert torch.equal(matrix, advantages.unsqueeze(1) * mask)


def test_every_token_knows_its_reply():
    transcript = Transcript(prompt_ids=[1])
    assert transcript.turn_index == []
    transcript.add_sampled([5, 6], [-0.1, -0.1])
    transcript.add_template([7, 7, 7])
    transcript.add_sampled([], [])  # all of the reply was cut: it still is the environment's second one
    transcript.add_template([7])
    transcript.add_sampled([8], [-0.2])
    assert transcript.turn_index == [0, 0, 0, 0, 0, 1, 2]
    only_template = Transcript(prompt_ids=[1])
    only_template.add_template([7])
    assert only_template.turn_index == [0]
