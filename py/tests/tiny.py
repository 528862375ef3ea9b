"""A model, tokenizers and an environment small enough to be made on the spot by any test."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from trainers.continuation import ContinuationFormat, continuation_format
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

# Merged in this order. Plain: words and digits, so that boundaries fall between tokens.
_PLAIN = ["th", "in", "er", "the", "user", "assistant", "system", "Thought", "Action", "Observation", "name", "args"]
# Straddling: tokens that lie across every boundary there is: the header's newline and the first letters behind it, the
# marker and what stands around it, two characters of several bytes, a character and the newline behind it.
_STRADDLING = [
    b"\nO",
    b"\nOb",
    b"t\n",
    b"r\n",
    b"r\nT",
    b"\n\n",
    b"\nA",
    b"n:",
    b"n: ",
    b": {",
    b"}\n",
    b"}\nO",
    b"e\nOb",
    "é\n".encode()[1:],
    "\né".encode()[:2],
    "éé".encode()[1:3],
    "€é".encode()[2:4],
    "🙂".encode()[2:] + b"\n",
]


def _byte_letters() -> dict[int, str]:
    """The letter that byte-level tokenizers write for each byte."""
    kept = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in kept]
    return {byte: chr(byte) for byte in kept} | {byte: chr(256 + index) for index, byte in enumerate(others)}


def tiny_tokenizer(
    straddle: bool = False, template: str = CHATML, first: tuple[bytes, ...] = ()
) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer of 280 to 320 tokens with ChatML markers; its eos is <|endoftext|>, as Qwen's is.

    straddle: text is not split into words first, and there are tokens across every boundary of a dialogue.
    first: more tokens, merged before all others.
    """
    letters = _byte_letters()
    vocabulary = {letters[byte]: byte for byte in range(256)}
    merges: list[tuple[str, str]] = []
    for word in [*first, *(_STRADDLING if straddle else [word.encode() for word in _PLAIN])]:
        spelt = [letters[byte] for byte in word]
        left = spelt[0]
        for right in spelt[1:]:
            if left + right not in vocabulary:
                vocabulary[left + right] = len(vocabulary)
                merges.append((left, right))
            left += right
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not straddle)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [AddedToken(text, special=True, normalized=False) for text in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")]
    )
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in ("<tool_call>", "</tool_call>")])
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|endoftext|>",
        pad_token="<|endoftext|>",
        clean_up_tokenization_spaces=False,
    )
    wrapped.chat_template = template
    return wrapped


def spelt(tokenizer: PreTrainedTokenizerFast, *tokens: str | bytes) -> list[int]:
    """The ids of tokens given one by one, as they could be sampled. KeyError for one that the tokenizer has not."""
    letters, vocabulary = _byte_letters(), tokenizer.get_vocab()
    names = ["".join(letters[byte] for byte in (t if isinstance(t, bytes) else t.encode())) for t in tokens]
    return [vocabulary[t] if t in vocabulary else vocabulary[name] for t, name in zip(tokens, names, strict=True)]


def tiny_continuation(tokenizer: PreTrainedTokenizerFast, stop: str = "Observation:") -> ContinuationFormat:
    """The ReAct markers around one assistant message."""
    texts = {"separator": "\n", "opening": "Thought:", "stop": stop}
    return continuation_format(tokenizer, {}, eos_token_ids=None, continuation=texts)


