"""Token ids and loss masks: the one code path behind rollouts and SFT rows.

Two rules hold everywhere. Ids that the policy sampled are the only truth: they are never decoded and encoded again.
Ids that the environment or the template writes are the template's own text, tokenised alone, mask 0, logprob 0.0.

A turn in a transcript:

    [prompt …assistant header] [reply … end]  [separator, observations, assistant header] [reply … end]
     prompt_ids                 mask 1         mask 0                                       mask 1

The end-of-turn token is mask 1 where the policy sampled it. Where it did not (the reply was cut by a budget, or the
policy ended with another end id than the template's), the template's end token is written behind it with mask 0, so
that the next turn always starts from a well-formed dialogue.

`ChatFormat` is the style of a dialogue whose observations are messages; `continuation.py` has the other one, which goes
on inside one assistant message. Both decide the same things under the same names.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from trainers.wire import well_formed

if TYPE_CHECKING:
    from trainers.continuation import DialogueFormat

Message = dict[str, Any]  # {"role", "content", "tool_calls"?, "is_error"?}, as src/core/message.ts has it


class ChatTemplateError(ValueError):
    """The tokenizer's chat template cannot be used for multi-turn training; the message says what to change."""


@dataclass
class Transcript:
    """One episode in tokens. Ids, mask and logprobs grow together, an entry a token."""

    prompt_ids: list[int] = field(default_factory=list)  # (P,)
    completion_ids: list[int] = field(default_factory=list)  # (C,)
    env_mask: list[int] = field(default_factory=list)  # (C,) 1: the policy's token, 0: the template's or environment's
    logprobs: list[float] = field(default_factory=list)  # (C,) nats, of the sampling distribution; 0.0 where mask is 0
    reply_starts: list[int] = field(default_factory=list)  # (K,) where each reply begins in completion_ids

    def add_sampled(self, ids: Sequence[int], logprobs: Sequence[float]) -> None:
        """Appends what the policy wrote, ids as they were sampled. ValueError unless each has a logprob <= 0.

        NaN: an engine gave none. The trainer then takes its own in that place, which is a ratio of 1.
        """
        if len(ids) != len(logprobs):
            raise ValueError(f"{len(ids)} sampled ids came with {len(logprobs)} logprobs")
        for index, logprob in enumerate(logprobs):
            if logprob is None or logprob == -math.inf or logprob > 1e-3:
                raise ValueError(f"sampled id {index} of {len(ids)} has the logprob {logprob}; expected a number <= 0")
        self.reply_starts.append(len(self.completion_ids))
        self.completion_ids += ids
        self.env_mask += [1] * len(ids)
        self.logprobs += logprobs

    def add_template(self, ids: Sequence[int]) -> None:
        """Appends what the environment and the template wrote."""
        self.completion_ids += ids
        self.env_mask += [0] * len(ids)
        self.logprobs += [0.0] * len(ids)

    @property
    def turn_index(self) -> list[int]:
        """(C,) the number of the reply, from 0, that each token belongs to; what stands between two, to the first."""
        ends = [*self.reply_starts[1:], len(self.completion_ids)]
        begins = [0, *self.reply_starts[1:]]
        return [turn for turn, (begin, end) in enumerate(zip(begins, ends, strict=True)) for _ in range(begin, end)]

    @property
    def policy_tokens(self) -> int:
        """Length as budgets and length penalties count it: the policy's tokens, not the span across observations."""
        return sum(self.env_mask)


@dataclass(frozen=True)
class Reply:
    """What becomes of the ids that the policy sampled in a turn."""

    kept: int  # how many of them stay in the transcript, from the first on
    text: str  # what the environment is told
    stopped: bool = False  # the policy began to write what only the environment writes: cut off


