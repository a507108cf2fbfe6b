"""The drafters of the package for SmolLM2, and that target itself where its package is installed."""

import json
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

import otspec
from otspec.decode import shipped
from otspec.decode.drafters.eagle.model import Eagle
from otspec.decode.methods.assisted import plain
from otspec.decode.methods.drafting import DrafterRequest, drafting
from otspec.decode.models.fingerprint import fingerprint
from otspec.decode.pair.gguf import MODULE, SMOLLM2
from otspec.decode.pair.loading import Models, encode, load_models
from otspec.errors import DataError
from tests.each import each

PLACE = shipped.FOLDER / SMOLLM2
KINDS = ("eagle", "parallel")
QUESTION = (
    "<|im_start|>user\nWrite three sentences about the sea and the ships on it.<|im_end|>\n<|im_start|>assistant\n"
)

needs_it = pytest.mark.skipif(
    find_spec(MODULE) is None, reason=f"{MODULE} is not installed; .ci/run brings it, 92 MB, and runs these tests"
)


@cache
def smollm2() -> Models:
    return load_models(SMOLLM2, None)


def test_they_are_small_and_for_one_target() -> None:
    assert sum(file.stat().st_size for file in PLACE.glob("**/*.*")) <= 20e6
    records = [json.loads((PLACE / kind / shipped.TRAINING).read_text()) for kind in KINDS]
    configs = [json.loads((PLACE / kind / "config.json").read_text()) for kind in KINDS]
    assert len({record["target"][1] for record in records} | {config["target"] for config in configs}) == 1
    assert [config["masks"] > 0 for config in configs] == [False, True]


@each(kind=KINDS)
def test_a_drafter_is_found_by_the_weights_of_its_target(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = load_models("shipped", None)
    made = Eagle.of_target(models.target, "shared", [12, 24], masks=2 if kind == "parallel" else 0)
    made.save_pretrained(tmp_path / "mine" / kind)
    monkeypatch.setattr(shipped, "FOLDER", tmp_path)
    found = drafting(kind, DrafterRequest(models, "mine", ""))
    assert found.options == {"drafter": kind}
    assert isinstance(found.models.draft, Eagle)
    assert torch.equal(found.models.draft.seen.weight, made.seen.weight)
    by_name = load_models("shipped", kind).draft
    assert torch.equal(by_name.seen.weight, made.seen.weight)  # type: ignore[union-attr]
    monkeypatch.chdir(tmp_path)
    Path(kind).mkdir()
    with pytest.raises(DataError, match=f"the draft '{kind}' cannot be loaded"):
        load_models("shipped", kind)  # what is called so here comes first
    other = models._replace(target=shipped.load().draft)
    with pytest.raises(DataError, match=rf"no draft model '{kind}' of this target comes with the package"):
        drafting(kind, DrafterRequest(other, "mine", ""))


@needs_it
@each(kind=KINDS)
def test_they_know_the_model_in_its_package(kind: str) -> None:
    assert json.loads((PLACE / kind / "config.json").read_text())["target"] == fingerprint(smollm2().target)


@needs_it
@each(kind=KINDS)
def test_its_greedy_text_comes_in_fewer_passes(kind: str) -> None:
    models = drafting(kind, DrafterRequest(smollm2(), SMOLLM2, "")).models
    prompt = torch.tensor(encode(models.tokenizer, [QUESTION], special=False))
    settings: dict[str, Any] = {"max_new_tokens": 20, "temperature": 0, "seed": 0}
    found = otspec.generate(models.target, models.draft, prompt, paths=1, depth=3, **settings)
    assert found.sequences.tolist() == plain(models.target, prompt, **settings).sequences.tolist()
    assert found.metrics.block_efficiency > {"eagle": 1.4, "parallel": 1.2}[kind]
