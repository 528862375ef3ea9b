"""What every trainer shares with the host: the log, the stop, the clock, the saved model."""

import logging
import math
import os
import shutil
import time
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import datasets
from transformers import PrinterCallback, Trainer, TrainerCallback
from transformers.utils import logging as transformers_logging

from trainers import ranks
from trainers.model import Policy, peak_memory_gib

STOP_REQUESTED = "stop_requested"
LOSS_NOT_FINITE = "loss_not_finite"
REPLIES_CUT = "replies_cut"
COMPLETED = "max_steps_or_epochs_completed"


class Gauge:
    """Figures taken between two log points, averaged when they are read."""

    def __init__(self):
        self._values: dict[str, list[float]] = defaultdict(list)

    def add(self, name: str, value: float) -> None:
        self._values[name].append(float(value))

    def take(self) -> dict[str, float]:
        """The means since the last call."""
        means = {name: sum(values) / len(values) for name, values in self._values.items()}
        self._values.clear()
        return means


class HostCallback(TrainerCallback):
    """Sends the trainer's log to the host and stops where the host asks to, or where the loss is lost.

    `gauge` may hold further figures; they go out with the next log point.
    """

    def __init__(self, host, gauge: Gauge | None = None):
        self.host = host
        self.gauge = gauge or Gauge()
        self.stop_reason = COMPLETED

    def on_step_end(self, args, state, control, **_):
        # Every rank must ask, and so stop in the same step.
        if ranks.agree(self.host.stop_requested) and state.global_step < state.max_steps:
            self._stop(control)

    def on_log(self, args, state, control, logs, **_):
        metrics = {name: float(value) for name, value in logs.items() if isinstance(value, (int, float))}
        metrics |= ranks.pooled(self.gauge.take())
        if state.is_world_process_zero:
            self.host.log(state.global_step, metrics)
        if not math.isfinite(metrics.get("loss", 0.0)):
            # Weights that gave a loss of NaN are lost: nothing of them is saved.
            self.stop_reason = LOSS_NOT_FINITE
            control.should_save = False
            control.should_training_stop = True
        elif state.global_step > 0 and not control.should_training_stop and ranks.agree(self.host.stop_requested):
            self._stop(control)

    def _stop(self, control, reason: str = STOP_REQUESTED) -> None:
        """Ends training after this step, with a checkpoint."""
        self.stop_reason = reason
        control.should_save = True
        control.should_training_stop = True


class _DropMessage(logging.Filter):
    def __init__(self, beginning: str):
        super().__init__()
        self.beginning = beginning

    def filter(self, record: logging.LogRecord) -> bool:
        return not record.getMessage().startswith(self.beginning)


def quiet_libraries() -> None:
    """No progress bars, no notices that we answer for ourselves. Warnings stay."""
    os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"  # we know that rollout_func may change: TRL is pinned
    # TRL still uses the name that transformers is about to drop.
    warnings.filterwarnings("ignore", message=".*gradient_checkpointing. is deprecated", category=FutureWarning)
    datasets.disable_progress_bars()
    transformers_logging.disable_progress_bar()
    # An invalid rollout is counted and logged by us; TRL would print its whole record.
    logger = logging.getLogger("trl.trainer.grpo_trainer")
    if not any(isinstance(each, _DropMessage) for each in logger.filters):
        logger.addFilter(_DropMessage("All reward functions returned None"))


def quiet_trainer(trainer: Trainer) -> None:
    """With its progress bar off, transformers prints every log to stdout, which is not ours to write to."""
    trainer.remove_callback(PrinterCallback)


def train_and_save(trainer: Trainer, callback: HostCallback, policy: Policy, output_dir: str) -> dict[str, Any]:
    """Trains to the end or to a stop, saves the model to `final/`, and gives what every recipe's result says.

    A loss that is not finite is no model to keep: then nothing goes to `final/`.
    """
    trainer.add_callback(callback)
    quiet_trainer(trainer)
    with ranks.watched():
        begin = time.perf_counter()
        train_loss = trainer.train().training_loss
        train_s = time.perf_counter() - begin
        if callback.stop_reason == COMPLETED and not math.isfinite(train_loss):
            callback.stop_reason = LOSS_NOT_FINITE
        if callback.stop_reason != LOSS_NOT_FINITE:
            save_final(trainer, output_dir)
    return {
        "steps": trainer.state.global_step,
        "train_loss": train_loss,
        "stop_reason": callback.stop_reason,
        "stopped": callback.stop_reason == STOP_REQUESTED,
        "parameters": policy.parameters,
        "hardware": policy.hardware,
        "train_s": train_s,
        "peak_memory_gib": peak_memory_gib(policy.device),
    }


def save_final(trainer: Trainer, output_dir: str) -> str:
    """Saves the trained model with tokenizer, chat template and generation config to `final/`, complete or not at all.

    A LoRA run gives the adapter's folder.
    """
    final, half = Path(output_dir) / "final", Path(output_dir) / "final.tmp"
    if trainer.is_world_process_zero():
        shutil.rmtree(half, ignore_errors=True)
    if trainer.is_fsdp_enabled:  # checkpoints may be in shards, a model for others to load is whole
        trainer.accelerator.state.fsdp_plugin.set_state_dict_type("FULL_STATE_DICT")
    trainer.save_model(str(half))
    if trainer.is_world_process_zero():
        shutil.rmtree(half / "ref", ignore_errors=True)  # TRL's frozen copy of the adapter it started from
        (half / "training_args.bin").unlink(missing_ok=True)  # a pickle; the run's config.json says the same
        # An adapter's folder holds the adapter only, but a reply ends at the same tokens.
        trainer.model.generation_config.save_pretrained(str(half))
        shutil.rmtree(final, ignore_errors=True)
        half.rename(final)
    trainer.accelerator.wait_for_everyone()  # no rank is done before the model is there
    return str(final)
