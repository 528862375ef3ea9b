"""What the tests of the trainers share."""

from pathlib import Path

import pytest
import torch

from tiny import tiny_model, tiny_tokenizer

torch.set_num_threads(1)  # a tiny model gains nothing from more, and the tests may share their cores


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory) -> Path:
    """A random model of a hundred thousand parameters as an ordinary Hugging Face folder."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    tokenizer = tiny_tokenizer()
    shape = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "max_position_embeddings": 1024}
    tiny_model(tokenizer, end_rate=0, **shape).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