class ChatFormat:
    """A tokenizer's chat template as id sequences that only ever grow.

    Control tokens come from the template alone. In what messages say (observations, prompts, SFT replies) the text of a
    control token is spelt out in ordinary tokens: before rendering, every such text is replaced by a stand-in that
    cannot be a token, the rendered text is split at the stand-ins, and the texts behind them are encoded in pieces
    too short to match. All other text is encoded together with the template around it, so without control markers the
    ids equal the tokenizer's own render. Control tokens are the special tokens and the end-of-turn ids; in user
    and tool messages, whose text comes from outside, also the added tokens that the template writes (`<tool_call>`).
    """

    end_ids: frozenset[int]
    """Every id that ends a turn: the tokenizer's eos, the generation config's, the template's own."""
    end_id: int
    """The one that the template itself writes after an assistant message."""
    is_over: Callable[[Sequence[int]], bool] | None = None
    """Whether the ids of a reply so far end it by their text; None: only end-of-turn ids do."""

    def __init__(
        self,
        tokenizer: Any,
        chat_template_kwargs: dict[str, Any] | None = None,
        *,
        eos_token_ids: int | Sequence[int] | None = None,
        observation_role: str | None = "user",
        tools: Sequence[dict[str, Any]] | None = None,
    ) -> None:
        """Probes the template: renders a dialogue of three replies whole, and by appending, and compares.

        chat_template_kwargs: handed to the template. The key `chat_template` replaces the template: its Jinja text, or
            "training" for TRL's append-only version of a known stock template.
        eos_token_ids: `generation_config.eos_token_id` of the model.
        observation_role: the role the environment's observations have; other roles are probed when first met. None:
            observations are no messages, so nothing is probed.
        tools: JSON schemas of the functions, {"type": "function", "function": {name, description, parameters}}, which
            the template writes into every prompt; None: it is given none.
        Raises ChatTemplateError when the template is not append-only, naming the switches that were found to help, and
        when it does not write the tools.
        """
        self.tokenizer = tokenizer
        self.tools = list(tools) if tools else None
        self.kwargs = _resolve_template(tokenizer, dict(chat_template_kwargs or {}))
        self._source = self.kwargs.get("chat_template") or _template_source(tokenizer, "tool_use" if tools else None)
        self.added = tokenizer.added_tokens_decoder
        self.end_id = self._find_end_id()
        self._end_text = self.added[self.end_id].content

        configured = [eos_token_ids] if isinstance(eos_token_ids, int) else list(eos_token_ids or [])
        eos = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
        self.end_ids = frozenset([self.end_id, *eos, *configured])

        special = {token.content for index, token in self.added.items() if token.special or index in self.end_ids}
        written = {token.content for token in self.added.values() if _written_by(self._source, token.content)}
        self.control = {"assistant": _pattern(special), "system": _pattern(special)}
        self.control["user"] = self.control["tool"] = _pattern(special | written)

        if self.tools and not self._writes_tools():
            raise ChatTemplateError(
                "the chat template does not write the tools that it is given, so the model would not know of them. "
                "Set --chat-template hermes, which writes them as Qwen2.5's does, or a template of your own that uses "
                "'tools'."
            )
        self._probed: set[str] = set()
        if observation_role is not None:
            self._probe(observation_role)

    # ------------------------------------------------------------------------------------------------ ids

    def prompt_ids(self, messages: Sequence[Message]) -> list[int]:
        """The ids of a dialogue so far with the header of the next reply. Assistant messages in it are prompt too."""
        marked = Marks(self)
        tools = self.tools and marked.value(self.tools, self.control["system"])
        text = self._render([marked.message(message) for message in messages], generation_prompt=True, tools=tools)
        return marked.encode(text)

    def observation_ids(self, observations: Sequence[Message]) -> list[int]:
        """What stands between the template's end-of-turn token and the next reply: separator, observations, header."""
        for message in observations:
            if message["role"] not in self._probed:
                self._probe(message["role"])
        marked = Marks(self)
        text = self._suffix([marked.message(message) for message in observations])
        return marked.encode(self._end_text + text, behind=self.end_id)

    def next_turn_ids(self, last_id: int | None, observations: Sequence[Message]) -> list[int]:
        """All mask-0 ids between a reply whose last sampled id is `last_id` and the next one (see the file's head)."""
        missing = [] if last_id == self.end_id else [self.end_id]
        return missing + self.observation_ids(observations)

    def plain_ids(self, text: str) -> list[int]:
        """A text from outside in the middle of a message, tokenised alone."""
        marked = Marks(self)
        return marked.encode(marked.text(text, self.control["user"]))

    def reply_ids(self, reply: str, *, first: bool = True) -> list[int]:
        """A reply written by an expert, as the policy is to sample it: its tokens and the end-of-turn token.

        first: of its dialogue, which here makes no difference.
        """
        marked = Marks(self)
        return [*marked.encode(marked.text(reply, self.control["assistant"])), self.end_id]

    def reply_text(self, ids: Sequence[int]) -> str:
        """The text of sampled ids without the end-of-turn token. Bytes that are no UTF-8 become U+FFFD."""
        if len(ids) and ids[-1] in self.end_ids:
            ids = ids[:-1]
        text = self.tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return well_formed(text)

    def read_reply(self, ids: Sequence[int], *, first: bool) -> Reply:
        """What of a sampled turn (at least one id) stays, and what it says. first: of its dialogue."""
        return Reply(len(ids), self.reply_text(ids))

    # -------------------------------------------------------------------------------------------- rendering

    def render(
        self,
        messages: list[Message],
        *,
        generation_prompt: bool,
        kwargs: dict[str, Any] | None = None,
        tools: list[dict[str, Any]] | None = None,
    ) -> str:
        """The template's text of a dialogue with exactly these tools. Raises ChatTemplateError where it cannot."""
        kwargs = self.kwargs if kwargs is None else kwargs
        try:
            return self.tokenizer.apply_chat_template(
                messages, tools=tools or None, tokenize=False, add_generation_prompt=generation_prompt, **kwargs
            )
        except Exception as error:  # Jinja's own raise_exception(), type errors of the template's code, …
            roles = ", ".join(message["role"] for message in messages) or "none"
            raise ChatTemplateError(
                f"the chat template cannot render messages of the roles {roles}: {error}"
            ) from error

    def _render(self, messages: list[Message], **options: Any) -> str:
        return self.render(messages, **{"tools": self.tools, **options})

    def _writes_tools(self) -> bool:
        header = self._render([_USER], generation_prompt=True)
        return header != self._render([_USER], generation_prompt=True, tools=None)

    def _suffix(self, observations: list[Message], kwargs: dict[str, Any] | None = None) -> str:
        """The text that `observations` and the next header add behind the end-of-turn token of the reply before."""
        dialogue = [_USER, {"role": "assistant", "content": _REPLY}, *observations]
        text = self._render(dialogue, generation_prompt=True, kwargs=kwargs)
        _, found, behind = text.rpartition(_REPLY + self._end_text)
        if not found:
            raise ChatTemplateError(f"the chat template writes no {self._end_text!r} behind an earlier reply: {text!r}")
        return behind

    def _find_end_id(self) -> int:
        text = self._render([_USER, {"role": "assistant", "content": _REPLY}], generation_prompt=False)
        behind = text.rpartition(_REPLY)[2]
        ids = self.tokenizer.encode(behind, add_special_tokens=False) if behind else []
        if not ids or ids[0] not in self.added:
            raise ChatTemplateError(
                f"the chat template writes {behind!r} behind a reply; expected an end-of-turn token such as "
                "'<|im_end|>' that stands among the tokenizer's added tokens. Add it there, or choose a chat model."
            )
        return ids[0]

    # ------------------------------------------------------------------------------------------------ probe

    def _probe(self, role: str) -> None:
        """Refuses the template unless it is append-only for observations of this role."""
        problem = self._problem(role, self.kwargs)
        if problem is not None:
            helps = [switches for switches in _SWITCHES if self._helped_by(switches, role)]
            raise ChatTemplateError(
                "the chat template is not append-only, so a later turn would not extend the tokens of the earlier "
                f"ones: {problem} "
                + (
                    f"Set chat_template_kwargs to {' or '.join(map(str, helps))}."
                    if helps
                    else "None of the known switches helps: give a template that keeps earlier replies as they were, "
                    "as chat_template_kwargs.chat_template."
                )
            )
        self._probed.add(role)

    def _helped_by(self, switches: dict[str, Any], role: str) -> bool:
        if not all(name == "chat_template" or name in self._source for name in switches):
            return False
        try:
            return self._problem(role, _resolve_template(self.tokenizer, {**self.kwargs, **switches})) is None
        except ChatTemplateError:
            return False

    def _problem(self, role: str, kwargs: dict[str, Any]) -> str | None:
        """What differs between a dialogue of three replies rendered whole and the same by appending; None: nothing.

        A template that knows about thinking is tried with the replies its header asks for: with thinking, or
        without where the header has closed it already.
        """
        header = self._render([_USER], generation_prompt=True, kwargs=kwargs)
        thinks = "</think>" in self._source and not header.rstrip().endswith("</think>")
        opened = header.rstrip().endswith("<think>")  # the header writes the first word of the thinking itself
        messages: list[Message] = [_USER]
        pieces = [header]
        for turn in range(1, 4):
            content = f"<think>\nreason {turn}\n</think>\n\nanswer {turn}" if thinks else f"answer {turn}"
            observation = {"role": role, "content": f"observation {turn}"}
            messages += [{"role": "assistant", "content": content}, observation]
            pieces += [content.removeprefix("<think>\n") if opened else content]
            pieces += [self._end_text + self._suffix([observation], kwargs)]
        rest = self._render(messages, generation_prompt=True, kwargs=kwargs)
        for index, piece in enumerate(pieces):
            if index % 2:  # a space between header and reply is the policy's to sample
                rest = rest.removeprefix(" ")
            if not rest.startswith(piece):
                return f"in a dialogue of three turns it writes {rest[:50]!r} where the turns had {piece[:50]!r}."
            rest = rest[len(piece) :]
        return f"it writes {rest[:50]!r} behind the last turn." if rest else None


