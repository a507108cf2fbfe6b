"""The pair that comes with the package is what its recipe makes and its record says; the recipe, for a few steps."""

import json
import shutil
import sysconfig
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: E402

import otspec  # noqa: E402
from benchmarks.shipped_pair import recipe  # noqa: E402
from benchmarks.shipped_pair.__main__ import foreign, pair  # noqa: E402
from benchmarks.shipped_pair.recipe import Recipe, Shape, measure, tokens_of  # noqa: E402
from otspec.decode.models.tokens.matching import matching_of  # noqa: E402
from otspec.decode.shipped import AFFINITY, FOLDER, HELD_OUT_ROWS, TRAINING, load  # noqa: E402
from otspec.vocab import load_affinity  # noqa: E402

FILES = ("dataclasses.py", "textwrap.py", "sched.py")
"""The last is held out."""
NARROW = Shape(width=48, layers=1, heads=2, inner=96)
"""Of models that learn in a moment: an optimiser of matrices takes time by the cube of their width."""
VOCAB = 400
"""Of a tokenizer that is quick to be made, and so are heads."""


def test_losses_and_acceptance_on_the_recorded_sample_are_as_recorded() -> None:
    models, record = load(), json.loads((FOLDER / TRAINING).read_text())
    rows = torch.from_numpy(np.load(FOLDER / HELD_OUT_ROWS)["rows"].astype(np.int64))
    measured = measure(models.target, models.draft, rows)
    assert measured == pytest.approx(record["sample"], abs=1e-4)
    assert measured["target_loss"] < measured["draft_loss"]
    assert 0.6 < measured["acceptance"] < 0.85


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


def test_a_drafter_with_a_tokenizer_of_its_own_decodes(tmp_path: Path, corpus: Path) -> None:
    foreign(tmp_path, vocab=400, context=64, steps=4, batch=2, text=corpus)
    record = json.loads((tmp_path / "training.json").read_text())
    draft = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32).eval()
    tokenizer, shipped = AutoTokenizer.from_pretrained(tmp_path), load()
    assert len(tokenizer) == record["vocab"] == draft.config.vocab_size == 400
    assert record["model"]["parameters"] == sum(value.numel() for value in draft.parameters())
    assert matching_of(shipped.tokenizer, tokenizer) is not None
    ids, kernel = shipped.tokenizer("import ", return_tensors="pt").input_ids, load_affinity(tmp_path / AFFINITY)
    words: dict[str, Any] = {"tokenizer": shipped.tokenizer, "draft_tokenizer": tokenizer, "draft_kernel": kernel}
    text = otspec.generate(shipped.target, draft, ids, max_new_tokens=8, seed=0, **words)
    assert len(text.new_tokens[0]) <= 8
