"""Padding: what is dealt and trimmed stays the same rows, and the batches of SFT come in no order of length."""

import itertools

import torch
from trainers.batching import RepeatedGroups, ShuffledLengthBatches, deal_by_length, trim
from trl.trainer.utils import RepeatSampler


def rows_of(lengths: list[int], prompts: list[int]) -> dict:
    """A batch as TRL makes it: prompts padded in front, completions behind. Every token says row and place."""
    width, depth = max(lengths), max(prompts)
    batch = {
        "prompt_mask": torch.tensor([[0] * (depth - p) + [1] * p for p in prompts]),
        "completion_mask": torch.tensor([[1] * n + [0] * (width - n) for n in lengths]),
        "advantages": torch.arange(len(lengths), dtype=torch.float32),
        "num_items_in_batch": torch.tensor(sum(lengths)),
    }
    row = torch.arange(len(lengths)).unsqueeze(1) * 1000
    batch["prompt_ids"] = (row + torch.arange(depth)) * batch["prompt_mask"]
    batch["completion_ids"] = (row + torch.arange(width) + 1) * batch["completion_mask"]
    batch["tool_mask"] = batch["completion_mask"].clone()
    batch["sampling_per_token_logps"] = -batch["completion_ids"].float()
    return batch


def halves(batch: dict) -> list[dict]:
    half = len(batch["advantages"]) // 2
    return [
        {name: value if value.dim() == 0 else value[part] for name, value in batch.items()}
        for part in (slice(0, half), slice(half, None))
    ]


def tokens_by_row(batches: list[dict]) -> dict[int, tuple]:
    return {
        int(batch["advantages"][i]): tuple(
            tuple(batch[name][i][batch[f"{name.split('_')[0]}_mask"][i].bool()].tolist())
            for name in ("prompt_ids", "completion_ids")
        )
        for batch in batches
        for i in range(len(batch["advantages"]))
    }


def test_rows_of_about_one_length_go_together_and_nothing_but_padding_is_lost():
    batches = halves(rows_of([9, 2, 7, 3, 8, 1], [4, 1, 2, 1, 3, 2]))
    dealt = deal_by_length(batches)
    assert tokens_by_row(dealt) == tokens_by_row(batches)
    assert [batch["completion_mask"].sum(1).tolist() for batch in dealt] == [[1, 2, 3], [7, 8, 9]]
    assert [tuple(batch["completion_ids"].shape) for batch in dealt] == [(3, 3), (3, 9)]
    assert [tuple(batch["prompt_ids"].shape) for batch in dealt] == [(3, 2), (3, 4)]
    for batch in dealt:
        assert batch["num_items_in_batch"] == 30  # shared by all micro-batches
        kept = batch["completion_mask"].bool()
        assert torch.equal(-batch["sampling_per_token_logps"][kept], batch["completion_ids"][kept].float())


def test_a_batch_whose_rows_are_all_masked_keeps_a_column():
    batch = rows_of([3, 2], [1, 1])
    batch["completion_mask"] = torch.zeros_like(batch["completion_mask"])
    assert trim(batch)["completion_ids"].shape == (2, 1)


def test_advantages_a_token_are_trimmed_too():
    batch = rows_of([3, 2, 4], [1, 1, 1])
    batch["completion_mask"][:, 3:] = 0
    batch["advantages"] = torch.arange(12.0).view(3, 4)
    assert torch.equal(trim(batch)["advantages"], torch.arange(12.0).view(3, 4)[:, :3])


def test_batches_are_even_in_length_and_come_in_random_order():
    generator = torch.Generator().manual_seed(1)
    lengths = torch.randint(1, 500, (16 * 4 * 5 + 3,), generator=generator).tolist()
    epochs = iter(range(2))
    batches = ShuffledLengthBatches(4, lengths, seed=1, epoch=lambda: next(epochs))
    indices = list(batches)
    assert sorted(indices) == list(range(len(lengths)))
    spreads, firsts = [], []
    for i in range(0, len(indices) - 4, 4):
        batch = [lengths[k] for k in indices[i : i + 4]]
        spreads.append(max(batch) - min(batch))
        firsts.append(batch[0])
    assert sum(spreads) / len(spreads) < 60  # at random about 300
    falls = sum(a > b for a, b in itertools.pairwise(firsts))
    assert 0.3 < falls / len(firsts) < 0.7
    assert indices != list(batches), "each epoch has an order of its own"
    assert indices == list(ShuffledLengthBatches(4, lengths, seed=1, epoch=lambda: 0))


def test_prompts_come_in_trl_s_order_and_a_later_epoch_s_is_found_without_the_ones_before():
    names = range(7)
    whole = RepeatSampler(names, mini_repeat_count=2, batch_size=3, repeat_count=2, seed=5)
    for epoch in range(3):
        assert list(RepeatedGroups(names, 2, 3, 2, True, 5, epoch=lambda epoch=epoch: epoch)) == list(whole)
