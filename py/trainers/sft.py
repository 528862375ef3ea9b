"""Supervised fine-tuning on worked solutions, with TRL's SFTTrainer. The loss is on the policy's tokens only."""

import json
from collections.abc import Callable

from datasets import Dataset
from transformers.trainer_pt_utils import LengthGroupedSampler
from trl import SFTConfig, SFTTrainer

from trainers import ranks
from trainers.batching import shuffled
from trainers.callbacks import HostCallback, quiet_libraries, train_and_save
from trainers.continuation import DialogueFormat
from trainers.conversations import IGNORED, check_conversation, dropped_text, mask_conversations
from trainers.exam import verify
from trainers.model import Policy, UserError, load_policy, on_one_device, precision_arguments
from trainers.optimizers import MuonWithAdamW
from trainers.preflight import trainer_problems
from trainers.reporting import reporting_arguments
from trainers.sharded import is_sharded
from trainers.tokens import Transcript, transcript_of

MAX_SHARE_TOO_LONG = 0.01


class ExpertTrainer(SFTTrainer):
    def create_model_card(self, *_, **__):
        """None: the run folder has its own record."""

    def _get_train_sampler(self, train_dataset=None):
        sampler = super()._get_train_sampler(train_dataset)
        if isinstance(sampler, LengthGroupedSampler):
            return shuffled(sampler, self)
        return sampler


def run(request: dict, host) -> dict:
    """Trains `request["model"]` on the rows of `request["rows_path"]`; the trained model is in `final/`."""
    quiet_libraries()
    problems, warned = trainer_problems("sft", request["trainer"])
    if request.get("matrix_learning_rate") is not None and is_sharded(request["trainer"]):
        problems.append("matrix_learning_rate: Muon needs whole matrices, and FSDP takes them apart. Leave it out.")
    if problems:
        raise UserError(" ".join(problems))
    for text in warned:
        host.note(text)

    rows = read_rows(request["rows_path"], check_any_row)
    conversations = are_conversations(rows, request["rows_path"])
    policy = load_policy(request)
    report = None
    if conversations:
        examples, report = mask_rows(rows, policy, request, host)
        dropped = report["rows"] - report["kept"]
        tokens = {"policy": count_labels(examples), "total": sum(len(each["input_ids"]) for each in examples)}
    else:
        examples, dropped, tokens = tokenise(rows, policy.chat, request["max_length"])
        if dropped:
            host.note(f"{dropped} of {len(rows)} rows are longer than {request['max_length']} tokens: left out.")

    trainer = build_trainer(request, policy, examples)
    result = train_and_save(trainer, HostCallback(host), policy, request)
    return {
        **result,
        "verification": verify(request, policy, host, trainer.args, result),
        "rows": len(examples),
        "rows_dropped": dropped,
        "tokens": tokens,
        "conversations": report,
    }


def build_trainer(request: dict, policy: Policy, examples: list[dict]) -> ExpertTrainer:
    """The trainer, with what hardware and the run folder decide; the rest is TRL's names and defaults."""
    arguments = {
        "logging_steps": 1,
        **ranks.arguments(),
        **request["trainer"],
        **reporting_arguments(request),
        **precision_arguments(policy, request["trainer"]),
        "output_dir": request["output_dir"],
        "seed": request["seed"],
        "max_length": request["max_length"],
        "packing": False,
        "disable_tqdm": True,
        "logging_nan_inf_filter": False,  # a lost loss must be seen
    }
    args = on_one_device(SFTConfig(**arguments))
    optimizer = None
    if (rate := request.get("matrix_learning_rate")) is not None:
        optimizer = MuonWithAdamW(policy.model, rate, args.learning_rate, (args.adam_beta1, args.adam_beta2))
    return ExpertTrainer(
        model=policy.model,
        args=args,
        optimizers=(optimizer, None),
        train_dataset=Dataset.from_list(examples),
        processing_class=policy.tokenizer,
    )


