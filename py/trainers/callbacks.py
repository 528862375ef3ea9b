"""What every trainer shares with the host: the log, the stop, the clock, the saved model."""

import logging
import math
import os
import shutil
import time
import warnings
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import datasets
from transformers import PrinterCallback, Trainer, TrainerCallback
from transformers.utils import logging as transformers_logging

from trainers import ranks
from trainers.adapters import TrainedOnCallback, check_saved, write_trained_on
from trainers.checkpoints import Checkpoints, Part
from trainers.guards import REWARD_VARIANCE_DEAD, Guard
from trainers.model import Policy, peak_memory_gib
from trainers.wire import Host

STOP_REQUESTED = "stop_requested"
LOSS_NOT_FINITE = "loss_not_finite"
COMPLETED = "max_steps_or_epochs_completed"
# Ends that leave no model worth keeping.
NOTHING_SAVED = (LOSS_NOT_FINITE, REWARD_VARIANCE_DEAD)


class RunStopped(Exception):
    """Ends training before a step that must not be taken. What was learnt until then is kept.

    `reason`: the result's stop_reason; the text is for the person watching.
    """

    def __init__(self, reason: str, message: str):
        super().__init__(message)
        self.reason = reason


class Gauge:
    """Figures taken between two log points, averaged when they are read."""

    def __init__(self):
        self._values: dict[str, list[float]] = defaultdict(list)

    def add(self, name: str, value: float) -> None:
        self._values[name].append(float(value))

    def state_dict(self) -> dict:
        return dict(self._values)

    def load_state_dict(self, state: dict) -> None:
        self._values.update(state)

    def take(self) -> dict[str, float]:
        """The means since the last call."""
        means = {name: sum(values) / len(values) for name, values in self._values.items()}
        self._values.clear()
        return means


class Clock:
    """Seconds of training, and of them those that the host and the bridge took, since the run first began."""

    def __init__(self, host: Host):
        self.host = host
        self._begin = time.perf_counter()
        self._asked, self._crossed = host.round_trip_ms, host.crossing_ms
        self._before = {"train_s": 0.0, "ask_s": 0.0, "bridge_s": 0.0}

    def state_dict(self) -> dict[str, float]:
        now = {
            "train_s": time.perf_counter() - self._begin,
            "ask_s": (self.host.round_trip_ms - self._asked) / 1000,
            "bridge_s": (self.host.crossing_ms - self._crossed) / 1000,
        }
        return {name: self._before[name] + seconds for name, seconds in now.items()}

    def load_state_dict(self, state: dict[str, float]) -> None:
        self._before = state


class HostCallback(TrainerCallback):
    """Sends the trainer's log to the host and stops where the host asks to, where a guard trips, or where the loss is
    lost.

    `gauge` may hold further figures; they go out with the next log point. It stands before the report backends, so that
    they get the same figures under the same names.
    """

    def __init__(self, host, gauge: Gauge | None = None, guards: Sequence[Guard] = ()):
        self.host = host
        self.gauge = gauge or Gauge()
        self.guards = guards
        self.stop_reason = COMPLETED
        self.stop_detail: str | None = None  # the guard's sentence

    def on_step_end(self, args, state, control, **_):
        # Every rank must ask, and so stop in the same step.
        if ranks.agree(self.host.stop_requested) and state.global_step < state.max_steps:
            self._stop(control)

    def on_log(self, args, state, control, logs, **_):
        trainers_own = _numbers(logs)
        logs.update(ranks.pooled(self.gauge.take()))
        metrics = _numbers(logs)
        if state.is_world_process_zero:
            self.host.log(state.global_step, metrics)
        if not math.isfinite(metrics.get("loss", 0.0)):
            # Weights that gave a loss of NaN are lost: nothing of them is saved, whatever else was to stop the run.
            self.stop_reason, self.stop_detail = LOSS_NOT_FINITE, None
            control.should_save = False
            control.should_training_stop = True
            return
        self._judge(state.global_step, trainers_own, control)  # the gauge's were judged when they were taken
        if state.global_step > 0 and not control.should_training_stop and ranks.agree(self.host.stop_requested):
            self._stop(control)

    def state_dict(self) -> dict[str, Any]:
        """What the guards remember, by name."""
        return {guard.name: guard.state_dict() for guard in self.guards}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """A guard that was off before begins anew."""
        for guard in self.guards:
            if guard.name in state:
                guard.load_state_dict(state[guard.name])

    def _judge(self, step: int, figures: dict[str, float], control) -> None:
        """Asks the guards, tells what they say, and stops for the first that wants to."""
        for guard in self.guards:
            notice = guard.observe(step, figures)
            if notice is None:
                continue
            self.host.note(notice.text)
            if notice.reason is not None:
                self._stop(control, notice.reason, save=notice.save, detail=notice.text)

    def _stop(self, control, reason: str = STOP_REQUESTED, save: bool = True, detail: str | None = None) -> None:
        """Ends training after this step, with a checkpoint where `save`. The first reason counts."""
        if self.stop_reason != COMPLETED:
            return
        self.stop_reason, self.stop_detail = reason, detail
        control.should_save = save
        control.should_training_stop = True


