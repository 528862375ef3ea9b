"""Samplers of turns behind one method (`turn`); the two of this file give the same tokens under the same seeds.

`CachedSampler` keeps the KV cache across turns and is the default; `AnewSampler` reads each turn's whole context again
and serves the models whose cache cannot be kept (sliding windows, state spaces).
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from transformers import (
    DynamicCache,
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    StoppingCriteria,
    StoppingCriteriaList,
)
from transformers.cache_utils import Cache, DynamicLayer

from trainers.continuation import DialogueFormat
from trainers.sampling import Draws, IsOver, SamplingParams, sampling_mode
from trainers.vllm_sampler import Engine, VllmSampler
from trainers.wire import Host


def make_sampler(
    model: Any, chat: DialogueFormat, params: SamplingParams, rows: int, host: Host, engine: Engine | None = None
) -> CachedSampler | AnewSampler | VllmSampler:
    """The KV-cache sampler; where the model cannot be served by it the other, which is said once a model.

    engine: the vLLM that samples in the model's place; None: the model samples.
    """
    if engine is not None:
        return VllmSampler(engine, chat, params)
    if model not in _CACHE_PROBLEMS:
        with sampling_mode(model):
            _CACHE_PROBLEMS[model] = cache_problem(model)
        if _CACHE_PROBLEMS[model]:
            note = f"Sampling reads every turn's whole context again (slower): {_CACHE_PROBLEMS[model]}."
            host.ask("note", {"text": note})
    if _CACHE_PROBLEMS[model]:
        return AnewSampler(model, chat.end_ids, params, chat.is_over)
    return CachedSampler(model, chat.end_ids, params, rows, chat.is_over)


_CACHE_PROBLEMS: weakref.WeakKeyDictionary[Any, str | None] = weakref.WeakKeyDictionary()


def cache_problem(model: Any) -> str | None:
    """Why the KV cache of this model cannot be kept across turns, by its layers and by trial; None: it can."""
    config = model.config
    if config._attn_implementation not in ("sdpa", "eager"):
        return f"attention '{config._attn_implementation}' takes no mask of ours; 'sdpa' and 'eager' do"
    try:
        kinds = {type(layer) for layer in DynamicCache(config=config).layers}
    except Exception as error:
        return f"its cache is of a kind of its own ({error})"
    if kinds != {DynamicLayer}:
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        return f"its cache keeps less than all keys and values ({names})"
    return _trial(model)


def _trial(model: Any) -> str | None:
    """Reads two rows of unequal length in two parts each, and compares with reading them whole."""
    vocabulary = model.config.get_text_config(decoder=True).vocab_size
    rows = [[(7 * row + 5 * place + 1) % vocabulary for place in range(length)] for row, length in enumerate((12, 7))]
    slots = _SlotCache(model, 2)
    try:
        slots.read([row[:-3] for row in rows])
        logits = slots.read([rows[0][-3:-1], rows[1][-3:]])  # unequal parts
        whole = [
            model(input_ids=torch.tensor([ids], device=model.device)).logits[0, -1] for ids in (rows[0][:-1], rows[1])
        ]
    except Exception as error:
        return f"its forward pass does not take our cache ({type(error).__name__}: {error})"
    difference = (logits.float().log_softmax(-1) - torch.stack(whole).float().log_softmax(-1)).abs().max().item()
    exact = model.dtype == torch.float32 and not torch.is_autocast_enabled(model.device.type)
    allowed = 1e-2 if exact else 0.5
    return None if difference < allowed else f"with our cache its logits differ by {difference:.2g}"


class CachedSampler:
    """Samples turn after turn from contexts that only grow, and computes no token of them twice.

    Every episode of the batch has a slot, its keys and values. A turn reads what its context has gained since, all
    rows in one pass. Rows that take part stand in the first slots, so that a pass works on views: a row that ends
    its turn changes places with the last that still goes on. Equal prompts are read once, what all prompts begin with
    too.
    """

    def __init__(
        self, model: Any, end_ids: frozenset[int], params: SamplingParams, rows: int, is_over: IsOver = None
    ) -> None:
        self.model, self.end_ids, self.params, self.is_over = model, end_ids, params, is_over
        self.slots = _SlotCache(model, rows)
        self.row_at = np.arange(rows)  # (slots,) which row each slot belongs to

    def forget(self) -> None:
        """Drops what was read: the next turn reads its whole context."""
        self.slots.lengths[:] = 0

    def rewind(self, row: int, tokens: int) -> None:
        """Drops what was read of a row's context behind its first `tokens` tokens: it was cut off."""
        [slot] = np.flatnonzero(self.row_at == row)
        self.slots.lengths[slot] = min(self.slots.lengths[slot], tokens)

    def turn(
        self, rows: Sequence[int], contexts: Sequence[list[int]], budgets: Sequence[int], uniforms: np.ndarray
    ) -> list[tuple[list[int], list[float]]]:
        """Samples a turn for each of `rows` (numbers below the batch's size), at most `budgets` tokens, at least one.

        contexts: every row's whole ids so far; what the row had at its last turn, and was not told to rewind, is a
            prefix of it.
        uniforms: (rows, at least max(budgets)) in [0, 1).
        Returns the ids of each reply, the token that ended it included, and their logprobs.
        """
        draws = Draws(budgets, uniforms, self.end_ids, self.params, self.model.device, self.is_over)
        asked_at = {row: index for index, row in enumerate(rows)}
        order = np.argsort([row not in asked_at for row in self.row_at], kind="stable")
        self._permute(order)
        count = len(rows)
        asked = np.asarray([asked_at[row] for row in self.row_at[:count]])  # (active slots,) index into `rows`
        if self.slots.lengths[:count].any():
            logits = self.slots.read(
                [contexts[index][length:] for index, length in zip(asked, self.slots.lengths, strict=False)]
            )
        else:
            logits = self._read_prompts([contexts[index] for index in asked])

        while True:
            ids, ended = draws.draw(logits, asked)
            if ended.all():
                return draws.replies()
            if ended.any():
                going = int((~ended).sum())
                order = np.arange(count)
                holes, movers = np.flatnonzero(ended[:going]), going + np.flatnonzero(~ended[going:])
                order[holes], order[movers] = movers, holes
                self._permute(order)
                count, order = going, order[:going]
                asked, ids = asked[order], ids[torch.from_numpy(order).to(ids.device)]
            logits = self.slots.read_one(ids)

    def _permute(self, order: np.ndarray) -> None:
        """Puts the content of slot order[i] into slot i."""
        moved = np.flatnonzero(order != np.arange(len(order)))
        if len(moved):
            self.slots.copy(order[moved], moved)
            self.row_at[moved] = self.row_at[order[moved]]

    def _read_prompts(self, contexts: list[list[int]]) -> torch.Tensor:
        """Reads each different context once, and the beginning that all share only once. (slots asked, V) logits."""
        different = {tuple(context): None for context in contexts}
        prompts = [list(prompt) for prompt in different]
        source = {prompt: slot for slot, prompt in enumerate(different)}
        # One token of each is left to read at least, as its logits are wanted.
        shared = min(_common(min(prompts), max(prompts)), min(map(len, prompts)) - 1)
        if len(prompts) > 1 and shared >= _WORTH_SHARING:
            self.slots.read([prompts[0][:shared]])
            self.slots.copy(np.zeros(len(prompts) - 1, dtype=np.int64), np.arange(1, len(prompts)))
        else:
            shared = 0
        logits = self.slots.read([prompt[shared:] for prompt in prompts])
        sources = np.asarray([source[tuple(context)] for context in contexts])
        copies = np.flatnonzero(sources != np.arange(len(contexts)))
        if len(copies):
            self.slots.copy(sources[copies], copies)
        return logits[torch.from_numpy(sources).to(logits.device)]


