"""Token counts of texts, without a model's weights."""

import shutil

import pytest
from fake_host import FakeHost
from trainers import count_tokens
from trainers.model import UserError

from tiny import tiny_tokenizer


def test_counts_are_the_tokenizers_own_in_order_and_need_no_weights(tiny_folder, tmp_path):
    folder = tmp_path / "tokenizer"
    shutil.copytree(tiny_folder, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    texts = [
        "",
        "Thought",
        "Thought name",
        "é🙂",
        "<|im_end|>",
        "a\ud83dz",
        *(["x" * length for length in range(1100)]),
    ]
    counts = count_tokens.run({"model": str(folder), "texts": texts}, FakeHost())["counts"]
    encode = tiny_tokenizer().encode
    assert counts == [len(encode(text.replace("\ud83d", "\ufffd"), add_special_tokens=False)) for text in texts]
    assert counts[:5] == [0, 1, 3, 6, 1]
    assert count_tokens.run({"model": str(folder), "texts": []}, FakeHost()) == {"counts": []}


def test_a_model_that_is_not_there(tmp_path):
    with pytest.raises(UserError, match="nowhere"):
        count_tokens.run({"model": str(tmp_path / "nowhere"), "texts": ["a"]}, FakeHost())