def transcript_of(row: dict[str, Any], chat: DialogueFormat) -> Transcript:
    """An SFT row {prompt: [Message], turns: [{reply, observations}]} by the same rules as a rollout.

    Replies and their end-of-turn token have mask 1. Observations of the last turn are left out, as nothing follows
    them. logprobs are 0.0: nobody sampled this. ValueError when there is no turn to learn, or a reply that the policy
    could not have written in this style.
    """
    if not row["turns"]:
        raise ValueError(f"row {row.get('id', '?')}: it has no assistant turn, so there is nothing to learn")
    transcript = Transcript(prompt_ids=chat.prompt_ids(row["prompt"]))
    for index, (turn, following) in enumerate(zip(row["turns"], [*row["turns"][1:], None], strict=True)):
        try:
            ids = chat.reply_ids(turn["reply"], first=index == 0)
        except ValueError as error:
            raise ValueError(f"row {row.get('id', '?')}, turn {index + 1}: {error}") from error
        transcript.add_sampled(ids, [0.0] * len(ids))
        if following is not None:
            transcript.add_template(chat.next_turn_ids(ids[-1], turn["observations"]))
    return transcript


# ------------------------------------------------------------------------------------------------------ details

_USER: Message = {"role": "user", "content": "question"}
_REPLY = "TRESTLEREPLY"  # stands for a reply in renders that only ask for the text around it

