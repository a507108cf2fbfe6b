"""The recorded profile, which needs no torch."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

import otspec
from otspec.data import RECORDED, open_source

TRAINING = Path(otspec.__file__).parent / "decode" / "shipped" / "training.json"


def test_the_recorded_profile_is_of_the_stated_size() -> None:
    source = open_source("shipped")
    assert (source.name, len(source), source.vocab) == ("shipped", 256, 2048)
    assert RECORDED["shipped"].stat().st_size < 2.5e6
    assert source.identity["file"] == "shipped.npz"


def test_its_single_draft_acceptance_is_that_of_the_models() -> None:
    source = open_source("shipped")
    problems = [source.position(index).problem(1) for index in range(len(source))]
    acceptance = np.mean(
        [np.minimum(problem.p, problem.scheme.prob(np.arange(2048)[:, None])).sum() for problem in problems]
    )
    # The models' own logits were float32, the file has float16.
    assert acceptance == pytest.approx(json.loads(TRAINING.read_text())["profile"]["acceptance"], abs=5e-4)
    assert 0.55 < acceptance < 0.85


def test_a_seed_changes_nothing_that_is_recorded() -> None:
    one, other = open_source("shipped", 0), open_source("shipped", 1)
    assert one.identity == other.identity
    np.testing.assert_array_equal(one.position(3).draft_logits, other.position(3).draft_logits)


def test_what_is_sent_to_another_process_does_not_grow_with_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    logits = np.random.default_rng(0).normal(size=(2, 50, 400))
    np.savez("p.npz", big=logits[0], small=logits[1])
    source = open_source("p.npz", target_key="big", draft_key="small", kind="logits")
    sent, identity = pickle.dumps(source), source.identity
    assert max(len(sent), len(pickle.dumps(open_source("shipped")))) < 600
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    back = pickle.loads(sent)
    assert (back.name, back.identity) == (source.name, identity)
    np.testing.assert_array_equal(back.position(7).target_logits, logits[0, 7])
    own = pickle.loads(pickle.dumps(open_source("shipped")))
    assert own.identity == open_source("shipped").identity
    np.savez("../p.npz", big=logits[0, :9], small=logits[1, :9])
    with pytest.raises(otspec.DataError, match=r"p\.npz is not a file of .* bytes here, as where the run began"):
        pickle.loads(sent)
