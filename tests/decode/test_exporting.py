"""The folder that `otspec export-generate` writes, through transformers' own `generate`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("tokenizers")

from transformers import AutoModelForCausalLM  # noqa: E402

import otspec  # noqa: E402
from otspec import DataError, ProblemError  # noqa: E402
from otspec.decode import Goodput, MultiDraftOutput, multi_draft, shipped  # noqa: E402
from otspec.decode.exporting import export  # noqa: E402

PROMPTS = torch.tensor(shipped.held_out(12)[:2])


@pytest.fixture(autouse=True)
def _modules_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers copies code that it was told to trust to a folder of its own before it runs it."""
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "copied"))
    monkeypatch.setattr(sys, "path", list(sys.path))


def decoded(folder: Path, model: Any = None, **options: Any) -> Any:
    model = shipped.load().target if model is None else model
    given = {"max_new_tokens": 12, **options}
    return model.generate(PROMPTS, custom_generate=str(folder), trust_remote_code=True, **given)


def sampled(draft: Any, *, generate: dict[str, Any] | None = None, **options: Any) -> Any:
    """The same, with the decoding method as an object."""
    method = multi_draft(draft, **options)
    return shipped.load().target.generate(
        PROMPTS, custom_generate=method, do_sample=True, max_new_tokens=12, **(generate or {})
    )


def test_text_is_that_of_the_model_and_of_the_same_settings(tmp_path: Path) -> None:
    target, draft, _ = shipped.load()
    files = export(tmp_path / "out", paths=2, depth=4)
    assert [file.relative_to(tmp_path).as_posix() for file in files] == [
        "out/custom_generate/generate.py",
        "out/custom_generate/requirements.txt",
        "out/README.md",
    ]
    plain = target.generate(PROMPTS, max_new_tokens=12)
    assert decoded(tmp_path / "out").tolist() == plain.tolist()
    hot = {"do_sample": True, "seed": 3}
    expected = sampled(draft, paths=2, depth=4, seed=3)
    assert decoded(tmp_path / "out", **hot).tolist() == expected.tolist() != plain.tolist()
    other = sampled(draft, paths=2, depth=4, seed=3, generate={"temperature": 0.5, "top_k": 3})
    assert decoded(tmp_path / "out", **hot, temperature=0.5, top_k=3).tolist() == other.tolist()
    whole = decoded(tmp_path / "out", **hot, return_dict_in_generate=True)
    assert isinstance(whole, MultiDraftOutput)
    assert whole.metrics is not None
    assert whole.metrics.target_calls < 24


def test_settings_may_be_given_anew(tmp_path: Path) -> None:
    """Also the draft model, and the other way to say how large a tree is."""
    _, draft, _ = shipped.load()
    export(tmp_path / "out", str(shipped.FOLDER / "draft"), paths=2, depth=4)
    hot = {"do_sample": True, "seed": 3}
    anew: tuple[dict[str, Any], ...] = ({"depth": 2}, {"solver": "interval"})
    for mine in anew:
        expected = sampled(draft, **({"paths": 2, "depth": 4, "seed": 3} | mine))
        assert decoded(tmp_path / "out", **hot, **mine).tolist() == expected.tolist()
    expected = sampled(draft, branching=(3, 1), seed=3)
    assert decoded(tmp_path / "out", **hot, branching=(3, 1)).tolist() == expected.tolist()
    eager = shipped.load().target  # accepts all of its own drafts
    whole = decoded(tmp_path / "out", **hot, assistant_model=eager, return_dict_in_generate=True)
    np.testing.assert_allclose(whole.metrics.acceptance, 1.0)


def test_without_a_draft_model_one_has_to_be_passed(tmp_path: Path) -> None:
    _, draft, _ = shipped.load()
    export(tmp_path / "out", None, depth=2)
    with pytest.raises(ProblemError, match=r"pass one to generate\(\) as assistant_model"):
        decoded(tmp_path / "out")
    expected = sampled(draft, depth=2, seed=1)
    assert decoded(tmp_path / "out", do_sample=True, seed=1, assistant_model=draft).tolist() == expected.tolist()


def test_a_model_that_lies_in_the_folder_decodes_so_by_itself(tmp_path: Path) -> None:
    target, draft, _ = shipped.load()
    target.save_pretrained(tmp_path)
    export(tmp_path, depth=2)
    model = AutoModelForCausalLM.from_pretrained(tmp_path, trust_remote_code=True)
    found = model.generate(input_ids=PROMPTS, do_sample=True, seed=1, max_new_tokens=12)
    assert found.tolist() == sampled(draft, depth=2, seed=1).tolist()


def test_the_folder_says_what_it_needs_and_what_it_is(tmp_path: Path) -> None:
    export(tmp_path / "out", solver=["kseq", "interval"], law="iid")
    assert (tmp_path / "out/custom_generate/requirements.txt").read_text().splitlines() == [
        f"otspec-toolkit>={otspec.__version__}",
        "transformers>=5.0",
    ]
    readme = (tmp_path / "out/README.md").read_text()
    assert readme.startswith("---\nlibrary_name: transformers\ntags:\n- custom_generate\n---\n")
    assert "`{'solver': ['kseq', 'interval']}`" in readme
    assert "may deviate" not in readme
    export(tmp_path / "lossy", solver="global_resolution:tau=0.1")
    assert "The solver global_resolution:tau=0.1 may deviate" in (tmp_path / "lossy/README.md").read_text()
    # What is missing is named by requirements.txt, so the function's file imports nothing that might not be there.
    source = (tmp_path / "out/custom_generate/generate.py").read_text()
    assert [line for line in source.splitlines() if line.strip().startswith(("import", "from"))] == ["import importlib"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"law": "nope"}, "no draft law 'nope'"),
        ({"paths": 2, "branching": (2, 2)}, "leave out paths and depth"),
        ({"draft_confidence": 2.0}, "draft_confidence is 2.0"),
        ({"draft_tokens": np.arange(5)}, "draft_tokens is a ndarray, which cannot be spelled in a file"),
        ({"pace": Goodput()}, "costs are of one machine"),
        ({"pace": "settings.json"}, "costs are of one machine"),
        ({"draft": "./nowhere"}, "no draft model in './nowhere'"),
        ({"draft": "a/b/c"}, "no draft model in 'a/b/c'"),
        ({"draft": ""}, "no draft model in ''"),
        ({"draft": str(shipped.FOLDER)}, "no draft model in .*; pass shipped, a folder written by save_pretrained"),
    ],
)
def test_what_is_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises((ProblemError, DataError), match=message):
        export(tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    with pytest.raises(DataError, match=r"README.md is there already; delete it, or name another folder"):
        export(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]
    assert (tmp_path / "README.md").read_text() == "mine"
