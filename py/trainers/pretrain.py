"""Makes the tiny base model: a BPE tokenizer and a Qwen2 network, both from generated function-calling dialogues.

A plain torch loop on purpose: batches of short dialogues that change character on the way, a hand-made start for the
attention and a held-out check of copying are this file's whole point, and none of them fits a Trainer.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from tokenizers import trainers as tokenizer_trainers
from torch.nn.functional import cross_entropy
from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen2Tokenizer

from trainers.callbacks import COMPLETED, STOP_REQUESTED
from trainers.optimizers import MuonWithAdamW
from trainers.tokens import ChatFormat, transcript_of

END_OF_TEXT, TURN_START, TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"

# ChatML, append-only: what a message adds never depends on later messages.
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

CODE = re.compile(r"(?<![A-Za-z])[A-Z]{2}(?![A-Za-z])")
LONG_CAPITALS = re.compile(r"[A-Z]{3,}")
MIN_CODE_COUNT = 20


def train_tokenizer(texts: Iterable[str], vocab_size: int) -> Qwen2Tokenizer:
    """
    Byte-level BPE behind Qwen2's own pre-tokenizer: transformers gives a Qwen2 model no other, whatever a folder says.

    `vocab_size` counts the special tokens and the 256 bytes. Digits are single tokens. Codes of two capitals (as "CV")
    that are frequent are one token each wherever they stand, so that a copy of one has the ids of its original.
    """
    codes: Counter[str] = Counter()
    capitals: set[str] = set()
    rest = []
    for text in texts:
        codes.update(CODE.findall(text))
        capitals.update(LONG_CAPITALS.findall(text))
        rest.append(CODE.sub("", text))
    # A code inside a longer word in capitals (as "NI" in "FINISH") would break that word up.
    first = [
        code
        for code, count in sorted(codes.items())
        if count >= MIN_CODE_COUNT and not any(code in word for word in capitals)
    ]

    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = Qwen2Tokenizer(vocab={END_OF_TEXT: 0}, merges=[]).backend_tokenizer.pre_tokenizer
    special = [END_OF_TEXT, TURN_START, TURN_END]
    learner.train_from_iterator(
        rest,
        tokenizer_trainers.BpeTrainer(
            vocab_size=vocab_size - len(first),
            special_tokens=special,
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        ),
    )
    learnt = json.loads(learner.to_str())["model"]
    # Earlier merges win: a code is put together before its first letter could join the blank or full stop before it.
    merges = [(code[0], code[1]) for code in first] + [tuple(pair) for pair in learnt["merges"]]
    vocab = dict(learnt["vocab"])
    for code in first:
        vocab.setdefault(code, len(vocab))
    tokenizer = Qwen2Tokenizer(
        vocab=vocab, merges=list(dict.fromkeys(merges)), eos_token=TURN_END, pad_token=END_OF_TEXT, unk_token=None
    )
    tokenizer.add_special_tokens({"additional_special_tokens": [TURN_START, TURN_END]})
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


@torch.no_grad()
def copying_start(model: Qwen2ForCausalLM) -> None:
    """
    Starts every attention head as a weak copier: keys equal queries, so a token looks for tokens like it, and outputs
    transpose values, so what is read is written as it was. A random projection keeps tokens apart, and embeddings are
    tied, so what is copied is also what is predicted. From there copying arguments is learnt in hundreds of steps;
    from independent matrices in thousands.
    """
    for layer in model.model.layers:
        attention = layer.self_attn
        for projection in (attention.q_proj, attention.v_proj):
            projection.weight.normal_(0, model.config.hidden_size**-0.5)
        attention.k_proj.weight.copy_(attention.q_proj.weight)
        attention.o_proj.weight.copy_(attention.v_proj.weight.T)


def new_model(tokenizer: Qwen2Tokenizer, shape: dict, seed: int) -> Qwen2ForCausalLM:
    """
    Random weights, the attention by `copying_start`.

    `shape`: hidden_size, intermediate_size, layers, heads, initializer_range.
    """
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=shape["hidden_size"],
        intermediate_size=shape["intermediate_size"],
        num_hidden_layers=shape["layers"],
        num_attention_heads=shape["heads"],
        num_key_value_heads=shape["heads"],
        initializer_range=shape["initializer_range"],
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        dtype="float32",
    )
    model = Qwen2ForCausalLM(config)
    copying_start(model)
    model.generation_config.eos_token_id = [tokenizer.eos_token_id, tokenizer.pad_token_id]
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    return model


@dataclass
class Example:
    """A dialogue in tokens."""

    ids: list[int]  # (T,)
    mask: list[int]  # (T,) 1: the policy's token, which has a loss

    @property
    def replies(self) -> list[tuple[int, int]]:
        """[begin, end) of each reply, end-of-turn token included."""
        edges = [i for i in range(1, len(self.mask)) if self.mask[i] != self.mask[i - 1]] + [len(self.mask)]
        return list(zip(edges[0::2], edges[1::2], strict=False))


def example_of(row: dict, chat: ChatFormat) -> Example:
    transcript = transcript_of(row, chat)
    prompt = transcript.prompt_ids
    return Example(prompt + transcript.completion_ids, [0] * len(prompt) + transcript.env_mask)


def batches(rows: list[dict], chat: ChatFormat, batch_size: int, order: random.Random) -> Iterator[list[Example]]:
    """Endless batches of about equal lengths: rows are shuffled, then sorted by length within 16 batches' worth."""
    rows = list(rows)
    while True:
        order.shuffle(rows)
        for start in range(0, len(rows), batch_size * 16):
            window = sorted(
                (example_of(row, chat) for row in rows[start : start + batch_size * 16]), key=lambda x: len(x.ids)
            )
            chunks = [window[i : i + batch_size] for i in range(0, len(window), batch_size)]
            order.shuffle(chunks)
            yield from chunks


