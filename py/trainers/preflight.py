"""What can be checked before a model loads: TRL's version and keys, batch sizes, the chat template, token budgets."""

import contextlib
import dataclasses
import io
import math
import os
import tempfile
import types
import typing
import warnings
from typing import Any

import torch
import trl
from accelerate.state import AcceleratorState
from packaging.version import Version
from trl import GRPOConfig, SFTConfig

from trainers.continuation import DialogueFormat
from trainers.model import (
    UserError,
    chat_format,
    check_lora,
    check_weights,
    context_limit,
    did_you_mean,
    load_model_config,
    load_tokenizer,
)
from trainers.tokens import transcript_of

# Before 0.28 rollout_func is only called on the vLLM server's path: multi-turn sampling would silently disappear.
OLDEST_TRL = Version("0.28.0")
PINNED_TRL = Version("1.16.0")
SPARE_TOKENS = 64  # added to what a worked solution needs where a budget is too small

CONFIG_CLASSES = {"sft": SFTConfig, "grpo": GRPOConfig}

# Keys of TRL's config that our path would ignore, or that are another option's, with what to do instead.
ELSEWHERE = {
    "output_dir": "the run folder decides it (--output-dir)",
    "seed": "use --seed, which also decides tasks and sampling",
    "data_seed": "use --seed, which also decides tasks and sampling",
    "model_init_kwargs": "the model is loaded before TRL sees it; use --model and --lora",
    "chat_template_kwargs": "use chat_template_kwargs at the top level of the config",
    "eval_strategy": "training evaluates nothing; use `bench` on the checkpoints",
    "do_eval": "training evaluates nothing; use `bench` on the checkpoints",
    "push_to_hub": "a run writes to its folder only",
    "resume_from_checkpoint": "a run always starts from --model",
    "disable_tqdm": "progress is shown from the log",
}
ELSEWHERE_BY_RECIPE = {
    "sft": {
        "max_length": "use max_length at the top level of the config (--max-length)",
        "packing": "rows are trained one by one, so that none sees another",
        "padding_free": "rows are trained one by one, padded",
        "completion_only_loss": "the loss is on the policy's tokens, always",
        "assistant_only_loss": "the loss is on the policy's tokens, always",
        "dataset_text_field": "rows come tokenised",
        "dataset_kwargs": "rows come tokenised",
        "chat_template_path": "the tokenizer's own template is used",
        "eos_token": "the template's end-of-turn token is used",
        "pad_token": "the tokenizer's own is used",
    },
    "grpo": {
        "temperature": "use temperature at the top level of the config (--temperature)",
        "top_p": "use top_p at the top level of the config (--top-p)",
        "top_k": "use top_k at the top level of the config (--top-k)",
        "min_p": "use min_p at the top level of the config (--min-p)",
        "max_completion_length": "use max_turn_tokens and max_episode_tokens at the top level of the config",
        "max_prompt_length": "use max_context_tokens at the top level of the config",
        "repetition_penalty": "our sampler has none",
        "generation_kwargs": "our sampler takes temperature, top_p, top_k and min_p",
        "cache_implementation": "our sampler keeps its own cache",
        "use_vllm": "rollouts are sampled with transformers",
        "use_transformers_paged": "rollouts are sampled with our own cache",
        "use_transformers_continuous_batching": "rollouts are sampled with our own cache",
        "reward_weights": "weights are the environment's (env_options.reward_weights)",
        "max_tool_calling_iterations": "turns are the environment's (max_turns)",
        "num_generations_eval": "training evaluates nothing; use `bench` on the checkpoints",
        "log_completions": "every rollout is in trajectories/",
        "log_completions_hub_repo": "every rollout is in trajectories/",
    },
}
# TRL compares these with its names only when the first loss is computed.
CHOICES = {
    "sft": {"loss_type": ["nll", "dft"]},
    "grpo": {
        "loss_type": ["grpo", "dapo", "dr_grpo", "bnpo", "cispo", "sapo", "luspo", "vespo"],
        "importance_sampling_level": ["token", "sequence"],
        "scale_rewards": ["group", "batch", "none", True, False],
        "multi_objective_aggregation": ["sum_then_normalize", "normalize_then_sum"],
    },
}
REPORT_BACKENDS = ("none", "tensorboard", "wandb", "trackio")


