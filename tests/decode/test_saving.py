"""`otspec.decode.pair.save`: folders that transformers and engines read."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import otspec
from otspec import DataError, ProblemError
from otspec.decode import pair
from otspec.decode.drafters.published.formats import read_published
from otspec.decode.pair.loading import load_draft, load_models
from tests.decode import published
from tests.saved_pair import save as saved_pair


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(saved_pair(tmp_path_factory.mktemp("pair"))[0])


def test_a_model_becomes_a_folder(target: str, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    pair.save(target, folder, dtype="bfloat16")
    (written, *_), (read_, *_) = (load_models(name, None, "cpu", "bfloat16") for name in (target, str(folder)))
    assert read_.dtype == torch.bfloat16
    for name, weights in written.state_dict().items():
        assert torch.equal(weights, read_.state_dict()[name]), name
    about = json.loads((folder / "config.json").read_text())
    assert about["rope_theta"] == about["rope_parameters"]["rope_theta"] == written.config.rope_parameters["rope_theta"]
    assert read_.config.rope_parameters == written.config.rope_parameters
    with pytest.raises(DataError, match="out is there already; delete it, or name another folder"):
        pair.save(target, folder)


def test_a_published_layer_becomes_what_engines_read(target: str, tmp_path: Path) -> None:
    layer = published.eagle3(300, (0, 5, 299), (0, 1)).into(tmp_path / "layer")
    pair.save(str(layer), tmp_path / "served", form="speculators", target=target, ahead=2)
    kept, written = (read_published(folder) for folder in (layer, tmp_path / "served"))
    assert kept is not None
    assert written is not None
    for name, weights in kept.state_dict().items():
        assert torch.equal(weights.float(), written.state_dict()[name].float()), name
    about = json.loads((tmp_path / "served" / "config.json").read_text())["speculators_config"]
    assert about["proposal_methods"][0]["speculative_tokens"] == 2
    draft, _ = load_draft(str(tmp_path / "served"))
    models = load_models(target, None, "cpu")
    text = otspec.generate(models.target, draft, torch.tensor([[1, 2, 3]]), max_new_tokens=4)
    assert text.metrics.tokens == 4
    with pytest.raises(DataError, match="served holds layers that draft for another model"):
        load_models(str(tmp_path / "served"), None, "cpu")


def test_what_contradicts_itself_is_refused(target: str, tmp_path: Path) -> None:
    wrong: list[dict[str, Any]] = [{"ahead": 2}, {"target": target}]
    for settings in wrong:
        with pytest.raises(ProblemError, match="pass form as well"):
            pair.save(target, tmp_path / "other", **settings)
    with pytest.raises(ProblemError, match=r"no format 'gguf'; known: eagle, speculators"):
        pair.save(target, tmp_path / "other", form="gguf")
    with pytest.raises(ProblemError, match="cannot be written as eagle"):
        pair.save(target, str(tmp_path / "other"), form="eagle")
    assert not (tmp_path / "other").exists()
