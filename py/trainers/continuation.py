"""The continuation style: an episode goes on inside one assistant message, for checkpoints that were trained so.

    [prompt …assistant header] [Thought: … Action: … end]  [\\nObservation: …\\nThought:] [ … Action: … end]
     prompt_ids                 mask 1                      mask 0                      mask 1

The texts come from the environment: `separator` "\\n", `opening` "Thought:", `stop` "Observation:". The first opening
is the policy's own; from then on the environment writes it behind each observation.

A turn ends with an end-of-turn id, whichever, and with the first token by which its text holds `stop`. Then whole
tokens are cut off the end until what is left says nothing beyond the text before `stop`: a token that reaches into it
goes, and so does a part of a character. What was cut was never in the transcript: it has no mask and no logprob, and
the next turn does not see it. Where nothing would be left of an episode's first turn, its first sampled token stays,
with the empty text. An end id that was sampled stays where it is, and none is written in place of a missing one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainers.tokens import ChatFormat, Message, Reply


class ContinuationFormat:
    """The same questions as to ChatFormat, answered in this style. The chat template writes the prompt alone."""

    def __init__(self, chat: ChatFormat, *, separator: str, opening: str, stop: str) -> None:
        """chat: of the same tokenizer; its template need not be append-only, as no later turn is rendered by it."""
        self.chat = chat
        self.separator, self.opening, self.stop = separator, opening, stop
        self.kwargs = chat.kwargs
        self.end_ids, self.end_id = chat.end_ids, chat.end_id
        # A token has at least one byte: those that hold `stop` are among the last so many.
        self._window = len(stop.encode())

    def prompt_ids(self, messages: Sequence[Message]) -> list[int]:
        """As ChatFormat.prompt_ids."""
        return self.chat.prompt_ids(messages)

    def observation_ids(self, observations: Sequence[Message]) -> list[int]:
        """The observations' texts, whatever their roles, and the opening of the next reply, tokenised alone.

        Control tokens in them are spelt out. Other markers of the protocol stay as they are: nothing that the
        environment wrote is ever read as a reply.
        """
        texts = [*(message["content"] for message in observations), self.opening]
        return self.chat.plain_ids("".join(self.separator + text for text in texts))

    def next_turn_ids(self, last_id: int | None, observations: Sequence[Message]) -> list[int]:
        """The same: with which id the reply before ended makes no difference."""
        return self.observation_ids(observations)

    def reply_ids(self, reply: str, *, first: bool = True) -> list[int]:
        """A reply written by an expert, as the policy is to sample it: its tokens and the end-of-turn token.

        Only the first of a dialogue begins with the opening: the others have it in front of them.
        Raises ValueError where the policy could not have written it in this style.
        """
        if self.stop in reply:
            raise ValueError(f"the reply holds {self.stop!r}, at which every reply is cut: {reply!r}")
        if first:
            return self.chat.reply_ids(reply)
        if not reply.startswith(self.opening):
            raise ValueError(
                f"the reply does not begin with {self.opening!r}, which the continuation style writes before every "
                f"reply but the first: {reply!r}"
            )
        return self.chat.reply_ids(reply[len(self.opening) :])

    def reply_text(self, ids: Sequence[int]) -> str:
        """As ChatFormat.reply_text."""
        return self.chat.reply_text(ids)

    def is_over(self, ids: Sequence[int]) -> bool:
        """Whether the last of these ids completes `stop`."""
        return self.stop in self._decoded(ids[-self._window :])

    def read_reply(self, ids: Sequence[int], *, first: bool) -> Reply:
        """What of a sampled turn (at least one id) stays, and what it says (see the file's head)."""
        raw = self.reply_text(ids)
        before, stopped, _ = raw.partition(self.stop)
        if not stopped:
            return Reply(len(ids), raw)
        kept = len(ids) - 1
        while kept and not before.startswith(self.reply_text(ids[:kept])):
            kept -= 1
        if kept == 0:
            return Reply(int(first), "", stopped=True)
        return Reply(kept, self.reply_text(ids[:kept]), stopped=True)

    def _decoded(self, ids: Sequence[int]) -> str:
        return self.chat.tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)


DialogueFormat = ChatFormat | ContinuationFormat


def continuation_format(
    tokenizer: Any,
    chat_template_kwargs: dict[str, Any] | None,
    *,
    eos_token_ids: int | Sequence[int] | None,
    continuation: dict[str, str],
    tools: Sequence[dict[str, Any]] | None = None,
) -> ContinuationFormat:
    """The format of a model in this style. continuation: {separator, opening, stop}, as the environment declares it."""
    chat = ChatFormat(tokenizer, chat_template_kwargs, eos_token_ids=eos_token_ids, observation_role=None, tools=tools)
    return ContinuationFormat(chat, **continuation)