def run(request: dict, host) -> dict:
    """Checks everything that needs no weights. The result's `problems` are for the user to mend before the run."""
    recipe = request["recipe"]
    problems: list[str] = []
    warned: list[str] = []
    if recipe in CONFIG_CLASSES:
        processes = request.get("processes", 1)
        found, noted = trainer_problems(recipe, request["trainer"], processes)
        problems += found
        warned += noted
        problems += device_problems(request.get("local_processes", 1), request["trainer"])

    longest = None
    try:
        chat = chat_format(request, load_tokenizer(request["model"]))
        limit = context_limit(load_model_config(request["model"]))
        check_weights(request["model"])
        if request.get("lora") is not None:
            check_lora(request["model"], request["lora"])
        if request["gold"]:
            longest = longest_solution(request["gold"], chat)
            found, noted = budget_problems(longest, request["budgets"], limit)
            problems += found
            warned += noted
    except UserError as error:
        problems.append(str(error))
    except ValueError as error:  # a worked solution that the template cannot render
        problems.append(f"gold: {error}")
    return {"ok": not problems, "problems": problems, "warnings": warned, "longest": longest}


def trainer_problems(recipe: str, trainer: dict[str, Any], processes: int | None = None) -> tuple[list[str], list[str]]:
    """Problems and warnings of the `trainer` block, and of the installed TRL. `processes`: of the run; None: ours."""
    processes = processes or int(os.environ.get("WORLD_SIZE", 1))
    installed = Version(trl.__version__)
    if installed < OLDEST_TRL:
        return [f"TRL {installed} is installed; rollout functions need {OLDEST_TRL} or later. Run `setup`."], []
    warned = []
    if installed != PINNED_TRL:
        warned.append(
            f"TRL {installed} is installed; this project is tested with {PINNED_TRL}. Run `setup` for that one."
        )

    config_class = CONFIG_CLASSES[recipe]
    known = [field.name for field in dataclasses.fields(config_class)]
    elsewhere = ELSEWHERE | ELSEWHERE_BY_RECIPE[recipe]
    problems = []
    for key in trainer:
        if key in elsewhere:
            problems.append(f"trainer.{key} cannot be set here: {elsewhere[key]}.")
        elif key not in known:
            usable = [name for name in known if name not in elsewhere]
            problems.append(f"trainer.{key}: {config_class.__name__} has no such key.{did_you_mean(key, usable)}")
        elif trainer[key] not in CHOICES[recipe].get(key, [trainer[key]]):
            choices = ", ".join(str(choice) for choice in CHOICES[recipe][key])
            problems.append(f"trainer.{key} is '{trainer[key]}'; expected one of {choices}.")
    if not problems:
        problems += type_problems(config_class, trainer, CHOICES[recipe])
    if not problems:
        problems += report_problems(trainer.get("report_to", "none"))
    if not problems and recipe == "grpo":
        problems += group_problems(trainer, processes)
    if not problems:
        problems += value_problems(config_class, trainer, processes)
    return problems, warned


def device_problems(local_processes: int, trainer: dict[str, Any]) -> list[str]:
    """Each process of a machine takes a GPU of its own, where there are GPUs."""
    gpus = torch.cuda.device_count()
    if gpus == 0 or trainer.get("use_cpu") or local_processes <= gpus:
        return []
    return [
        f"{local_processes} processes on this machine, which has {gpus} GPU{'s' if gpus > 1 else ''}: each takes one. "
        f"Set --nproc {gpus}, or CUDA_VISIBLE_DEVICES= to train on the CPU."
    ]


