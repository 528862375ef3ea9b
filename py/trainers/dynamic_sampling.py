"""Dynamic sampling (DAPO, arXiv:2503.14476, section 3.2): groups that teach nothing give way to groups of other tasks.

Decisions alone: what is played, and on which process, is the caller's. All of it follows from the gathered results of
all processes, the run's seed and the memory, so that every process decides the same.
"""

import math
import random
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from trainers.callbacks import RunStopped
from trainers.plan import stream_seed

# Rewards of a group that lie closer than this are equal: what is left is float noise, and an optimizer that scales
# its steps (Adam) would turn noise into full-sized updates. The same bound as groupAdvantages in src/core/reward.ts.
EQUAL_REWARDS = 1e-6
EXHAUSTED = "dynamic_sampling_exhausted"
# With fewer tasks than this for each group of a batch the pool runs dry: 33 tasks for 4 groups did at the fifth step.
POOL_PER_GROUP = 10

# What is known of one rollout of a group: its task, its reward (None: invalid), whether it succeeded.
Row = tuple[str, float | None, bool]


@dataclass(frozen=True)
class Settings:
    """The request's `dynamic_sampling`."""

    metric: str  # "reward", or "success"
    std_threshold: float  # a group is accepted above it; of rewards
    max_resamples: int  # groups that are played beside a batch's own, at most
    on_exhausted: str  # "fail", or "fill_with_best_std"


@dataclass(frozen=True)
class Group:
    """The verdict on the rollouts of one task."""

    task_id: str
    spread: float  # sample standard deviation of the filter metric over the valid rollouts
    signal: float  # the same of the rewards: advantages are made of them
    accepted: bool


@dataclass(frozen=True)
class Selection:
    """A whole batch: for each of its places which of the groups played takes it, and what that cost."""

    chosen: list[int]  # (groups of a batch,) places among all groups played; the batch's own come first
    accepted: int
    rejected: int
    attempts: int
    filled: int


class Exhausted(RunStopped):
    """Budget or pool are used up and the batch is not whole. `numbers` say how far it came."""

    def __init__(self, message: str, numbers: dict[str, float]):
        super().__init__(EXHAUSTED, message)
        self.numbers = numbers


@dataclass
class TaskRecord:
    """What came of a task's groups so far."""

    attempts: int = 0
    accepted: int = 0
    rejected: int = 0
    last_spread: float = 0.0


@dataclass
class TaskMemory:
    """Statistics of tasks over all batches of a run. They steer which tasks replace others."""

    tasks: dict[str, TaskRecord] = field(default_factory=dict)

    def add(self, groups: Iterable[Group]) -> None:
        for group in groups:
            record = self.tasks.setdefault(group.task_id, TaskRecord())
            record.attempts += 1
            record.accepted += group.accepted
            record.rejected += not group.accepted
            record.last_spread = group.spread

    def weight(self, task_id: str) -> float:
        """How much a task is preferred, in (0, 1): 1/2 unseen, towards 1 where it was informative, towards 0 where not.

        (accepted + 1) / (attempts + 2), the mean of the task's rate of acceptance after a uniform prior. No task ever
        gets 0: a policy that has changed may find a difference where there was none.
        """
        record = self.tasks.get(task_id, TaskRecord())
        return (record.accepted + 1) / (record.attempts + 2)

    def state_dict(self) -> dict[str, dict[str, list[float]]]:
        """Plain data. `tasks`: [attempts, accepted, rejected, last spread] of each."""
        rows = {
            name: [each.attempts, each.accepted, each.rejected, each.last_spread] for name, each in self.tasks.items()
        }
        return {"tasks": rows}

    def load_state_dict(self, state: dict) -> None:
        """Raises ValueError for a state that is no memory's; what was there before then stays."""
        try:
            tasks = {name: TaskRecord(*row) for name, row in state["tasks"].items()}
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"the memory of dynamic sampling cannot be read: {error!r}") from error
        self.tasks = tasks


def judge_groups(rows: Sequence[Row], size: int, settings: Settings) -> list[Group]:
    """The verdicts on contiguous groups of `size` rollouts.

    A group is accepted where its filter metric differs: by a standard deviation above the threshold for rewards, by one
    member at least for successes. Invalid rollouts are no members; one valid rollout alone has no difference.
    Raises ValueError where the rows are no whole groups of one task each.
    """
    if size < 2:
        raise ValueError(f"groups of {size}: a group needs at least 2 rollouts to tell better from worse.")
    if len(rows) % size != 0:
        raise ValueError(f"{len(rows)} rollouts are no whole groups of {size}.")
    groups = []
    for first in range(0, len(rows), size):
        members = rows[first : first + size]
        names = sorted({task_id for task_id, _, _ in members})
        if len(names) != 1:
            raise ValueError(f"group {first // size} holds the tasks {', '.join(names)}; expected one.")
        valid = [(reward, float(success)) for _, reward, success in members if reward is not None]
        signal = spread_of([reward for reward, _ in valid])
        if settings.metric == "success":
            spread = spread_of([success for _, success in valid])
            accepted = spread > 0
        else:
            spread = signal
            # A spread that is the threshold but for rounding is not above it.
            accepted = spread > settings.std_threshold and not math.isclose(
                spread, settings.std_threshold, rel_tol=1e-9
            )
        groups.append(Group(names[0], spread, signal, accepted))
    return groups


