"""What can be checked before a model loads: TRL's version and keys, batch sizes, the chat template, token budgets."""

import contextlib
import dataclasses
import enum
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
from trl import DPOConfig, GRPOConfig, SFTConfig

from trainers import vllm_options
from trainers.adapters import qlora_problems
from trainers.continuation import DialogueFormat
from trainers.dpo_options import LOSSES, adapter_problems, option_problems
from trainers.features import missing_features, version_warnings
from trainers.model import (
    UserError,
    adapter_base,
    chat_format,
    check_lora,
    check_weights,
    context_limit,
    did_you_mean,
    find_model,
    is_adapter,
    load_model_config,
    load_tokenizer,
)
from trainers.precision import precision_problems
from trainers.reporting import report_problems
from trainers.teacher import teacher_problems
from trainers.tokens import transcript_of

SPARE_TOKENS = 64  # added to what a worked solution needs where a budget is too small

CONFIG_CLASSES = {
    "sft": SFTConfig,
    "dpo": DPOConfig,
    "grpo": GRPOConfig,
    "opd": getattr(trl, "DistillationConfig", None),  # not in older TRL, which the other recipes can do with
}

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
    "resume_from_checkpoint": "use --resume, which finds the newest whole checkpoint",
    "disable_tqdm": "progress is shown from the log",
    "save_only_model": "a checkpoint holds all that a run needs to go on",
    "ignore_data_skip": "a run that goes on (--resume) finds its place again",
    "restore_callback_states_from_checkpoint": "a run that goes on (--resume) brings all memory back",
    "enable_jit_checkpoint": "SIGTERM saves a checkpoint, always",
    "auto_find_batch_size": "a smaller batch would part groups; lower per_device_train_batch_size",
    "logging_nan_inf_filter": "a loss that is not finite always reaches the log",
    **dict.fromkeys(
        (
            *("do_train", "do_predict", "eval_steps", "eval_delay", "eval_on_start", "per_device_eval_batch_size"),
            *("prediction_loss_only", "eval_do_concat_batches", "eval_use_gather_object", "eval_accumulation_steps"),
            *("include_for_metrics", "batch_eval_metrics", "bf16_full_eval", "fp16_full_eval"),
            *("load_best_model_at_end", "metric_for_best_model", "greater_is_better"),
        ),
        "training evaluates nothing; use `bench` on the checkpoints",
    ),
    **dict.fromkeys(
        ("hub_token", "hub_private_repo", "hub_model_id", "hub_strategy", "hub_always_push", "hub_revision"),
        "a run writes to its folder only",
    ),
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
    "dpo": {
        "max_length": "use max_length at the top level of the config (--max-length)",
        "truncation_mode": "rows longer than max_length are left out, not cut",
        "padding_free": "pairs are trained padded; this TRL has no other way",
        "dataset_num_proc": "pairs come tokenised",
        "trust_remote_code": "the model is loaded before TRL sees it",
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
        **vllm_options.ELSEWHERE,
        "use_transformers_paged": "rollouts are sampled with our own cache",
        "use_transformers_continuous_batching": "rollouts are sampled with our own cache",
        "debug": "--debug is ours: two steps on the tiny model, to see that a config runs",
        "reward_weights": "weights are the environment's (env_options.reward_weights)",
        "max_tool_calling_iterations": "turns are the environment's (max_turns)",
        "num_generations_eval": "training evaluates nothing; use `bench` on the checkpoints",
        "log_completions": "every rollout is in trajectories/",
        "log_completions_hub_repo": "every rollout is in trajectories/",
        "log_multimodal": "every rollout is in trajectories/",
        "log_unique_prompts": "every rollout is in trajectories/",
        "num_completions_to_print": "every rollout is in trajectories/",
        "transformers_continuous_batching_config": "rollouts are sampled with our own cache",
        "ds3_gather_for_generation": "rollouts are sampled with our own cache",
        "vllm_importance_sampling_cap": "use vllm_importance_sampling_clip_max",
        "label_smoothing_factor": "the loss of GRPO has no labels",
        "label_names": "the loss of GRPO has no labels",
        "average_tokens_across_devices": "loss_type decides what the loss is a mean over",
        "train_sampling_strategy": "the trainer draws groups of tasks (--shuffle-dataset, --curriculum)",
        "length_column_name": "the trainer draws groups of tasks (--shuffle-dataset, --curriculum)",
        "remove_unused_columns": "the prompts are the environment's",
    },
    "opd": {
        "temperature": "use temperature at the top level of the config (--temperature)",
        "top_p": "use top_p at the top level of the config (--top-p)",
        "top_k": "use top_k at the top level of the config (--top-k)",
        "min_p": "use min_p at the top level of the config (--min-p)",
        "max_completion_length": "use max_turn_tokens and max_episode_tokens at the top level of the config",
        "max_new_tokens": "use max_turn_tokens and max_episode_tokens at the top level of the config",
        "max_observation_tokens": "what an observation may be is the environment's affair; max_context_tokens bounds "
        "prompt, replies and observations together",
        "repetition_penalty": "our sampler has none",
        "generation_kwargs": "our sampler takes temperature, top_p, top_k and min_p",
        "cache_implementation": "our sampler keeps its own cache",
        "use_vllm": "rollouts are sampled with transformers",
        "max_tool_calling_iterations": "turns are the environment's (max_turns)",
        "teacher_model_name_or_path": "use teacher at the top level of the config (--teacher model:…)",
        "teacher_model_revision": "the teacher is loaded before TRL sees it; use --teacher",
        "teacher_model_init_kwargs": "the teacher is loaded before TRL sees it; use --teacher",
        "trust_remote_code": "models are loaded before TRL sees them, without code of theirs",
        "pad_to_multiple_of": "rows are cut to the longest of their own",
        "log_completions": "every rollout is in trajectories/",
        "num_completions_to_print": "every rollout is in trajectories/",
        "log_unique_prompts": "every rollout is in trajectories/",
    },
}
# TRL compares these with its names only when the first loss is computed.
CHOICES = {
    "sft": {"loss_type": ["nll", "dft"]},
    "dpo": {
        "loss_type": LOSSES,
        "f_divergence_type": ["reverse_kl", "forward_kl", "js_divergence", "alpha_divergence"],
    },
    "grpo": {
        "loss_type": ["grpo", "dapo", "dr_grpo", "bnpo", "cispo", "sapo", "luspo", "vespo"],
        "importance_sampling_level": ["token", "sequence"],
        "scale_rewards": ["group", "batch", "none", True, False],
        "multi_objective_aggregation": ["sum_then_normalize", "normalize_then_sum"],
        "vllm_mode": vllm_options.MODES,
        "vllm_importance_sampling_mode": vllm_options.CORRECTION_MODES,
    },
    "opd": {},
}