def _common(first: list[int], second: list[int]) -> int:
    """How many ids two lists begin with alike; for the least and the greatest of many, what all begin with."""
    pairs = zip(first, second, strict=False)
    return next((index for index, (one, other) in enumerate(pairs) if one != other), min(len(first), len(second)))


_WORTH_SHARING = 16  # tokens; below it a pass of its own costs more than it saves


class _SlotCache:
    """Keys and values of a batch, a slot an episode, each dense from its first token on, whatever the others' lengths.

    What is written behind a slot's length is overwritten later and never attended, so rows of unequal length need no
    gaps: a forward pass gets explicit position ids, and a mask that shows each token the positions up to its own.
    """

    def __init__(self, model: Any, slots: int) -> None:
        self.model = model
        base = model.get_base_model() if hasattr(model, "get_base_model") else model
        accepted = inspect.signature(base.forward).parameters
        self.cache_name = "cache" if "cache" in accepted else "past_key_values"  # of older transformers
        self.last_only = {"logits_to_keep": 1} if "logits_to_keep" in accepted else {}
        self.lengths = np.zeros(slots, dtype=np.int64)  # (slots,) tokens read
        self.capacity = 0  # columns; the last one takes what padding writes
        self.layers = [_SlotLayer(slots) for _ in DynamicCache(config=model.config).layers]
        self.cache = Cache(layers=self.layers)

    def reserve(self, tokens: int) -> None:
        """Makes room for `tokens` tokens a slot."""
        if tokens + 1 > self.capacity:
            self.capacity = tokens + 1 + max(64, tokens // 4)
            for layer in self.layers:
                layer.grow(self.capacity)

    def copy(self, sources: np.ndarray, targets: np.ndarray) -> None:
        """Copies slots `sources` to slots `targets`, all at once."""
        width = int(self.lengths[sources].max())
        for layer in self.layers:
            layer.copy(sources, targets, width)
        self.lengths[targets] = self.lengths[sources]

    def read(self, parts: list[list[int]]) -> torch.Tensor:
        """Appends parts[i] (at least one token) to slot i. Returns the logits behind each part's last token, (n, V)."""
        count, longest = len(parts), max(map(len, parts))
        ids = np.zeros((count, longest), dtype=np.int64)
        positions = np.full((count, longest), -1, dtype=np.int64)  # padding stands on the left, as only the last logits
        for slot, part in enumerate(parts):  # are wanted
            ids[slot, longest - len(part) :] = part
            positions[slot, longest - len(part) :] = self.lengths[slot] + np.arange(len(part))
        self.reserve(int(positions.max()) + 1)
        self.lengths[:count] += [len(part) for part in parts]
        width = int(self.lengths[:count].max())
        step = max(16, _MASK_ENTRIES // (count * width))
        for begin in range(0, longest, step):
            logits = self._forward(
                torch.from_numpy(ids[:, begin : begin + step]), positions[:, begin : begin + step], width
            )
        return logits

    def read_one(self, ids: torch.Tensor) -> torch.Tensor:
        """Appends one token to each of the first slots. ids: (n,). Returns the logits behind them, (n, V)."""
        count = len(ids)
        positions = self.lengths[:count, None].copy()
        self.lengths[:count] += 1
        self.reserve(int(positions.max()) + 1)
        return self._forward(ids[:, None], positions, int(positions.max()) + 1)

    def _forward(self, ids: torch.Tensor, positions: np.ndarray, width: int) -> torch.Tensor:
        device = self.model.device
        count = len(positions)
        columns = np.where(positions < 0, self.capacity - 1, positions)
        cells = torch.from_numpy((np.arange(count)[:, None] * self.capacity + columns).ravel()).to(device)
        at = torch.from_numpy(np.maximum(positions, 0)).to(device)
        for layer in self.layers:
            layer.aim(cells, count, width)
        mask = torch.arange(width, device=device) <= at[:, None, :, None]  # (n, 1, T, width), True: attended
        if self.model.config._attn_implementation == "eager":  # which adds its mask to the scores
            mask = torch.zeros(mask.shape, dtype=self.model.dtype, device=device).masked_fill_(
                ~mask, torch.finfo(self.model.dtype).min
            )
        output = self.model(
            input_ids=ids.to(device),
            position_ids=at,
            attention_mask=mask,
            use_cache=True,
            **{self.cache_name: self.cache},
            **self.last_only,
        )
        return output.logits[:, -1]


_MASK_ENTRIES = 1 << 26  # a long prompt is read in parts whose attention mask has about as many entries at most


class _SlotLayer(DynamicLayer):
    """One layer's keys and values, (slots, capacity, heads, head size); shows transformers the part of one pass."""

    def __init__(self, slots: int) -> None:
        super().__init__()
        self.slots = slots
        self.capacity = 0

    def aim(self, cells: torch.Tensor, count: int, width: int) -> None:
        """Says where the next pass writes (cells: (n × T,) numbers of slot × capacity + column) and what it sees."""
        self.cells, self.count, self.width = cells, count, width

    def grow(self, capacity: int) -> None:
        if self.is_initialized:
            self.keys, self.values = self._grown(self.keys, capacity), self._grown(self.values, capacity)
        self.capacity = capacity

    def copy(self, sources: np.ndarray, targets: np.ndarray, width: int) -> None:
        if not self.is_initialized:  # an episode failed at reset before any was read
            return
        for store in (self.keys, self.values):
            at = torch.from_numpy(sources).to(store.device), torch.from_numpy(targets).to(store.device)
            store[at[1], :width] = store[at[0], :width]

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Stores (n, heads, T, size) of this pass; returns all that it may attend to, (n, heads, width, size)."""
        if not self.is_initialized:
            self.keys, self.values = self._empty(key_states), self._empty(value_states)
            self.is_initialized = True
        return self._stored(self.keys, key_states), self._stored(self.values, value_states)

    def get_seq_length(self) -> int:
        return self.width if self.is_initialized else 0

    def _stored(self, store: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        flat = states.transpose(1, 2).reshape(-1, *store.shape[2:])
        store.view(-1, *store.shape[2:]).index_copy_(0, self.cells.to(store.device), flat.to(store.dtype))
        return store[: self.count, : self.width].transpose(1, 2)

    def _empty(self, states: torch.Tensor) -> torch.Tensor:
        # Zeros: masked entries are multiplied by 0, and what was never written could be no number.
        return states.new_zeros(self.slots, self.capacity, states.shape[1], states.shape[3])

    def _grown(self, store: torch.Tensor, capacity: int) -> torch.Tensor:
        grown = store.new_zeros(self.slots, capacity, *store.shape[2:])
        grown[:, : store.shape[1]] = store
        return grown


class AnewSampler:
    """Samples each turn by the model's own `generate` from the whole context: for any model, and slower."""

    def __init__(self, model: Any, end_ids: frozenset[int], params: SamplingParams, is_over: IsOver = None) -> None:
        self.model = model.get_base_model() if hasattr(model, "get_base_model") else model
        self.end_ids, self.params, self.is_over = end_ids, params, is_over

    def rewind(self, row: int, tokens: int) -> None:
        """Nothing is kept from turn to turn."""

    def turn(
        self, rows: Sequence[int], contexts: Sequence[list[int]], budgets: Sequence[int], uniforms: np.ndarray
    ) -> list[tuple[list[int], list[float]]]:
        """As `CachedSampler.turn`; `rows` is not needed."""
        draws = Draws(budgets, uniforms, self.end_ids, self.params, self.model.device, self.is_over)
        longest = max(map(len, contexts))
        ids = torch.tensor([[0] * (longest - len(context)) + context for context in contexts])
        mask = torch.tensor([[0] * (longest - len(context)) + [1] * len(context) for context in contexts])
        own = self.model.generation_config
        # Its penalties and temperatures would be mixed into the distribution; ours is the only one.
        self.model.generation_config = GenerationConfig(pad_token_id=0)
        try:
            self.model.generate(
                input_ids=ids.to(self.model.device),
                attention_mask=mask.to(self.model.device),
                generation_config=GenerationConfig(max_new_tokens=max(budgets), do_sample=False, pad_token_id=0),
                logits_processor=LogitsProcessorList([_Choose(draws, len(contexts))]),
                stopping_criteria=StoppingCriteriaList([_Ended(draws)]),
            )
        finally:
            self.model.generation_config = own
        return draws.replies()


class _Choose(LogitsProcessor):
    """Draws by our rule and leaves `generate` no other choice. Rows that have ended draw on, into nothing."""

    def __init__(self, draws: Draws, rows: int) -> None:
        self.draws, self.rows = draws, np.arange(rows)

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        ids, _ = self.draws.draw(scores, self.rows)
        return torch.full_like(scores, -torch.inf).scatter_(-1, ids[:, None], 0.0)


class _Ended(StoppingCriteria):
    """True for the rows whose reply has ended."""

    def __init__(self, draws: Draws) -> None:
        self.draws = draws

    def __call__(self, input_ids: torch.LongTensor, scores: Any, **kwargs: Any) -> torch.BoolTensor:
        return torch.from_numpy(self.draws.lengths > 0).to(input_ids.device)