def read_rows(path: str, check: Callable[[dict, str], None] | None = None) -> list[dict]:
    """Reads ExpertRows, one JSON object a line. Blank lines and a byte order mark are skipped.

    check: raises UserError, with the place it is given, for a row of another kind that does not fit.
    """
    rows = []
    with open(path, encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                raise UserError(f"{path}:{number}: not JSON: {error.msg}.") from error
            if not isinstance(row, dict):
                raise UserError(f"{path}:{number}: row must be an object, got {type(row).__name__}.")
            (check or check_row)(row, f"{path}:{number}")
            rows.append(row)
    if not rows:
        raise UserError(f"{path}: no rows.")
    return rows


def check_row(row: dict, where: str) -> None:
    """A row is a prompt and the policy's turns; it must end with a reply, or there is nothing to learn at its end."""
    for name in ("prompt", "turns"):
        if not isinstance(row.get(name), list) or not row[name]:
            raise UserError(f"{where}: '{name}' must be a list with at least one entry.")
    if row["turns"][-1].get("observations"):
        role = row["turns"][-1]["observations"][-1].get("role")
        raise UserError(f"{where}: the row ends with a message of role '{role}'; it must end with the policy's reply.")


def check_any_row(row: dict, where: str) -> None:
    """As check_row, or as check_conversation where the row has messages."""
    (check_conversation if "messages" in row else check_row)(row, where)


def are_conversations(rows: list[dict], path: str) -> bool:
    """Whether these are whole conversations. Raises UserError where only some are."""
    kinds = {"messages" in row for row in rows}
    if len(kinds) > 1:
        raise UserError(
            f"{path}: some rows have 'messages' and some 'prompt' and 'turns'; expected one kind in a file."
        )
    return kinds.pop()


def mask_rows(rows: list[dict], policy: Policy, request: dict, host) -> tuple[list[dict], dict]:
    """Conversations as SFTTrainer takes them, and the report of what was kept; the person watching is told it too."""
    if request.get("continuation"):
        raise UserError(
            "the rows are conversations, which have messages of their own; leave the continuation style out."
        )
    masked, report = mask_conversations(
        rows,
        policy.tokenizer,
        request.get("tools"),
        request["max_length"],
        chat_template_kwargs=policy.chat.kwargs,
        **{
            name: request[name] for name in ("decode_arguments", "mask_final_newline", "write_tools") if name in request
        },
    )
    host.note(
        f"{report['kept']} of {report['rows']} conversations kept ({dropped_text(report['dropped'])}), "
        f"{report['mean_total_tokens']:.0f} tokens each, {report['mean_label_tokens']:.0f} of them learnt "
        f"({100 * report['label_share']:.1f} %)."
    )
    examples = [
        {"input_ids": each.input_ids, "assistant_masks": [int(label != IGNORED) for label in each.labels]}
        for each in masked
    ]
    return examples, report


def count_labels(examples: list[dict]) -> int:
    return sum(sum(each["assistant_masks"]) for each in examples)


def tokenise(rows: list[dict], chat: DialogueFormat, max_length: int) -> tuple[list[dict], int, dict[str, int]]:
    """Tokenised rows as SFTTrainer takes them, the number left out as too long, and the tokens kept.

    Raises UserError where more than 1 % are too long: that is no longer the data that was asked for; and for a row that
    the policy could not have written.
    """
    examples, too_long = [], []
    tokens = {"policy": 0, "total": 0}
    for row in rows:
        try:
            transcript = transcript_of(row, chat)
        except ValueError as error:
            raise UserError(str(error)) from error
        length = len(transcript.prompt_ids) + len(transcript.completion_ids)
        if length > max_length:
            too_long.append((length, row.get("id", "?")))
            continue
        examples.append(example_of(transcript))
        tokens["policy"] += sum(transcript.env_mask)
        tokens["total"] += length
    if len(too_long) > MAX_SHARE_TOO_LONG * len(rows):
        length, row_id = max(too_long)
        raise UserError(
            f"{len(too_long)} of {len(rows)} rows are longer than max_length {max_length}, the longest ('{row_id}') "
            f"with {length} tokens. Set --max-length {length}, or shorten the rows; at most 1 % may be left out."
        )
    return examples, len(too_long), tokens


def example_of(transcript: Transcript) -> dict[str, list[int]]:
    """`assistant_masks` is 1 on the policy's tokens: TRL turns all others into labels of -100."""
    return {
        "input_ids": transcript.prompt_ids + transcript.completion_ids,
        "assistant_masks": [0] * len(transcript.prompt_ids) + transcript.env_mask,
    }