def type_problems(config_class, trainer: dict[str, Any], checked: typing.Container[str]) -> list[str]:
    """Values of another type than the config class declares, and numbers that are none or too small.

    A dataclass takes them all: they would fail in the first step, or train something else.
    """
    hints = typing.get_type_hints(config_class)
    problems = []
    for key, value in trainer.items():
        if key in checked:
            continue
        kinds = _plain_types(hints[key])
        if kinds is not None and not any(_is_a(value, kind) for kind in kinds):
            expected = " or ".join(TYPE_NAMES[kind] for kind in sorted(kinds, key=list(TYPE_NAMES).index))
            problems.append(f"trainer.{key} is {value!r}; expected {expected}.")
        elif isinstance(value, int | float) and not math.isfinite(value):
            problems.append(f"trainer.{key} is {value}; expected a finite number.")
        elif isinstance(value, int | float) and value < LEAST.get(key, -math.inf):
            problems.append(f"trainer.{key} is {value}; expected {LEAST[key]} or more.")
    return problems


TYPE_NAMES = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    list: "a list",
    dict: "keys and values",
    type(None): "null",
}
LEAST = {
    "per_device_train_batch_size": 1,
    "gradient_accumulation_steps": 1,
    "steps_per_generation": 1,
    "generation_batch_size": 1,
    "num_iterations": 1,
    "max_steps": -1,  # not set: epochs count
    "num_train_epochs": 0,
    "learning_rate": 0,
    "weight_decay": 0,
    "max_grad_norm": 0,
    "warmup_steps": 0,
    "beta": 0,
}