def collate(examples: list[Example], pad_id: int) -> tuple[torch.Tensor, torch.Tensor]:
    """ids and mask, each (B, T), padded behind: under causal attention no token sees the padding."""
    length = max(len(example.ids) for example in examples)
    ids = torch.tensor([example.ids + [pad_id] * (length - len(example.ids)) for example in examples])
    mask = torch.tensor([example.mask + [0] * (length - len(example.mask)) for example in examples])
    return ids, mask.bool()


@torch.no_grad()
def held_out(model: Qwen2ForCausalLM, examples: list[Example], action_id: int, pad_id: int) -> dict[str, float]:
    """
    Shares of actions, and of dialogues with all actions, that greedy decoding would write exactly.

    Each turn sees the right history and its own thought, whose wording nothing in the prompt tells; the action begins
    at the reply's last `action_id`. One pass does, as greedy decoding is right exactly where every argmax is.
    """
    model.eval()
    turns: list[bool] = []
    dialogues: list[bool] = []
    for start in range(0, len(examples), 16):
        chunk = examples[start : start + 16]
        ids, _ = collate(chunk, pad_id)
        right = model(input_ids=ids).logits[:, :-1].argmax(-1) == ids[:, 1:]
        for row, example in enumerate(chunk):
            exact = []
            for begin, end in example.replies:
                reply = example.ids[begin:end]
                action = end - reply[::-1].index(action_id) if action_id in reply else begin
                exact.append(bool(right[row, action - 1 : end - 1].all()))
            turns += exact
            dialogues.append(all(exact))
    model.train()
    return {"held_out/actions": sum(turns) / len(turns), "held_out/dialogues": sum(dialogues) / len(dialogues)}


def read_lines(path: str) -> list:
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def texts_of(rows: Iterable[dict]) -> Iterator[str]:
    """Every text that a tokenizer should know, role names included."""
    for row in rows:
        for message in row["prompt"]:
            yield f"{message['role']}\n{message['content']}"
        for turn in row["turns"]:
            yield f"assistant\n{turn['reply']}"
            for observation in turn["observations"]:
                yield f"{observation['role']}\n{observation['content']}"


def run(request: dict, host) -> dict:
    """
    Trains tokenizer and network; both are in `final/` of `output_dir`.

    request: seed, output_dir, threads; dialogues {copy, short, full, held_out}: paths of JSON lines {prompt, turns};
    tokenizer_rows: paths of more such rows for the tokenizer alone; vocab_size; shape (see `new_model`);
    stages [{dialogues: "copy" | "short" | "full", steps}], in order; batch_size, learning_rate,
    matrix_learning_rate, warmup_steps,
    log_steps, held_out_steps; bf16: matrix products in bfloat16, weights stay float32.
    """
    if request.get("threads"):
        torch.set_num_threads(request["threads"])
    seed, stages = request["seed"], request["stages"]
    rows = {name: read_lines(path) for name, path in request["dialogues"].items()}
    known = [row for path in request["tokenizer_rows"] for row in read_lines(path)]
    tokenizer = train_tokenizer(texts_of([*rows["full"][:6000], *known]), request["vocab_size"])
    chat = ChatFormat(tokenizer)
    action_id = tokenizer.convert_tokens_to_ids("Action")
    model = new_model(tokenizer, request["shape"], seed)
    model.train()
    pad_id = tokenizer.pad_token_id
    test = sorted((example_of(row, chat) for row in rows["held_out"]), key=lambda example: len(example.ids))

    optimizer = MuonWithAdamW(model, request["matrix_learning_rate"], request["learning_rate"])
    total = sum(stage["steps"] for stage in stages)

    def rate(step: int) -> float:
        """Warm-up, then constant, then down to 0 in the last quarter."""
        return min(1.0, (step + 1) / request["warmup_steps"], (total - step) / (total / 4))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    begin = time.perf_counter()
    step, tokens, policy_tokens, running, figures = 0, 0, 0, [], {}
    for stage in stages:
        source = batches(
            rows[stage["dialogues"]], chat, request["batch_size"], random.Random(f"{seed}/{stage['dialogues']}")
        )
        for _ in range(stage["steps"]):
            examples = next(source)
            ids, mask = collate(examples, pad_id)
            tokens += sum(len(example.ids) for example in examples)
            policy_tokens += int(mask.sum())
            with torch.autocast("cpu", torch.bfloat16, enabled=request["bf16"]):
                hidden = model.model(input_ids=ids).last_hidden_state[:, :-1]
                wanted = mask[:, 1:]
                logits = model.lm_head(hidden[wanted])
            loss = cross_entropy(logits.float(), ids[:, 1:][wanted])
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            schedule.step()
            running.append(loss.item())
            step += 1
            if step % request["log_steps"] == 0 or step == total:
                metrics = {
                    "loss": sum(running) / len(running),
                    "tokens": tokens,
                    "train_s": time.perf_counter() - begin,
                }
                running = []
                if step % request["held_out_steps"] == 0 or step == total:
                    figures = held_out(model, test, action_id, pad_id)
                host.log(step, {**metrics, **figures})
            if host.stop_requested:
                break
        if host.stop_requested:
            break

    folder = Path(request["output_dir"]) / "final"
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return {
        "steps": step,
        "tokens": tokens,
        "policy_tokens": policy_tokens,
        "train_s": time.perf_counter() - begin,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "bytes": sum(file.stat().st_size for file in folder.iterdir()),
        "stop_reason": STOP_REQUESTED if step < total else COMPLETED,
        **figures,
    }