def run(request: dict, host) -> dict:
    """Checks everything that needs no weights. The result's `problems` are for the user to mend before the run."""
    recipe = request["recipe"]
    problems: list[str] = []
    warned = version_warnings()
    effective: dict[str, Any] = {}
    if recipe in CONFIG_CLASSES:
        processes = request.get("processes", 1)
        found, noted = trainer_problems(recipe, request["trainer"], processes)
        problems += found
        warned += noted
        if not problems:
            effective = effective_values(CONFIG_CLASSES[recipe], request["trainer"], request.get("processes", 1))
            for check in (precision_problems, qlora_problems):
                found, noted = check(request)
                problems += found
                warned += noted
        problems += device_problems(request.get("local_processes", 1), request["trainer"])
    if recipe == "dpo" and (request.get("lora") is not None or _names_adapter(request["model"])):
        problems += adapter_problems(request["trainer"])

    longest = None
    try:
        if recipe == "opd" and not problems:
            found, noted = teacher_problems(request)
            problems += found
            warned += noted
        chat = chat_format(request, load_tokenizer(request["model"]))
        limit = context_limit(load_model_config(request["model"]))
        check_weights(request["model"])
        check_lora(request["model"], request.get("lora"))
        if request["gold"]:
            longest = longest_solution(request["gold"], chat)
            found, noted = budget_problems(longest, request["budgets"], limit)
            problems += found
            warned += noted
        problems += vllm_problems(request, limit)
    except UserError as error:
        problems.append(str(error))
    except ValueError as error:  # a row that the template cannot render
        problems.append(f"{'pairs' if recipe == 'dpo' else 'gold'}: {error}")
    return {
        "ok": not problems,
        "problems": problems,
        "warnings": warned,
        "effective": effective,
        "longest": longest,
    }


def _names_adapter(model: str) -> bool:
    try:
        return is_adapter(find_model(model))
    except UserError:
        return False  # said where the model's files are checked


