"""The recorded profile of a real model, which needs no torch."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

import otspec
from otspec.data import RECORDED, open_source

DRAFTER = Path(otspec.__file__).parent / "decode" / "shipped" / "smollm2" / "eagle"
FIRST = 64


def test_it_is_small_and_says_what_it_is_of() -> None:
    source = open_source("smollm2")
    assert (source.name, len(source), source.vocab) == ("smollm2", 1024, 49_152)
    assert RECORDED["smollm2"].stat().st_size < 4e6
    assert source.identity["file"] == "smollm2.safetensors"
    about = source.about  # type: ignore[attr-defined]
    assert about["target"] == ["smollm2", json.loads((DRAFTER / "config.json").read_text())["target"]]
    assert (about["top_k"], about["rest_at"]) == (256, [1.0, 0.6])


def test_more_drafts_are_accepted_more_often_and_what_the_header_says() -> None:
    source = open_source("smollm2")
    found = {
        n: [otspec.solve(source.position(index).problem(n, top_k=256)).plan.acceptance for index in range(FIRST)]
        for n in (1, 2, 4)
    }
    one, two, four = (np.mean(values) for values in found.values())
    assert 0.3 < one < two - 0.05 < four - 0.1 < 0.9
    assert one == pytest.approx(source.about["acceptance"], abs=0.1)  # type: ignore[attr-defined]  # of all


def test_colder_laws_are_those_of_the_same_logits() -> None:
    """The mass of the tokens that are not kept is another at another temperature, and the file has it."""
    position = open_source("smollm2").position(5)
    warm, cold = position.problem(2, top_k=256), position.problem(2, top_k=256, temperature=0.6)
    kept = np.flatnonzero(np.isfinite(position.draft_logits))
    powers = warm.p[kept] ** (1 / 0.6)
    np.testing.assert_allclose(cold.p[kept] / cold.p[kept].sum(), powers / powers.sum(), rtol=1e-6)
    assert cold.p[kept].sum() > warm.p[kept].sum()
    with pytest.raises(otspec.ProblemError, match=r"temperature is 0\.8, and the mass of the tokens that"):
        position.problem(2, top_k=256, temperature=0.8)


def test_it_is_sent_as_its_name() -> None:
    source = open_source("smollm2")
    sent = pickle.dumps(source)
    assert len(sent) < 600
    assert pickle.loads(sent).identity == source.identity
