"""The recipe on a few files of the standard library, for a few steps."""

import json
import shutil
import sysconfig
from dataclasses import replace
from functools import partial
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: E402

import otspec  # noqa: E402
from benchmarks.shipped_pair import recipe  # noqa: E402
from benchmarks.shipped_pair.__main__ import foreign, pair  # noqa: E402
from benchmarks.shipped_pair.corpus import read_corpus  # noqa: E402
from benchmarks.shipped_pair.recipe import (  # noqa: E402
    Recipe,
    Shape,
    batches,
    new_model,
    refusal,
    tokens_of,
    train,
    train_on_text,
    train_tokenizer,
    windows,
)
from otspec.decode.models.tokens.matching import matching_of  # noqa: E402
from otspec.decode.shipped import AFFINITY, load  # noqa: E402
from otspec.laws import FloatArray  # noqa: E402
from otspec.vocab import load_affinity  # noqa: E402

FILES = ("dataclasses.py", "textwrap.py", "sched.py")
"""The last is held out."""
NARROW = Shape(width=48, layers=1, heads=2, inner=96)
"""Of models that learn in a moment: an optimiser of matrices takes time by the cube of their width."""
SHALLOW = replace(NARROW, layers=2)
VOCAB = 400
"""Of a tokenizer that is quick to be made, and so are heads."""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    for name in FILES:
        shutil.copy(Path(sysconfig.get_path("stdlib")) / name, folder)
    return folder


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both models of the recipe are narrow."""
    for name in ("TARGET", "DRAFT"):
        monkeypatch.setattr(recipe, name, NARROW)


@pytest.mark.usefixtures("narrow")
def test_a_run_leaves_a_pair_that_loads_and_is_what_its_record_says(
    tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recipe, "Recipe", partial(Recipe, context=64))
    pair(tmp_path, steps=6, polish=2, own=2, vocab=VOCAB, layers=2, text=corpus)
    record = json.loads((tmp_path / "training.json").read_text())
    assert record["corpus"]["held_out_files"] == ["sched.py"]
    assert record["corpus"]["trained"]["files"] == 2
    made = load(folder=tmp_path)
    seen = [tokens_of(made.tokenizer, (corpus / name).read_text()) for name in FILES[:2]]
    with np.load(tmp_path / "frequencies.npz") as file:
        assert file["counts"].tolist() == np.bincount(np.concatenate(seen), minlength=len(made.tokenizer)).tolist()
    assert sum(value.numel() for value in made.draft.parameters()) == record["draft"]["parameters"]
    curve = [json.loads(line) for line in (tmp_path / "curve.jsonl").read_text().splitlines()]
    assert [point["step"] for point in curve] == [6, 8, 10]
    assert curve[0]["target_loss"] == curve[1]["target_loss"] == curve[2]["target_loss"] < np.log(VOCAB)
    # The curve is of weights in float32, the record of those saved in float16.
    assert record["sample"]["target_loss"] == pytest.approx(curve[-1]["target_loss"], abs=2e-3)


@pytest.mark.usefixtures("narrow")
def test_same_seed_same_weights(corpus: Path) -> None:
    texts = [source.text for source in read_corpus(corpus)]
    tokenizer = train_tokenizer(texts, VOCAB)
    files = [tokens_of(tokenizer, text) for text in texts]
    held_out = windows(files[:1], context=32, bos=tokenizer.bos_token_id)[:2]

    def weights(seed: int, polish: int = 1, own: int = 2) -> tuple[list[FloatArray], list[FloatArray]]:
        recipe = Recipe(steps=2, polish=polish, own=own, batch=2, context=32, seed=seed)
        models = train(files, held_out, tokenizer, recipe, StringIO(), SHALLOW)
        target, draft = ([value.detach().numpy() for value in model.parameters()] for model in models)
        return target, draft

    whole = weights(seed=0)
    for mine, again in zip(whole, weights(seed=0), strict=True):
        for one, other in zip(mine, again, strict=True):
            np.testing.assert_array_equal(one, other)
    for shorter in (weights(seed=0, own=0), weights(seed=0, polish=0, own=0)):
        assert all(np.array_equal(one, other) for one, other in zip(whole[0], shorter[0], strict=True))
        assert not np.array_equal(whole[1][0], shorter[1][0])
    assert not np.array_equal(whole[0][0], weights(seed=1, own=0)[0][0])


def test_a_model_learns_its_text(corpus: Path) -> None:
    tokenizer = train_tokenizer([source.text for source in read_corpus(corpus)], VOCAB)
    files = [tokens_of(tokenizer, (corpus / "sched.py").read_text())]
    recipe = Recipe(steps=80, polish=0, own=0, batch=2, context=32, warm_up=5)
    torch.manual_seed(0)
    losses = train_on_text(new_model(NARROW, tokenizer), files, recipe, tokenizer.bos_token_id, torch.device("cpu"))
    assert losses[0] == pytest.approx(np.log(VOCAB), abs=0.5)
    assert losses[-1] < losses[0] - 1.5


def test_a_drafter_with_a_tokenizer_of_its_own_decodes(tmp_path: Path, corpus: Path) -> None:
    foreign(tmp_path, vocab=400, context=64, steps=4, batch=2, text=corpus)
    record = json.loads((tmp_path / "training.json").read_text())
    draft = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32).eval()
    tokenizer, shipped = AutoTokenizer.from_pretrained(tmp_path), load()
    assert len(tokenizer) == record["vocab"] == draft.config.vocab_size == 400
    assert record["model"]["parameters"] == sum(value.numel() for value in draft.parameters())
    assert matching_of(shipped.tokenizer, tokenizer) is not None
    text = otspec.generate(
        shipped.target,
        draft,
        shipped.tokenizer("import ", return_tensors="pt").input_ids,
        tokenizer=shipped.tokenizer,
        draft_tokenizer=tokenizer,
        draft_kernel=load_affinity(tmp_path / AFFINITY),
        max_new_tokens=8,
        seed=0,
    )
    assert len(text.new_tokens[0]) <= 8


def test_the_rate_rises_stays_and_falls_to_nothing() -> None:
    recipe = Recipe(steps=200, polish=100, own=100, rate=1.0, warm_up=10, decay=0.4)
    rates = np.array([recipe.rate_at(step) for step in range(400)])
    np.testing.assert_allclose(rates[:10], np.arange(1, 11) / 10)
    assert (rates[9:121] == 1.0).all()
    np.testing.assert_allclose(rates[120:200], (200 - np.arange(120, 200)) / 80)
    assert rates[200] == 0.05
    assert (rates[209:231] == 0.5).all()
    np.testing.assert_allclose(rates[230:300], (300 - np.arange(230, 300)) / 140)
    np.testing.assert_array_equal(rates[300:], rates[200:300])


def test_refusal_of_one_draft_and_of_four() -> None:
    p, q = torch.tensor([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]), torch.tensor([[0.5, 0.25, 0.25], [0.0, 0.0, 1.0]])
    # Four draws of probability 1/4 hold the token with 1 - (3/4)^4 > 1/2, and one of probability 1/2 more often still.
    np.testing.assert_allclose(refusal(p, q), [1 - 0.5 * (0.75 + 1.0), 1.0], atol=1e-6)
    drafts = torch.tensor([0.3, 0.7])
    expected = 1 - 0.5 * (0.3 + 0.1 + min(0.9, 1 - 0.7**4) + 0.1)
    np.testing.assert_allclose(refusal(torch.tensor([0.9, 0.1]), drafts), expected, rtol=1e-5)


def test_an_epoch_has_every_token_but_a_rest_once() -> None:
    files = [[2, 3, 4], [5, 6], [7, 8, 9, 10, 11]]
    rows = windows(files, context=3, bos=0)
    np.testing.assert_array_equal(rows, [[0, 2, 3, 4], [0, 5, 6, 7], [0, 8, 9, 10]])
    stream = batches(files, Recipe(batch=1, context=2), bos=0)
    first, second = (np.concatenate([next(stream) for _ in range(5)]) for _ in range(2))
    for epoch in (first, second):
        assert sorted(epoch[:, 1:].ravel()) == list(range(2, 12))
    assert not np.array_equal(first, second)