# Switches of known templates that decide what becomes of earlier thinking, tried in this order when a probe fails.
_SWITCHES: list[dict[str, Any]] = [
    {"preserve_thinking": True},
    {"keep_thinking": True},
    {"clear_thinking": False},
    {"truncate_history_thinking": False},
    {"strip_thinking": False},
    {"enable_thinking": False},
    {"enable_thinking": True},
    {"chat_template": "training"},
    {"chat_template": "training", "enable_thinking": False},
]


class Marks:
    """The control-token texts of one render, each replaced by a stand-in until the text is encoded."""

    def __init__(self, chat: ChatFormat) -> None:
        self.chat = chat
        self.texts: list[str] = []

    def message(self, message: Message) -> Message:
        """The message as templates take it, its control-token texts marked."""
        pattern = self.chat.control[message["role"]]
        marked: Message = {"role": message["role"], "content": self.text(message["content"], pattern)}
        if calls := message.get("tool_calls"):
            marked["tool_calls"] = [{"type": "function", "function": self.value(call, pattern)} for call in calls]
        return marked

    def value(self, value: Any, pattern: re.Pattern[str]) -> Any:
        if isinstance(value, str):
            return self.text(value, pattern)
        if isinstance(value, dict):
            return {self.text(key, pattern): self.value(entry, pattern) for key, entry in value.items()}
        return [self.value(entry, pattern) for entry in value] if isinstance(value, list) else value

    def text(self, text: str, pattern: re.Pattern[str]) -> str:
        text = well_formed(text).replace(_MARK, "")
        return pattern.sub(self._mark, text)

    def _mark(self, match: re.Match[str]) -> str:
        self.texts.append(match.group())
        return f"{_MARK}{len(self.texts) - 1}{_MARK}"

    def encode(self, text: str, behind: int | None = None) -> list[int]:
        """Ids of a rendered text. `behind`: it starts with this id's text, which gives context and is left out."""
        encode = self.chat.tokenizer.encode
        parts = _MARKED.split(text)  # text, index, text, index, …, text
        ids: list[int] = []
        for position, part in enumerate(parts):
            if position % 2 == 0:
                ids += encode(part, add_special_tokens=False) if part else []
            else:
                ids += self._spell(self.texts[int(part)])
        if behind is None:
            return ids
        if ids[:1] != [behind]:
            raise ChatTemplateError(f"the tokenizer does not encode its own token {behind} as a token of its own")
        return ids[1:]

    def encode_with_starts(self, text: str) -> tuple[list[int], list[int] | None]:
        """Ids of a rendered text, and the character of it at which each begins; None: the tokenizer does not tell."""
        tokenizer = self.chat.tokenizer
        if not tokenizer.is_fast:
            return self.encode(text), None
        ids: list[int] = []
        starts: list[int] = []
        at, tiled = 0, True
        for position, part in enumerate(_MARKED.split(text)):
            if position % 2:
                spelt = self._spell(self.texts[int(part)])
                ids += spelt
                starts += [at] * len(spelt)
                at += len(part) + 2 * len(_MARK)
            elif part:
                encoded = tokenizer(part, add_special_tokens=False, return_offsets_mapping=True)
                ids += encoded["input_ids"]
                starts += [at + begin for begin, _ in encoded["offset_mapping"]]
                tiled = tiled and _tiles(encoded["offset_mapping"], len(part))
                at += len(part)
        return ids, starts if tiled else None

    def _spell(self, text: str) -> list[int]:
        """A control token's text in ordinary tokens: in two pieces, or by character where a piece is a token too."""
        encode = self.chat.tokenizer.encode
        for pieces in ([text[:1], text[1:]], list(text)):
            ids = [index for piece in pieces if piece for index in encode(piece, add_special_tokens=False)]
            if not any(index in self.chat.added for index in ids):
                return ids
        raise ChatTemplateError(f"the tokenizer cannot write {text!r} in ordinary tokens, and it stands in a message")


