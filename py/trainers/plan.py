"""What to play: which tasks a batch takes, and every seed. All of it follows from the run's seed and the place."""

import hashlib
import random


def stage_at(stages: list[dict], step: int) -> int:
    """The index of the stage of an optimizer step. `stages` rise from `from_step` 0."""
    return max(index for index, stage in enumerate(stages) if stage["from_step"] <= step)


def draw_prompts(stages: list[dict], rows: int, group: int, seed: int, step: int, draw: int, first: int) -> list[str]:
    """The task ids of a batch under a curriculum, each repeated for its group, in the place of the dataset's.

    They follow from the arguments alone, so a run that goes on at a step draws what an unbroken one would. The tasks of
    the stage come in a shuffled order, and again in another one where there are more groups than tasks. `first` is the
    place of the first row in the batch of all processes.
    """
    task_ids = stages[stage_at(stages, step)]["task_ids"]
    shuffle = random.Random(stream_seed(seed, "curriculum", step, draw))
    order: list[str] = []
    while len(order) * group < first + rows:
        order += shuffle.sample(task_ids, len(task_ids))
    return [order[place // group] for place in range(first, first + rows)]


def plan_episodes(prompts: list[str], group: int, seed: int, step: int, draw: int, first: int = 0) -> list[dict]:
    """What to play: a group's members share task and episode seed, each has its own trial and so its own samples.

    `first` is the place of `prompts[0]` in the batch of all processes: a group may lie across two of them.
    """
    episodes = []
    for place, task_id in enumerate(prompts, start=first):
        index, member = divmod(place, group)
        if member and episodes and task_id != episodes[-1]["task_id"]:
            raise RuntimeError(
                f"group {index} of step {step} holds the tasks '{episodes[-1]['task_id']}' and '{task_id}'; expected "
                f"{group} rollouts of one task. Its advantages would compare different tasks."
            )
        episodes.append({"task_id": task_id, "seed": stream_seed(seed, "episode", step, draw, index), "trial": member})
    return episodes


def stream_seed(*parts: int | str) -> int:
    """A seed for a part of the run, from the run's seed and the part's place: equal parts, equal seeds. Below 2^52."""
    digest = hashlib.sha256("/".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 12
