"""Training of the foreign drafter on a few files of the standard library, for a few steps."""

from __future__ import annotations

import json
import shutil
import sysconfig
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: E402

import otspec  # noqa: E402
from benchmarks.shipped_pair import foreign, foreign_affinity  # noqa: E402
from otspec.decode import shipped  # noqa: E402
from otspec.decode.models.tokens.matching import matching_of  # noqa: E402
from otspec.errors import DataError  # noqa: E402
from otspec.vocab import load_affinity  # noqa: E402


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    for name in ("dataclasses.py", "traceback.py"):  # the last is held out
        shutil.copy(Path(sysconfig.get_path("stdlib")) / name, folder)
    return folder


def test_a_run_leaves_a_drafter_with_a_tokenizer_of_its_own(tmp_path: Path, corpus: Path) -> None:
    place, checkpoint = tmp_path / "foreign", tmp_path / "checkpoint.pt"
    settings: dict[str, Any] = {"vocab": 400, "context": 64, "batch": 2, "every": 2, "corpus": corpus}
    settings["checkpoint"] = checkpoint
    foreign.main(place, steps=4, **settings)
    record = json.loads((place / "training.json").read_text())
    assert record["vocab"] == 400
    draft, tokenizer = (
        AutoModelForCausalLM.from_pretrained(place, dtype=torch.float32),
        AutoTokenizer.from_pretrained(place),
    )
    assert len(tokenizer) == 400 == draft.config.vocab_size
    assert record["model"]["parameters"] == sum(value.numel() for value in draft.parameters())
    before = [value.clone() for value in draft.parameters()]
    foreign.main(tmp_path / "again", steps=4, **settings)  # from the checkpoint of the last step
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "again", dtype=torch.float32)
    assert all(torch.equal(one, other) for one, other in zip(before, again.parameters(), strict=True))
    with pytest.raises(DataError, match="remove it to start anew"):
        foreign.main(tmp_path / "other", steps=4, seed=1, **settings)

    shutil.copytree(shipped.FOLDER / "target", tmp_path / "target", ignore=shutil.ignore_patterns("*.safetensors"))
    foreign_affinity.main(tmp_path, corpus=corpus, out=None, nearest=8)
    kernel = load_affinity(place / shipped.AFFINITY)
    pair = shipped.load()
    assert matching_of(pair.tokenizer, tokenizer) is not None
    text = otspec.generate(
        pair.target,
        draft.eval(),
        pair.tokenizer("import ", return_tensors="pt").input_ids,
        tokenizer=pair.tokenizer,
        draft_tokenizer=tokenizer,
        draft_kernel=kernel,
        max_new_tokens=8,
        seed=0,
    )
    assert len(text.new_tokens[0]) <= 8


def test_it_begins_as_the_pairs_own_draft_model_in_the_tokens_of_both() -> None:
    pair = shipped.load()
    _, tokenizer, _ = shipped.foreign()
    begun = foreign.begun(tokenizer, 320)
    matching = matching_of(pair.tokenizer, tokenizer)
    assert matching is not None
    mine, its = (model.get_input_embeddings().weight.detach().numpy() for model in (begun, pair.draft))
    np.testing.assert_array_equal(mine[matching.own], its[matching.tokens])
    assert torch.equal(begun.model.layers[0].mlp.up_proj.weight, pair.draft.model.layers[0].mlp.up_proj.weight)
    with pytest.raises(DataError, match="pass another --vocab"):
        foreign.begun(pair.tokenizer, 320)