def spread_of(values: Sequence[float]) -> float:
    """Sample standard deviation (n − 1); 0 for fewer than two values, and for values that are equal but for noise."""
    if len(values) < 2 or max(values) - min(values) <= EQUAL_REWARDS:
        return 0.0
    return statistics.stdev(values)


def draw_tasks(pool: Sequence[str], tried: set[str], count: int, memory: TaskMemory, seed: int) -> list[str]:
    """`count` different tasks of the pool that were not tried, by the memory's weights; fewer where no more are left.

    Each task draws u^(1/weight) and the greatest win (Efraimidis and Spirakis, 2006): without replacement, and
    dependent on the arguments alone.
    """
    stream = random.Random(seed)
    left = [task_id for task_id in pool if task_id not in tried]
    keys = {task_id: math.log(1 - stream.random()) / memory.weight(task_id) for task_id in left}
    return sorted(keys, key=keys.__getitem__, reverse=True)[: max(count, 0)]


def complete_batch(
    own: Sequence[Group],
    pool: Sequence[str],
    settings: Settings,
    memory: TaskMemory,
    place: tuple[int, int, int],
    play: Callable[[list[str], int], Sequence[Group]],
) -> Selection:
    """Replaces the rejected groups of a batch, round by round, until it is whole.

    own: the verdicts on the batch's own groups.
    pool: tasks to draw from. None is played that was tried in this batch already.
    memory: takes up all groups played, once the batch is decided, however it ends.
    place: the run's seed, the optimizer step, and how often it has sampled before.
    play: plays a group of each of these tasks; its second argument says how many were played before, beside `own`.
    Raises Exhausted where attempts or tasks run out: under "fail" whenever a group is missing, under
    "fill_with_best_std" where no group at all has a difference in reward, so that a step would teach nothing.
    """
    groups, wanted, attempts = list(own), len(own), 0
    while missing := wanted - sum(group.accepted for group in groups):
        tried = {group.task_id for group in groups}
        seed = stream_seed(place[0], "dynamic_sampling", *place[1:], attempts)
        drawn = draw_tasks(pool, tried, min(missing, settings.max_resamples - attempts), memory, seed)
        if not drawn:
            break
        played = play(drawn, attempts)
        if [group.task_id for group in played] != drawn:
            raise RuntimeError(f"asked for groups of {drawn}, got {[group.task_id for group in played]}.")
        groups += played
        attempts += len(drawn)
    memory.add(groups)

    accepted = sum(group.accepted for group in groups)
    spare = [index for index in range(wanted, len(groups)) if groups[index].accepted]
    if missing:
        rejected = [index for index, group in enumerate(groups) if not group.accepted]
        best = sorted(rejected, key=lambda index: (-groups[index].spread, -groups[index].signal, index))[:missing]
        if settings.on_exhausted == "fail" or not any(
            group.signal for index, group in enumerate(groups) if group.accepted or index in best
        ):
            raise exhausted(groups, wanted, attempts, pool, settings)
        spare += best
    replacements = iter(spare)
    chosen = [index if group.accepted else next(replacements) for index, group in enumerate(own)]
    return Selection(chosen, accepted, len(groups) - accepted, attempts, missing)


def exhausted(
    groups: Sequence[Group], wanted: int, attempts: int, pool: Sequence[str], settings: Settings
) -> Exhausted:
    """What came, what was expected, what to do."""
    accepted = sum(group.accepted for group in groups)
    zero = sum(group.signal == 0 for group in groups) / len(groups)
    spent = attempts >= settings.max_resamples
    if spent:
        end = f"all {attempts} attempts were made, from a pool of {len(pool)} tasks"
        advice = "Allow more with --dynamic-sampling-max-resamples, train"
    else:
        tried = f"all {len(pool)} tasks of the pool have been tried"
        end = f"{attempts} of {settings.max_resamples} attempts were made, and {tried}"
        advice = "Train"
    fill = settings.on_exhausted == "fail" and accepted > 0
    message = (
        f"dynamic sampling found {accepted} of the {wanted} groups of a batch: {len(groups) - accepted} were rejected, "
        f"{end}. {zero:.0%} of the groups played had no difference in reward. No step is taken on a part of a batch. "
        f"{advice} on more tasks, or on tasks that this policy solves now and then"
        f"{', go on with --dynamic-sampling-on-exhausted fill_with_best_std' if fill else ''}"
        ", or do without: --no-dynamic-sampling."
    )
    numbers = {
        "wanted_groups": wanted,
        "accepted_groups": accepted,
        "rejected_groups": len(groups) - accepted,
        "attempts": attempts,
        "pool_size": len(pool),
        "zero_std_share": zero,
    }
    return Exhausted(message, numbers)


def dealt(count: int, process: int, processes: int) -> range:
    """Which of `count` groups a process plays: as equal shares as whole groups allow, in order."""
    return range(process * count // processes, (process + 1) * count // processes)


def pool_warnings(pools: Sequence[Sequence[str]], groups: int) -> list[str]:
    """A sentence where a pool is small for batches of `groups` groups. pools: the run's tasks, or each stage's."""
    smallest = min(len(set(pool)) for pool in pools)
    if smallest >= POOL_PER_GROUP * groups:
        return []
    return [
        f"dynamic sampling draws from {smallest} tasks for {groups} groups a batch; expected {POOL_PER_GROUP} tasks a "
        f"group or more ({POOL_PER_GROUP * groups}). A small pool runs out of tasks that teach anything."
    ]
