"""A pair of tiny random models with a byte-pair tokenizer, saved as `from_pretrained` wants them."""

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from transformers import PreTrainedTokenizerFast  # noqa: E402

from tests.decode.models import pair  # noqa: E402

VOCAB = 300


def tokenizer(more: str = "") -> Any:
    """Bytes and a few merges."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    made: Any = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer: Any = trainers.BpeTrainer(
        vocab_size=VOCAB, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    made.train_from_iterator([more + Path(__file__).read_text()], trainer)
    return PreTrainedTokenizerFast(tokenizer_object=made, clean_up_tokenization_spaces=False)


def save(folder: Path) -> tuple[Path, Path]:
    """Folders of a target and of a draft model that resembles it."""
    made = tokenizer()
    assert len(made) == VOCAB
    places = folder / "target", folder / "draft"
    for place, model in zip(places, pair(VOCAB, positions=128), strict=True):
        model.save_pretrained(place)
        made.save_pretrained(place)
    return places
