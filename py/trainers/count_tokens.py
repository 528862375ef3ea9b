"""How long texts are in a model's tokens. Only its tokenizer is loaded."""

from trainers.model import load_tokenizer
from trainers.wire import well_formed

BATCH = 1024  # texts encoded at a time


def run(request: dict, host) -> dict:
    """`counts`: the tokens of each of `request["texts"]` under the tokenizer of `request["model"]`, in their order.

    Texts are counted as they are: no special token is added, and the text of one in them counts as that token.
    """
    texts = [well_formed(text) for text in request["texts"]]
    tokenizer = load_tokenizer(request["model"])
    counts: list[int] = []
    for start in range(0, len(texts), BATCH):
        encoded = tokenizer(texts[start : start + BATCH], add_special_tokens=False, return_attention_mask=False)
        counts += [len(ids) for ids in encoded["input_ids"]]
    return {"counts": counts}
