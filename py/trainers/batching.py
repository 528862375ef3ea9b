"""Less padding for the loss: rows of about one length go together, in both recipes."""

from collections.abc import Iterator

import torch
from transformers.trainer_pt_utils import LengthGroupedSampler

from trainers.plan import stream_seed

WINDOW = 16  # batches that are sorted by length together: enough to save padding, few enough to stay random

Batch = dict[str, torch.Tensor]  # TRL's fields: (B, …) each, or a scalar that all micro-batches share


def deal_by_length(batches: list[Batch]) -> list[Batch]:
    """
    The rows of one optimizer step's micro-batches, dealt again so that rows of about one length go together.

    Sums over all rows do not change. TRL shuffles rows among micro-batches and pads all of them to the longest; with
    tool results of very different lengths most of the loss's time would go into padding.
    """
    rows = {
        name: value if value.dim() == 0 else torch.cat([batch[name] for batch in batches])
        for name, value in batches[0].items()
    }
    order = rows["completion_mask"].sum(dim=1).argsort(stable=True)
    return [
        trim({name: value if value.dim() == 0 else value[chosen] for name, value in rows.items()})
        for chosen in order.split(len(batches[0]["completion_mask"]))
    ]


def trim(batch: Batch) -> Batch:
    """The same rows without the columns that are padding in each: prompts are padded in front, completions behind."""
    prompt = max(1, int(batch["prompt_mask"].sum(dim=1).max()))
    completion = max(1, int(batch["completion_mask"].sum(dim=1).max()))
    width = batch["completion_mask"].shape[1]
    cut = dict(batch)
    for name, value in batch.items():
        if name in ("prompt_ids", "prompt_mask"):
            cut[name] = value[:, value.shape[1] - prompt :]
        elif value.dim() == 2 and value.shape[1] == width:
            cut[name] = value[:, :completion]
    return cut


class ShuffledLengthBatches(LengthGroupedSampler):
    """
    Batches of about equal lengths, in random order.

    transformers' own sampler walks down from the longest row to the shortest, 50 batches at a time. Where lengths go
    with kinds of tasks, as in tool dialogues, a small model then forgets one kind while it learns the next.
    """

    # Set where several processes share the rows: the order then follows from it and the epoch. Each would else draw an
    # order of its own, and rows would be trained twice or never.
    seed: int | None = None

    def set_epoch(self, epoch: int) -> None:
        """Called by accelerate's data loader."""
        if self.seed is not None:
            self.generator = torch.Generator().manual_seed(stream_seed(self.seed, "order", epoch))

    def __iter__(self) -> Iterator[int]:
        size = self.batch_size
        order = torch.randperm(len(self.lengths), generator=self.generator).tolist()
        last: list[int] = []
        for start in range(0, len(order), WINDOW * size):
            window = sorted(order[start : start + WINDOW * size], key=self.lengths.__getitem__)
            batches = [window[i : i + size] for i in range(0, len(window), size)]
            if len(batches[-1]) < size:
                last = batches.pop()  # an incomplete batch anywhere but at the end would shift all that follow
            for i in torch.randperm(len(batches), generator=self.generator).tolist():
                yield from batches[i]
        yield from last
