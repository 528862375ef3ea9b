"""SFT rows that are whole conversations: what of them is learnt, by rendering twice and taking the difference.

A row is {"messages": […], "tools"?: […], "id"?}, in the shape of chat endpoints: calls as
{"function": {"name", "arguments"}}, their arguments an object or its JSON text. An assistant's tokens are those that a
render up to and with its message has beyond the render before it with the generation prompt. Where the difference can't
be told exactly the row is left out, under one of `DROP_REASONS`. Source: spec airline.md 7.6.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from trainers.sources import UserError
from trainers.tokens import ChatFormat, ChatTemplateError, Marks, Message

IGNORED = -100
LEAST_LABELS = 5

DropReason = Literal[
    "no_assistant", "too_long", "template_not_incremental", "misaligned", "too_few_labels", "render_error"
]
DROP_REASONS: tuple[DropReason, ...] = get_args(DropReason)


@dataclass(frozen=True)
class Example:
    """A conversation in tokens, unpadded."""

    input_ids: list[int]  # (T,)
    labels: list[int]  # (T,) the id where it is learnt, -100 elsewhere

    @property
    def attention_mask(self) -> list[int]:
        return [1] * len(self.input_ids)

    @property
    def n_label_tokens(self) -> int:
        return sum(label != IGNORED for label in self.labels)

    @property
    def n_total_tokens(self) -> int:
        return len(self.input_ids)


def mask_conversation(
    messages: Sequence[Message],
    tokenizer: Any,
    tools: Sequence[dict[str, Any]] | None,
    max_length: int,
    *,
    mask_final_newline: bool = False,
    decode_arguments: bool = True,
    chat_template_kwargs: dict[str, Any] | None = None,
) -> Example | DropReason:
    """The conversation in tokens with labels on what the assistant wrote, or why it is left out.

    max_length: tokens; a longer conversation is left out, never cut.
    mask_final_newline: no label on the newline behind an end-of-turn token, which no sampler goes on to.
    decode_arguments: arguments that are JSON text are decoded to objects, which templates serialise. False: rendered
        as they came, which most templates make a quoted string.
    Raises ChatTemplateError for a template that has no end of turn, or does not write the tools.
    """
    chat = ChatFormat(tokenizer, chat_template_kwargs, observation_role=None, tools=tools)
    if not any(message["role"] == "assistant" for message in messages):
        return "no_assistant"
    marks = Marks(chat)
    try:
        dialogue = [marks.message(_normalised(message, decode_arguments)) for message in messages]
        offered = chat.tools and marks.value(chat.tools, chat.control["system"])
        whole = chat.render(dialogue, generation_prompt=False, tools=offered)
        ids, starts = marks.encode_with_starts(whole)
        if len(ids) > max_length:
            return "too_long"
        labels = [IGNORED] * len(ids)
        for index, message in enumerate(dialogue):
            if message["role"] != "assistant":
                continue
            if index == 0:
                return "render_error"  # there is no prompt in front of it
            prefix = chat.render(dialogue[:index], generation_prompt=True, tools=offered)
            upto = chat.render(dialogue[: index + 1], generation_prompt=False, tools=offered)
            if not (upto.startswith(prefix) and whole.startswith(upto)):
                return "template_not_incremental"
            learnt = upto.removesuffix("\n") if mask_final_newline else upto
            begin, end = (_tokens_before(text, ids, starts, marks) for text in (prefix, learnt))
            if begin is None or end is None:
                return "misaligned"
            labels[begin:end] = ids[begin:end]
    except (ChatTemplateError, ArgumentsError):
        return "render_error"
    example = Example(ids, labels)
    return "too_few_labels" if example.n_label_tokens < LEAST_LABELS else example


def mask_conversations(
    rows: Sequence[dict[str, Any]], tokenizer: Any, tools: Sequence[dict[str, Any]] | None, max_length: int, **options
) -> tuple[list[Example], dict[str, Any]]:
    """The rows that are kept, and what became of all of them.

    tools: of rows that name none; a row's own "tools" go before, and [] or null there means none. options: of
    mask_conversation, and `write_tools`, False: no tools at all. Report: `rows`, `kept`, `dropped` by reason,
    `mean_total_tokens`, `mean_label_tokens`, `label_share` (of all tokens kept). Raises UserError where none is kept.
    """
    write_tools = options.pop("write_tools", True)
    examples: list[Example] = []
    dropped = dict.fromkeys(DROP_REASONS, 0)
    for row in rows:
        offered = row.get("tools", tools) if write_tools else None
        try:
            masked = mask_conversation(row["messages"], tokenizer, offered, max_length, **options)
        except ChatTemplateError as error:
            raise UserError(f"rows: {error}") from error
        if isinstance(masked, Example):
            examples.append(masked)
        else:
            dropped[masked] += 1
    if not examples:
        raise UserError(f"none of the {len(rows)} conversations can be learnt from: {dropped_text(dropped)}.")
    total = sum(example.n_total_tokens for example in examples)
    learnt = sum(example.n_label_tokens for example in examples)
    return examples, {
        "rows": len(rows),
        "kept": len(examples),
        "dropped": dropped,
        "mean_total_tokens": total / len(examples),
        "mean_label_tokens": learnt / len(examples),
        "label_share": learnt / total,
    }


def dropped_text(dropped: dict[str, int]) -> str:
    """The reasons that occur, as "3 too_long, 1 misaligned"."""
    return ", ".join(f"{count} {reason}" for reason, count in dropped.items() if count) or "none left out"


def check_conversation(row: dict, where: str) -> None:
    """Raises UserError, with the place it is given, for a row that is no conversation."""

    def refuse(problem: str):
        raise UserError(f"{where}: {problem}")

    messages = row["messages"]
    if not isinstance(messages, list) or not messages:
        refuse("'messages' must be a list with at least one entry.")
    for index, message in enumerate(messages, start=1):
        if not isinstance(message, dict) or message.get("role") not in ("system", "user", "assistant", "tool"):
            refuse(f"message {index} must be an object with the role system, user, assistant or tool.")
        if not isinstance(message.get("content"), str | None):
            refuse(f"message {index}: 'content' must be a text or null.")
        calls = message.get("tool_calls")
        if not isinstance(calls, list | None) or not all(_is_call(call) for call in calls or []):
            refuse(f"message {index}: 'tool_calls' must be a list of {{'function': {{'name', 'arguments'}}}}.")
    tools = row.get("tools")
    if not isinstance(tools, list | None) or not all(isinstance(tool, dict) for tool in tools or []):
        refuse("'tools' must be a list of function schemas.")


# ------------------------------------------------------------------------------------------------------ details


class ArgumentsError(ValueError):
    """The arguments of a call are no JSON text of an object."""


def _is_call(call: Any) -> bool:
    function = call.get("function", call) if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        return False
    return isinstance(function.get("arguments", {}), dict | str | None)


def _normalised(message: Message, decode_arguments: bool) -> Message:
    calls = [call.get("function", call) for call in message.get("tool_calls") or []]
    return {
        "role": message["role"],
        "content": message.get("content") or "",
        "tool_calls": [
            {"name": call["name"], "arguments": _arguments(call.get("arguments"), decode_arguments)} for call in calls
        ],
    }


def _arguments(given: dict[str, Any] | str | None, decode: bool) -> dict[str, Any] | str:
    if given is None:
        return {}
    if not decode or isinstance(given, dict):
        return given
    try:
        decoded = json.loads(given) if given.strip() else {}
    except json.JSONDecodeError as error:
        raise ArgumentsError(str(error)) from error
    if not isinstance(decoded, dict):
        raise ArgumentsError(given)
    return decoded


def _tokens_before(text: str, ids: list[int], starts: list[int] | None, marks: Marks) -> int | None:
    """How many of `ids` belong to `text`, the beginning of the text that they are of; None: it can't be told.

    Mostly it is as many as the text alone has. A token that lies across its end makes those others: then it belongs to
    what is before, and those that start behind it do not.
    """
    alone = marks.encode(text)
    if ids[: len(alone)] == alone:
        return len(alone)
    return None if starts is None else bisect_left(starts, len(text))