def _plain_types(hint) -> set[type] | None:
    """The types that a declaration names; None where it names one that JSON has not, as an enum."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        kinds: set[type] = set()
        for part in typing.get_args(hint):
            inner = _plain_types(part)
            if inner is None:
                return None
            kinds |= inner
        return kinds
    kind = typing.get_origin(hint) or hint
    return {kind} if kind in TYPE_NAMES else None


def _is_a(value, kind: type) -> bool:
    if kind is bool or isinstance(value, bool):
        return kind is bool and isinstance(value, bool)
    return isinstance(value, int | float) if kind is float else isinstance(value, kind)


def report_problems(report_to) -> list[str]:
    """Every backend must be known and installed: TRL would find out after the model has loaded."""
    problems = []
    for name in [report_to] if isinstance(report_to, str) else report_to:
        if name not in REPORT_BACKENDS:
            problems.append(f"trainer.report_to is '{name}'; expected one of {', '.join(REPORT_BACKENDS)}.")
        elif name != "none":
            from importlib.util import find_spec

            if find_spec(name) is None:
                problems.append(f"trainer.report_to is '{name}', which is not installed: pip install {name}.")
    return problems


def group_problems(trainer: dict[str, Any], processes: int = 1) -> list[str]:
    """A generation batch, of all processes, must hold whole groups of at least 2 rollouts."""
    defaults = {field.name: field.default for field in dataclasses.fields(GRPOConfig)}

    def value(name: str):
        return trainer.get(name, defaults[name])

    group = value("num_generations")
    if not isinstance(group, int) or group < 2:
        return [f"trainer.num_generations is {group}; a group needs at least 2 rollouts to tell better from worse."]
    if value("generation_batch_size") is not None and value("steps_per_generation") is not None:
        return ["trainer.generation_batch_size and trainer.steps_per_generation say the same thing: set one of them."]
    batch, accumulation = value("per_device_train_batch_size"), value("gradient_accumulation_steps")
    rounds = value("steps_per_generation") or accumulation
    rollouts = value("generation_batch_size") or batch * rounds * processes
    made = f"per_device_train_batch_size {batch} × {rounds}" + (f" × {processes} processes" if processes > 1 else "")
    if rollouts % group != 0:
        return [
            f"{rollouts} rollouts a step ({made}) do not divide into groups of {group} (num_generations). "
            f"Make the batch a multiple of {group}, as "
            f"{max(1, round(batch / group)) * group}."
        ]
    return []


def value_problems(config_class, trainer: dict[str, Any], processes: int = 1) -> list[str]:
    """Builds the config class once: TRL and transformers check values as they build it.

    Without the launcher's variables: the class would join the other processes. The batch stands for that of all.
    """
    hidden = io.StringIO()
    batch = "per_device_train_batch_size"
    if processes > 1 and config_class is GRPOConfig:
        trainer = {**trainer, batch: trainer.get(batch, GRPOConfig.per_device_train_batch_size) * processes}
    quiet = contextlib.redirect_stdout(hidden)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), quiet, alone():
        warnings.simplefilter("ignore")
        hardware = {"use_cpu": not torch.cuda.is_available()}
        if not {"bf16", "fp16"} & trainer.keys():
            hardware["bf16"] = False
        try:
            config_class(**({"output_dir": folder, "report_to": "none"} | hardware | trainer))
        except (TypeError, ValueError) as error:
            return [f"trainer: {config_class.__name__} refuses it: {error}"]
    return []


@contextlib.contextmanager
def alone() -> typing.Iterator[None]:
    """Hides what a launcher set: what is built inside takes this process for the only one."""
    names = [name for name in os.environ if name in LAUNCHERS or name.startswith(("ACCELERATE_", "FSDP_"))]
    hidden = {name: os.environ.pop(name) for name in names}
    try:
        yield
    finally:
        os.environ.update(hidden)
        if hidden:
            AcceleratorState._reset_state(reset_partial_state=True)


LAUNCHERS = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}


def longest_solution(rows: list[dict], chat: DialogueFormat) -> dict[str, int]:
    """Tokens that the worked solutions need, each figure the largest of any row.

    `prompt`: before the first reply; `turn`: of one reply with its end token; `policy`: of all replies;
    `observation`: of all that the environment and the template add; `total`: of the whole context. `least_total` is
    the smallest: of rows sent because they are long, what the shortest of them takes.
    """
    longest = dict.fromkeys(("prompt", "turn", "policy", "observation", "total"), 0)
    least_total = None
    for row in rows:
        transcript = transcript_of(row, chat)
        policy = sum(transcript.env_mask)
        figures = {
            "prompt": len(transcript.prompt_ids),
            "turn": longest_run(transcript.env_mask),
            "policy": policy,
            "observation": len(transcript.env_mask) - policy,
            "total": len(transcript.prompt_ids) + len(transcript.completion_ids),
        }
        longest = {name: max(longest[name], figure) for name, figure in figures.items()}
        least_total = min(figures["total"], least_total or figures["total"])
    return {**longest, "least_total": least_total or 0}


def longest_run(mask: list[int]) -> int:
    """Length of the longest stretch of ones."""
    longest = current = 0
    for bit in mask:
        current = current + 1 if bit else 0
        longest = max(longest, current)
    return longest


def budget_problems(longest: dict[str, int], budgets: dict[str, int | None], limit: int | None):
    """Budgets that a worked solution does not fit into (problems), or only just (warnings)."""
    problems, warned = [], []
    checks = [
        ("max_turn_tokens", "turn", "the longest gold reply"),
        ("max_episode_tokens", "policy", "the replies of the longest gold solution"),
        ("max_context_tokens", "total", "the longest gold solution with its prompt and observations"),
    ]
    for name, figure, what in checks:
        budget, need = budgets.get(name), longest[figure]
        if budget is None:
            continue
        if need > budget:
            problems.append(
                f"{name} is {budget}, but {what} takes {need} tokens. "
                f"Set --{name.replace('_', '-')} {need + SPARE_TOKENS}."
            )
        elif need + SPARE_TOKENS > budget:  # a policy says the same in more words
            warned.append(
                f"{name} is {budget}; {what} takes {need} tokens, which leaves fewer than {SPARE_TOKENS} to spare."
            )
    for name in ("max_context_tokens", "max_length"):
        if limit is not None and (budgets.get(name) or 0) > limit:
            warned.append(f"{name} is {budgets[name]}, more than the {limit} positions the model has; {limit} counts.")
    # SFT sends just more rows than may be left out, the longest ones: where none of them fits, training would refuse.
    max_length = budgets.get("max_length")
    if max_length is not None and longest["least_total"] > max_length:
        problems.append(
            f"max_length is {max_length}, but more than 1 % of the rows are longer; the longest takes "
            f"{longest['total']} tokens. Set --max-length {longest['total']}, or shorten the rows."
        )
    if limit is not None and longest["total"] > limit:
        problems.append(
            f"the model has {limit} positions, but {checks[2][2]} takes {longest['total']} tokens. "
            f"Take a model with a longer context, or a shorter prompt."
        )
    return problems, warned
