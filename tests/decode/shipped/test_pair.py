"""The pair that comes with the package: its files, its tokenizer, and the text that it writes."""

import json

import numpy as np
import pytest
import torch
from transformers import LogitsProcessorList

from otspec import ProblemError
from otspec.decode import Budget
from otspec.decode.base.sampling import Sampling
from otspec.decode.drafters.shortlists.selection import History, Level
from otspec.decode.models.head import without_head
from otspec.decode.shipped import (
    FOLDER,
    FREQUENCIES,
    ROUTER,
    SHORTLISTS,
    TRAINING,
    Pair,
    frequencies,
    held_out,
    load,
    shortlist,
)

RECORD = json.loads((FOLDER / TRAINING).read_text())


@pytest.fixture(scope="module")
def pair() -> Pair:
    return load()


def test_files_are_small_enough_and_hold_float16() -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    files = [FOLDER / name / "model.safetensors" for name in ("target", "draft")]
    assert sum(file.stat().st_size for file in files) <= 20e6
    assert [file.stat().st_size for file in files] == [RECORD[name]["bytes"] for name in ("target", "draft")]
    for file in files:
        tensors = safetensors.load_file(file).values()
        assert all(tensor.dtype == torch.float16 and tensor.isfinite().all() for tensor in tensors)


def test_frequencies_are_of_the_text_that_was_trained_on(pair: Pair) -> None:
    counts = frequencies()
    assert counts.shape == (len(pair.tokenizer),)
    assert counts.sum() == RECORD["corpus"]["trained"]["tokens"]
    assert (FOLDER / FREQUENCIES).stat().st_size <= 10_000
    # What is frequent there is frequent in text that was held out.
    others = np.bincount(np.concatenate(held_out(256)), minlength=len(counts))
    assert others[np.argsort(-counts)[:512]].sum() > 0.7 * others.sum()


def test_tokens_give_back_every_text(pair: Pair) -> None:
    for text in (
        "def f(x):\n\treturn  x  # é, 漢字, 🐍\r\n",
        " ",
        "\x00\x7f\ufeff",
        "a\u200bb\n\n\n   ",
        "f'{x!r:>{width}}' . , ! ?",
    ):
        tokens = pair.tokenizer(text)["input_ids"]
        assert tokens[0] == pair.tokenizer.bos_token_id, text
        assert pair.tokenizer.decode(tokens, skip_special_tokens=True) == text


def test_the_target_writes_python_as_the_corpus_does(pair: Pair) -> None:
    torch.manual_seed(0)
    prompt = pair.tokenizer("import os\n\n\nclass Reader:\n", return_tensors="pt")
    texts = pair.target.generate(
        prompt["input_ids"].expand(16, -1), do_sample=True, top_k=0, max_new_tokens=128, eos_token_id=-1
    )
    tokens = texts[:, prompt["input_ids"].shape[1] :]
    text = "".join(pair.tokenizer.batch_decode(tokens, skip_special_tokens=True))
    assert all(word in text for word in ("def ", "self", "return ", "if "))
    # Text drawn uniformly from the vocabulary has about three characters a token too, but no indented lines.
    lines = text.splitlines()
    assert np.mean([line.startswith("    ") for line in lines if line.strip()]) > 0.5


def test_shortlists_come_with_it(pair: Pair) -> None:
    assert (FOLDER / ROUTER).stat().st_size <= 300_000
    sampling, text = Sampling(LogitsProcessorList(), True), torch.tensor(held_out(48)[:12])
    with torch.no_grad():
        whole = pair.draft(text).logits.double().softmax(dim=-1)
        twin, _ = without_head(pair.draft)
        output = twin(text).logits
        history = History(text[:, -1:], output[:, -2:-1])
        found = {}
        for name in SHORTLISTS:
            head = shortlist(name).head(pair.draft, sampling, len(pair.tokenizer))
            for number in (0, 3):
                laws = head.laws(output[:, -1:], Level(number, lambda: history))[:, 0]
                found[name, number] = (laws > 0).sum(dim=1).double().mean(), whole[:, -1][laws > 0].sum() / len(text)
    # What the draft model draws is mostly on the shortlist, at the root on one of less than half of the tokens.
    for name in SHORTLISTS:
        assert found[name, 0][0] < 1024
        assert found[name, 0][1] > 0.8
        assert found[name, 3][0] < found[name, 0][0] / 2
    assert shortlist("pa-fr", 100).budget == Budget(100, falling=1)
    assert shortlist("dynaspec", 5).budget.most == 5
    with pytest.raises(ProblemError, match="no shortlist 'fr'; known: pa-fr, dynaspec"):
        shortlist("fr")
