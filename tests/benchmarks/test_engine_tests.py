"""An engine's own tests, with its own function and with ours: a stand-in of flashinfer, in a process of its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("torch")

from benchmarks import engine_tests
from otspec import DataError
from otspec.extras import installed

OWN = """
def chain_speculative_sampling(
    draft_probs, draft_token_ids, target_probs, maybe_output_accepted_token_num=None,
    maybe_output_emitted_draft_token_num=None, deterministic=True, generator=None, seed=None, offset=None,
):
    return None, None, None
"""
TESTS = """
import pytest
import torch
from flashinfer.sampling import chain_speculative_sampling

LAW = torch.tensor([[[0.5, 0.5]]])

@pytest.mark.parametrize("token", [0, 1])
def test_the_draft_is_put_out(token):
    found, _, _ = chain_speculative_sampling(LAW, torch.tensor([[token]]), torch.cat((LAW, LAW), dim=1))
    assert found[0, 0] == token

def test_nothing_is_returned():
    assert chain_speculative_sampling(LAW, torch.tensor([[1]]), torch.cat((LAW, LAW), dim=1))[0] is None

@pytest.mark.skip
def test_later():
    pass
"""


@pytest.fixture
def tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a test of the function, and one of something else; the engine lies beside it."""
    if installed("flashinfer"):
        pytest.skip("an engine is installed")
    (tmp_path / "there" / "flashinfer").mkdir(parents=True)
    (tmp_path / "there" / "flashinfer" / "__init__.py").write_text("from flashinfer.sampling import *\n")
    (tmp_path / "there" / "flashinfer" / "sampling.py").write_text(OWN)
    folder = tmp_path / "sources" / "tests"
    folder.mkdir(parents=True)
    (folder / "test_sampling.py").write_text(TESTS)
    (folder / "test_other.py").write_text("def test_other():\n    assert False\n")
    path = os.pathsep.join([str(tmp_path / "there"), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", path)
    return folder


def test_tests_are_counted_with_both(tests: Path) -> None:
    files = engine_tests.test_files("flashinfer", tests.parent)
    assert [file.name for file in files] == ["test_sampling.py"]
    made = engine_tests.table("flashinfer", files, tests.parent)
    assert made.rows == [
        ("test_sampling.py", "its own", "1", "2", "1"),
        ("test_sampling.py", "otspec's", "2", "1", "1"),
    ]
    assert made.note == (
        "test_the_draft_is_put_out: failed with its own, passed with otspec's (2 times); "
        "test_nothing_is_returned: passed with its own, failed with otspec's"
    )


def test_what_is_wrong_is_named(tests: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match=r"no file test_\*\.py below .* names tree_speculative_sampling_target_only or"):
        engine_tests.test_files("sglang", tests)
    monkeypatch.setenv("PYTHONPATH", "")
    with pytest.raises(DataError, match=r"did not run: ModuleNotFoundError: No module named 'flashinfer'"):
        engine_tests.outcomes("flashinfer", [tests / "test_sampling.py"], tests, ours=False)