def tiny_model(
    tokenizer: PreTrainedTokenizerFast, *, seed: int = 0, end_rate: float = 0.05, **config: Any
) -> Qwen2ForCausalLM:
    """A random Qwen2 of about a million parameters (4 layers, 128 wide), in evaluation mode.

    end_rate: about how often a token drawn at temperature 1 is <|im_end|>; it is set by a bias of the output layer, so
    the model cannot be saved and loaded. 0: no bias.
    config: keys of Qwen2Config to set otherwise.
    """
    torch.manual_seed(seed)
    settings = {
        "vocab_size": len(tokenizer),
        "hidden_size": 128,
        "intermediate_size": 384,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 4096,
        "initializer_range": 0.08,  # enough for distributions that depend on what was read
        "tie_word_embeddings": False,
        "eos_token_id": tokenizer.eos_token_id,
    }
    model = Qwen2ForCausalLM(Qwen2Config(**settings | config))
    if end_rate:
        head = torch.nn.Linear(model.config.hidden_size, model.config.vocab_size, bias=True)
        head.weight = model.lm_head.weight
        torch.nn.init.zeros_(head.bias)
        end = tokenizer.convert_tokens_to_ids("<|im_end|>")
        with torch.no_grad():
            head.bias[end] = math.log(end_rate * model.config.vocab_size)
        model.lm_head = head
    return model.eval()


class ScriptedHost:
    """A Host whose environment is a few lines of Python. Keeps what it was asked in `calls`, notes in `notes`.

    prompts: task id → the messages that reset gives; a task that is not there fails at reset.
    observe: (task id, turn from 1, reply) → the observation's text, or None when the reply ends the episode.
    """

    def __init__(
        self,
        prompts: dict[str, list[dict[str, str]]],
        observe: Callable[[str, int, str], str | None],
        *,
        max_turns: int = 4,
        role: str = "user",
    ) -> None:
        self.prompts, self.observe, self.max_turns, self.role = prompts, observe, max_turns, role
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.notes: list[str] = []
        self.episodes: list[dict[str, Any]] = []
        self.stop_requested = False

    def asked(self, op: str) -> list[dict[str, Any]]:
        return [payload for name, payload in self.calls if name == op]

    def ask(self, op: str, payload: dict[str, Any]) -> dict[str, Any]:
        self.calls.append((op, payload))
        if op == "note":
            self.notes.append(payload["text"])
            return {}
        return {"episodes": [getattr(self, f"_{op}")(episode) for episode in payload["episodes"]]}

    def note(self, text: str) -> None:
        self.ask("note", {"text": text})

    def log(self, step: int, metrics: dict[str, float]) -> None:
        self.calls.append(("log", {"step": step, "metrics": metrics}))

    def _start(self, episode: dict[str, Any]) -> dict[str, Any]:
        handle = len(self.episodes)
        messages = self.prompts.get(episode["task_id"])
        failed = None if messages else ("error", "reset: no such task")
        self.episodes.append({**episode, "turns": 0, "ended": failed, "finished": False, "replies": []})
        return {"handle": handle, "messages": messages or [], "done": not messages, "max_turns": self.max_turns}

    def _step(self, step: dict[str, Any]) -> dict[str, Any]:
        episode = self.episodes[step["handle"]]
        assert episode["ended"] is None, "stepped after its end"
        episode["turns"] += 1
        episode["replies"].append(step["reply"])
        text = self.observe(episode["task_id"], episode["turns"], step["reply"])
        if text is None:
            episode["ended"] = ("terminated", None)
        elif episode["turns"] >= self.max_turns:
            episode["ended"] = ("truncated", "turns")
        ended = episode["ended"]
        observations = [] if ended else [{"role": self.role, "content": text}]
        return {"observations": observations, "done": bool(ended), "ended_by": ended[0] if ended else None}

    def _finish(self, end: dict[str, Any]) -> dict[str, Any]:
        episode = self.episodes[end["handle"]]
        assert not episode["finished"], "finished twice"
        episode["finished"] = True
        if end["ended"] and not episode["ended"]:
            episode["ended"] = (end["ended"]["by"], end["ended"]["why"])
        by, why = episode["ended"]
        reward = None if by in ("error", "timeout") else float(by == "terminated")
        return {
            "reward": reward,
            "parts": {"outcome": reward},
            "metrics": {"turns": episode["turns"]},
            "success": by == "terminated",
            "ended_by": by,
            "ended_why": why,
        }