def _numbers(logs: dict[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in logs.items() if isinstance(value, (int, float))}


class _DropMessage(logging.Filter):
    def __init__(self, beginning: str):
        super().__init__()
        self.beginning = beginning

    def filter(self, record: logging.LogRecord) -> bool:
        return not record.getMessage().startswith(self.beginning)


def quiet_libraries() -> None:
    """No progress bars, no notices that we answer for ourselves. Warnings stay."""
    os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"  # we know that rollout_func may change: TRL is pinned
    # TRL still uses the names that transformers is about to drop.
    warnings.filterwarnings("ignore", message=r".*gradient_checkpointing\w*. is deprecated", category=FutureWarning)
    datasets.disable_progress_bars()
    transformers_logging.disable_progress_bar()
    # An invalid rollout is counted and logged by us; TRL would print its whole record.
    logger = logging.getLogger("trl.trainer.grpo_trainer")
    if not any(isinstance(each, _DropMessage) for each in logger.filters):
        logger.addFilter(_DropMessage("All reward functions returned None"))


def quiet_trainer(trainer: Trainer) -> None:
    """With its progress bar off, transformers prints every log to stdout, which is not ours to write to."""
    trainer.remove_callback(PrinterCallback)


def train_and_save(
    trainer: Trainer, callback: HostCallback, policy: Policy, request: dict, parts: dict[str, Part] | None = None
) -> dict[str, Any]:
    """Trains to the end or to a stop, saves the model to `final/`, and gives what every recipe's result says.

    `request["resume_from"]` names a whole checkpoint to go on from; `parts` have memory that it brings back too.
    Where the end leaves no model worth keeping, or no step was taken, nothing goes to `final/`.
    """
    output_dir = request["output_dir"]
    checkpoints = Checkpoints(trainer, callback.host, output_dir)
    clock = Clock(callback.host)
    for name, part in {"gauge": callback.gauge, "guards": callback, "clock": clock, **(parts or {})}.items():
        checkpoints.add(name, part)
    # Behind the trainer's own flow and before the report backends: what the callback adds to a log reaches them.
    trainer.callback_handler.callbacks.insert(1, callback)
    trainer.add_callback(TrainedOnCallback(policy.hardware))
    trainer.add_callback(checkpoints)
    quiet_trainer(trainer)
    if resume_from := request.get("resume_from"):
        checkpoints.load(resume_from)
    with ranks.watched():
        try:
            train_loss = trainer.train(resume_from_checkpoint=resume_from).training_loss
        except RunStopped as stop:
            train_loss, callback.stop_reason = None, stop.reason
            if trainer.is_world_process_zero():
                callback.host.note(str(stop))
            # Report back ends close.
            trainer.callback_handler.on_train_end(trainer.args, trainer.state, trainer.control)
        times = clock.state_dict()
        if callback.stop_reason == COMPLETED and not math.isfinite(train_loss):
            callback.stop_reason = LOSS_NOT_FINITE
        untouched = train_loss is None and trainer.state.global_step == 0
        if callback.stop_reason not in NOTHING_SAVED and not untouched:
            save_final(trainer, output_dir, policy.hardware)
    return {
        "steps": trainer.state.global_step,
        "train_loss": train_loss,
        "stop_reason": callback.stop_reason,
        "stop_detail": callback.stop_detail,
        "stopped": callback.stop_reason == STOP_REQUESTED,
        "parameters": policy.parameters,
        "hardware": policy.hardware,
        **times,
        "peak_memory_gib": peak_memory_gib(policy.device),
    }


def save_final(trainer: Trainer, output_dir: str, hardware: dict[str, Any]) -> str:
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
        if hasattr(trainer.model, "peft_config"):
            check_saved(half)
            write_trained_on(half, hardware)
        shutil.rmtree(final, ignore_errors=True)
        half.rename(final)
    trainer.accelerator.wait_for_everyone()  # no rank is done before the model is there
    return str(final)