def trainer_problems(recipe: str, trainer: dict[str, Any], processes: int | None = None) -> tuple[list[str], list[str]]:
    """Problems and warnings of the `trainer` block and of the libraries. `processes`: of the run; None: as launched."""
    processes = processes or int(os.environ.get("WORLD_SIZE", 1))
    problems, warned = missing_features(recipe, use_vllm=bool(trainer.get("use_vllm")))
    if problems:
        return problems, warned

    config_class = CONFIG_CLASSES[recipe]
    known = [field.name for field in dataclasses.fields(config_class)]
    elsewhere = ELSEWHERE | ELSEWHERE_BY_RECIPE[recipe]
    for key in trainer:
        if key in elsewhere:
            problems.append(f"trainer.{key} cannot be set here: {elsewhere[key]}.")
        elif key not in known:
            usable = [name for name in known if name not in elsewhere]
            problems.append(f"trainer.{key}: {config_class.__name__} has no such key.{did_you_mean(key, usable)}")
        elif key in CHOICES[recipe]:
            problems += choice_problems(config_class, key, trainer[key], CHOICES[recipe][key])
    if not problems:
        problems += type_problems(config_class, trainer, CHOICES[recipe])
    if not problems:
        problems += report_problems(trainer)
    if not problems and recipe == "grpo":
        problems += group_problems(trainer, processes) + vllm_options.key_problems(trainer)
    if not problems and recipe == "dpo":
        problems += option_problems(trainer)
    if not problems:
        problems += value_problems(config_class, trainer, processes)
    return problems, warned


def choice_problems(config_class, key: str, value: Any, choices: list) -> list[str]:
    """A value must be one of the choices; where TRL takes a list of them, each entry."""
    listed = typing.get_origin(typing.get_type_hints(config_class)[key]) is list
    wrong = [each for each in (value if listed and isinstance(value, list) else [value]) if each not in choices]
    if wrong or value == []:
        shown = ", ".join(str(choice) for choice in choices)
        return [f"trainer.{key} is '{wrong[0] if wrong else value}'; expected one of {shown}."]
    return []


def vllm_problems(request: dict, limit: int | None) -> list[str]:
    """As vllm_options.engine_problems, for a request; `limit`: positions of the model, None: it names none."""
    if request.get("qlora") and request["trainer"].get("use_vllm"):
        return ["use_vllm takes weights of 16 or 32 bits, and qlora keeps the base in 4: leave one of them out."]
    limits = [each for each in (request["budgets"].get("max_context_tokens"), limit) if each]
    source = find_model(request["model"])
    served = adapter_base(source) if is_adapter(source) else request["model"]
    return vllm_options.engine_problems(request["trainer"], served, min(limits, default=None))


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
        elif key == "max_steps" and value == 0:  # TRL would take one, at a learning rate of 0
            problems.append("trainer.max_steps is 0; expected 1 or more, or -1, where num_train_epochs counts.")
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
    """Builds the config class once: TRL and transformers check values as they build it."""
    try:
        build_config(config_class, trainer, processes)
    except (TypeError, ValueError) as error:
        return [f"trainer: {config_class.__name__} refuses it: {error}"]
    return []


def effective_values(config_class, trainer: dict[str, Any], processes: int = 1) -> dict[str, Any]:
    """Every plain value of the config class as it is with these keys, what follows from them included.

    Not among them: what the run folder or the hardware decides.
    """
    config = build_config(config_class, trainer, processes)
    values = {field.name: getattr(config, field.name, None) for field in dataclasses.fields(config)}
    values = {name: value.value if isinstance(value, enum.Enum) else value for name, value in values.items()}
    if processes > 1:
        values[BATCH] = trainer.get(BATCH, getattr(config_class, BATCH))
    decided = {"output_dir", "use_cpu", "bf16", "fp16", "report_to"} - trainer.keys()
    return {
        name: value
        for name, value in values.items()
        if name not in decided and (value is None or isinstance(value, bool | int | float | str))
    }


BATCH = "per_device_train_batch_size"


def build_config(config_class, trainer: dict[str, Any], processes: int = 1):
    """The config class as `processes` would have it, by one that stands for all: its batch is that of all.

    Without the launcher's variables: the class would join the other processes.
    """
    hidden = io.StringIO()
    if processes > 1 and config_class is GRPOConfig:
        trainer = {**trainer, BATCH: trainer.get(BATCH, getattr(config_class, BATCH)) * processes}
    quiet = contextlib.redirect_stdout(hidden)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), quiet, alone():
        warnings.simplefilter("ignore")
        hardware = {"use_cpu": not torch.cuda.is_available()}
        if not {"bf16", "fp16"} & trainer.keys():
            hardware["bf16"] = False
        return config_class(**({"output_dir": folder, "report_to": "none"} | hardware | trainer))


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
