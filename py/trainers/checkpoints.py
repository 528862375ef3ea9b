"""Whole checkpoints: what transformers saves, our own memory beside it, and a last file that says all of it is there.

`checkpoint-N/` holds transformers' files, `rank-K.pt` (the memory of our parts), `rank-K.json` (where the run's logs
ended), and `complete.json`, written last, with the size of every other file. `src/checkpoints.ts` reads it: a folder
without it, or with a file of another size, is not gone on from.
"""

import contextlib
import json
import os
import shutil
from pathlib import Path
from typing import Any, Protocol

import torch
from transformers import Trainer, TrainerCallback

from trainers.wire import Host

COMPLETE = "complete.json"


class Part(Protocol):
    """Something with memory across steps: plain data and tensors, as torch.load reads them with weights_only."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class Checkpoints(TrainerCallback):
    """
    Makes transformers' checkpoints whole, keeps the newest, and brings all memory back.

    What follows from the run's seed and a step (tasks, episode seeds, samples) has no memory and needs none.
    To be added as the last callback: the others decide whether a step is saved.
    """

    def __init__(self, trainer: Trainer, host: Host, output_dir: str):
        self.trainer = trainer
        self.host = host
        self.folder = Path(output_dir)
        # transformers would delete the old ones before the new one is whole.
        self.keep = trainer.args.save_total_limit
        trainer.args.save_total_limit = None
        self.parts: dict[str, Part] = {"trainer": TrainerMemory(trainer)}

    def add(self, name: str, part: Part) -> None:
        """`part` is saved with every checkpoint, under this name."""
        self.parts[name] = part

    def load(self, checkpoint: str) -> None:
        """Brings the parts' memory back from a whole checkpoint; before `trainer.train`."""
        states = torch.load(self._file(Path(checkpoint), "pt"), weights_only=True, map_location="cpu")
        for name, part in self.parts.items():
            if name in states:  # one that the run did not have when it was saved begins anew
                part.load_state_dict(states[name])

    def on_train_begin(self, args, state, control, **_):
        self.parts["trainer"].begin()

    def on_save(self, args, state, control, **_):
        folder = self.folder / f"checkpoint-{state.global_step}"
        torch.save({name: part.state_dict() for name, part in self.parts.items()}, self._file(folder, "pt"))
        ends = self.host.ask("checkpoint", {"step": state.global_step})
        self._file(folder, "json").write_text(json.dumps(ends))
        accelerator = self.trainer.accelerator
        accelerator.wait_for_everyone()
        if accelerator.is_main_process:
            complete(folder, {"step": state.global_step, "ranks": accelerator.num_processes})
            self._rotate()
        accelerator.wait_for_everyone()

    def _file(self, folder: Path, kind: str) -> Path:
        return folder / f"rank-{self.trainer.accelerator.process_index}.{kind}"

    def _rotate(self) -> None:
        """Deletes all but the newest `keep` whole checkpoints; the one just completed is always among these."""
        if self.keep is None or self.keep <= 0:
            return
        whole = [folder for folder in self.folder.glob("checkpoint-*") if (folder / COMPLETE).is_file()]
        for folder in sorted(whole, key=step_of)[: -self.keep]:
            (folder / COMPLETE).unlink()  # first: half a folder must not look whole
            shutil.rmtree(folder, ignore_errors=True)


def step_of(folder: Path) -> int:
    """The step in a checkpoint's name; -1 for another name, as checkpoint-best."""
    number = folder.name.removeprefix("checkpoint-")
    return int(number) if number.isdecimal() else -1


def complete(folder: Path, facts: dict[str, Any]) -> None:
    """Marks a checkpoint as whole: every file is on the disk, then the mark appears at once."""
    files = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            files[path.relative_to(folder).as_posix()] = path.stat().st_size
            sync(path)
    half = folder / f"{COMPLETE}.tmp"
    half.write_text(json.dumps({**facts, "files": files}, indent=1))
    sync(half)
    half.rename(folder / COMPLETE)
    with contextlib.suppress(OSError):  # folders cannot be synced everywhere
        sync(folder)


def sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class TrainerMemory:
    """
    What a trainer remembers between steps, and transformers does not save.

    The rollouts of a batch that several steps learn from, what is summed up until the next log, and the sum of all
    losses: a run that goes on logs the numbers of one that never stopped.
    """

    NAMES = ("_step", "_total_train_tokens", "groups", "groups_without_signal")
    # Set back to nothing when training begins.
    SUMS = ("_tr_loss", "_total_loss_scalar", "_globalstep_last_logged")

    def __init__(self, trainer: Trainer):
        self.trainer = trainer
        self._sums: dict[str, Any] = {}

    def state_dict(self) -> dict[str, Any]:
        trainer = self.trainer
        state = {name: getattr(trainer, name) for name in (*self.NAMES, *self.SUMS) if hasattr(trainer, name)}
        if hasattr(trainer, "_metrics"):
            state["_metrics"] = {mode: dict(metrics) for mode, metrics in trainer._metrics.items()}
        if self._moving_reference is not None:
            state["reference"] = self._moving_reference.state_dict()
        if batches_left(trainer):
            state["_buffered_inputs"] = trainer._buffered_inputs
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        trainer = self.trainer
        self._sums = {name: state[name] for name in self.SUMS if name in state}
        for name in self.NAMES:
            if name in state:
                setattr(trainer, name, state[name])
        for mode, metrics in state.get("_metrics", {}).items():
            trainer._metrics[mode].update(metrics)
        if "reference" in state and self._moving_reference is not None:
            self._moving_reference.load_state_dict(state["reference"])
        if "_buffered_inputs" in state:
            device = trainer.accelerator.device
            trainer._buffered_inputs = [
                {name: value.to(device) if isinstance(value, torch.Tensor) else value for name, value in batch.items()}
                for batch in state["_buffered_inputs"]
            ]

    @property
    def _moving_reference(self) -> torch.nn.Module | None:
        """The reference model where it follows the policy (sync_ref_model); else it is made again from the start."""
        follows = getattr(self.trainer.args, "sync_ref_model", False)
        return self.trainer.accelerator.unwrap_model(self.trainer.ref_model) if follows else None

    def begin(self) -> None:
        """Once training has begun and has set its sums back."""
        if not self._sums:
            return
        for name, value in self._sums.items():
            setattr(
                self.trainer, name, value.to(self.trainer.args.device) if isinstance(value, torch.Tensor) else value
            )
        self.trainer._initial_global_step = 0  # the mean loss is that of all steps
        self._sums = {}


def batches_left(trainer: Trainer) -> bool:
    """Whether rollouts were sampled that later steps are to learn from."""
    if getattr(trainer, "_buffered_inputs", None) is None:
        return False
    args = trainer.args
    rounds = getattr(args, "steps_per_generation", None) or args.gradient_accumulation_steps
    return trainer._step % (rounds * getattr(args, "num_iterations", 1)) != 0
