"""What is kept of a live engine: the very laws and drafts that its verification was called with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from otspec import ProblemError
from otspec.data import TreeSource, open_source, open_trees
from otspec.data.formats import safetensors_about
from otspec.engines import plugins, vllm
from otspec.engines.vllm_recorder import AT_ONCE, Recorder
from otspec.laws import law_from_logits
from tests.engines.test_loading import VLLM, make  # noqa: F401  # a fixture
from tests.engines.test_vllm import Batch, Metadata, requests

Make = Callable[[str, str], ModuleType]


def given(batch: Batch) -> dict[str, Any]:
    """The arguments of a call, by name."""
    return {
        "draft_token_ids": batch.tokens,
        "num_draft_tokens": batch.counts,
        "max_spec_len": max(batch.counts),
        "cu_num_draft_tokens": batch.ends,
        "draft_probs": batch.draft,
        "target_logits": batch.logits,
        "bonus_token_ids": batch.bonus,
        "sampling_metadata": batch.metadata,
    }


def whole(seed: int, counts: tuple[int, ...] = (2, 3, 0, 3)) -> Batch:
    """Requests of which none was refused."""
    batch = requests("model", seed, counts)
    return batch._replace(tokens=batch.tokens.clamp(min=0))


def test_a_chain_of_every_step_is_kept_as_it_was(tmp_path: Path) -> None:
    recorder, batches = Recorder(tmp_path / "kept", 5), [whole(seed) for seed in range(8)]
    for batch in batches:
        recorder.see(given(batch))
    (trees,) = (tmp_path / "kept").glob("trees-*")
    (positions,) = (tmp_path / "kept").glob("positions-*")
    source, roots = TreeSource(trees), open_source(str(positions))
    assert (len(source), len(roots), source.depth, source.paths) == (5, 5, 3, 1)
    chosen = set()
    for index in range(5):
        batch, tree = batches[index], source.tree(index)
        assert batch.draft is not None
        starts = {at: tuple(batch.tokens[at : at + 3].tolist()) for at in (2, 5)}
        (start,) = (at for at, tokens in starts.items() if tokens == tuple(tree.paths[0].tolist()))
        chosen.add(start)
        target = batch.logits[start : start + 3].double().softmax(1).numpy()
        draft = batch.draft[start : start + 3].double().numpy()
        draft /= draft.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(tree.target_laws[:3], target, atol=1e-6)
        np.testing.assert_allclose(tree.draft_laws, draft, atol=1e-6)
        position = roots.position(index)
        np.testing.assert_allclose(law_from_logits("target", position.target_logits), target[0], atol=1e-6)
        np.testing.assert_allclose(law_from_logits("draft", position.draft_logits), draft[0], atol=1e-6)
    assert chosen <= {2, 5}


def test_what_was_not_drawn_or_is_not_whole_is_not_kept(tmp_path: Path) -> None:
    recorder, batch = Recorder(tmp_path, 5), whole(0)
    recorder.see(given(batch._replace(draft=None)))
    recorder.see(given(batch._replace(metadata=Metadata(None, True, False, {}))))
    recorder.see(given(batch._replace(metadata=Metadata(torch.tensor([1.0, 0.0, 1.0, 0.0]), False, False, {}))))
    recorder.see(given(batch._replace(tokens=batch.tokens.clamp(max=-1))))
    recorder.write()
    assert not list(tmp_path.iterdir())


def test_files_are_written_as_chains_come(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, 1000)
    for seed in range(AT_ONCE + 1):
        recorder.see(given(whole(seed)))
    assert len(list(tmp_path.glob("trees-*"))) == 1
    recorder.write()
    assert sorted(len(TreeSource(path)) for path in tmp_path.glob("trees-*")) == [1, AT_ONCE]


def test_files_are_parts_of_one_recording_as_the_schema_has_it(tmp_path: Path) -> None:
    pytest.importorskip("pydantic")
    validate = pytest.importorskip("jsonschema").validate
    from otspec.bench.header import check_recorded
    from otspec.bench.json_schemas import json_schema

    recorder = Recorder(tmp_path / "llama-3-8b", AT_ONCE + 2, ("meta-llama/Llama-3.1-8B", "EAGLE3"))
    for seed in range(AT_ONCE + 2):
        recorder.see(given(whole(seed)))
    files = sorted(recorder.folder.iterdir())
    assert len(files) == 4
    for path in files:
        validate(safetensors_about(path), json_schema("recording"))
        assert check_recorded(path)["target"] == ["meta-llama/Llama-3.1-8B"]
    (joined,) = open_trees(str(recorder.folder)).values()
    assert (joined.name, len(joined), joined.prompt(AT_ONCE + 1)) == ("llama-3-8b", AT_ONCE + 2, AT_ONCE + 1)
    assert [joined.about[name] for name in ("draft", "engine", "paths", "depth")] == [["EAGLE3"], "vLLM", 1, 3]


@pytest.mark.parametrize("verified_by", ["ours", "vLLM"])
def test_the_environment_asks_for_it(
    make: Make,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    verified_by: str,
) -> None:
    module = make(vllm.MODULE, VLLM)
    monkeypatch.setenv("OTSPEC_VLLM", "1" if verified_by == "ours" else "0")
    monkeypatch.setenv("OTSPEC_RECORD", str(tmp_path / "kept"))
    monkeypatch.setenv("OTSPEC_RECORD_CHAINS", "1")
    for _ in range(2):  # vLLM may load a plug-in more than once
        plugins.vllm()
    batch = whole(0)
    found = module.rejection_sample(*given(batch).values())
    assert found == "vLLM's own" if verified_by == "vLLM" else found.shape == (4, 4)
    assert len(TreeSource(next((tmp_path / "kept").glob("trees-*")))) == 1


def test_what_is_wrong_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Make) -> None:  # noqa: F811
    make(vllm.MODULE, VLLM)
    monkeypatch.setenv("OTSPEC_RECORD", str(tmp_path))
    monkeypatch.setenv("OTSPEC_RECORD_CHAINS", "0")
    with pytest.raises(ProblemError, match="OTSPEC_RECORD_CHAINS=0; it is how many chains to keep"):
        plugins.vllm()
    monkeypatch.setenv("OTSPEC_RECORD_CHAINS", "2")
    monkeypatch.setenv("OTSPEC_RECORD_MODELS", "alone")
    with pytest.raises(ProblemError, match="OTSPEC_RECORD_MODELS=alone; it names two models, TARGET,DRAFT"):
        plugins.vllm()
    (tmp_path / "file").touch()
    monkeypatch.setenv("OTSPEC_RECORD", str(tmp_path / "file"))
    with pytest.raises(ProblemError, match="which is a file; name a folder"):
        plugins.vllm()