def _tiles(ranges: list[tuple[int, int]], length: int) -> bool:
    """Whether the tokens' ranges cover the text without a gap: some tokenizers leave blanks out of them."""
    covered = 0
    for begin, end in ranges:
        if begin > covered:
            return False
        covered = max(covered, end)
    return covered == length


_MARK = "\ufdd0"  # a noncharacter, which Unicode keeps for use inside programs; dropped from what messages say
_MARKED = re.compile(f"{_MARK}(\\d+){_MARK}")


def _pattern(texts: set[str]) -> re.Pattern[str]:
    """Matches any of the texts, longer ones first; nothing when there is none."""
    return re.compile("|".join(re.escape(text) for text in sorted(texts, key=len, reverse=True)) or "(?!)")


def _written_by(source: str, token: str) -> bool:
    return not token.isspace() and token in source


def _template_source(tokenizer: Any, name: str | None = None) -> str:
    """name: of the template that transformers takes where there are several; None, or none of that name: "default"."""
    template = tokenizer.chat_template
    if isinstance(template, dict):
        template = template.get(name) or template.get("default")
    if not template:
        raise ChatTemplateError(
            f"the tokenizer of {tokenizer.name_or_path!r} has no chat template: it belongs to a base model. Choose a "
            "chat model, or give a template as chat_template_kwargs.chat_template."
        )
    return template


def _resolve_template(tokenizer: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Puts TRL's append-only version in place of the word "training"."""
    if kwargs.get("chat_template") != "training":
        return kwargs
    from trl.chat_template_utils import get_training_chat_template  # slow to import, rarely needed

    try:
        template = get_training_chat_template(tokenizer)
    except ValueError as error:
        raise ChatTemplateError(
            "chat_template is 'training', but TRL knows no append-only version of this tokenizer's template."
        ) from error
    return {**kwargs, "chat_template": template or _template_source(tokenizer)}
