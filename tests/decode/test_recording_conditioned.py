"""Positions and trees of draft models that look at the target's hidden states: what is held is what they say."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from otspec import ProblemError
from otspec.data import TreeSource, open_source
from otspec.decode.pair.loading import Models
from otspec.decode.recording.positions import Recording, begun, record
from otspec.decode.recording.trees import TreeRecording
from otspec.paths import Tree
from tests.contracts.draft_models import eagle, logits_of_eagle, logits_of_parallel, over_all, shared
from tests.decode.models import law_after, logits_after, pair
from tests.each import each

PROMPTS = [[1, 2], [3, 4, 5], [6]]
KEPT = (0, 2, 5, 6, 7)
KINDS: dict[str, tuple[Any, Any]] = {
    "eagle": (lambda target, draft: eagle(draft), logits_of_eagle),
    "eagle3": (lambda target, draft: shared(target), logits_of_eagle),
    "eagle3, some tokens": (lambda target, draft: shared(target, 0, KEPT), logits_of_eagle),
    "parallel, some tokens": (lambda target, draft: shared(target, 2, KEPT), logits_of_parallel),
}
"""How a draft model is made, and what it says, by another way."""


class Made:
    """A tiny target, a draft model that looks at it, and the texts that a recording of both is along."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
        make, self._says = KINDS[kind]
        self.target, draft = pair()
        self.draft = make(self.target, draft)
        self.texts: list[list[int]] = []

        def noted(*args: Any) -> list[list[int]]:
            found = begun(*args)
            self.texts.extend(found)
            return found

        for where in ("positions", "trees"):
            monkeypatch.setattr(f"otspec.decode.recording.{where}.begun", noted)

    def recorded(self, kind: type[Recording], path: Path, **settings: Any) -> dict[str, Any]:
        """Seven of them."""
        given: dict[str, Any] = {"positions": 7, "new": 6, "batch": 2, "stored": "float32", **settings}
        recording = kind(Models(self.target, None, self.draft), ("t", "d"), PROMPTS, **given)
        about = record(recording, path)
        rows = [row for _, rows in recording.chunks for row in rows]
        self.after = dict(zip(rows, self.texts, strict=True))
        return about

    def logits(self, text: list[int], drafted: list[int]) -> Any:
        """What the draft model says after a text and drafts."""
        with torch.inference_mode():
            said = self._says(self.draft, self.target, text, drafted)
        return over_all(self.draft, said) if hasattr(self.draft, "kept") else said


def softmax(logits: Any, temperature: float = 1.0) -> Any:
    law = np.exp((logits - logits.max()) / temperature)
    return law / law.sum()


@each(kind=list(KINDS))
def test_positions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    made = Made(monkeypatch, kind)
    path = tmp_path / "positions.safetensors"
    made.recorded(Recording, path)
    source = open_source(path)
    for row, text in made.after.items():
        problem = source.position(row).problem(2)
        np.testing.assert_allclose(problem.p, softmax(logits_after(made.target, text)), atol=2e-6)
        np.testing.assert_allclose(problem.scheme.q, softmax(made.logits(text, [])), atol=2e-6)  # type: ignore[attr-defined]


@each(kind=list(KINDS), temperature=(1.0, 0.6))
def test_trees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, temperature: float) -> None:
    made = Made(monkeypatch, kind)
    path = tmp_path / "trees.safetensors"
    about = made.recorded(TreeRecording, path, paths=3, depth=2, temperature=temperature)
    source, roots = TreeSource(path), []
    for row, text in made.after.items():
        one = source.tree(row)
        tree = Tree.of(one.paths, one.target, one.draft)
        assert tree.inner > 1
        for node in range(tree.size):
            prefix = list(tree.prefix(node))
            law = law_after(made.target, [*text, *prefix], temperature=temperature)
            np.testing.assert_allclose(tree.target[node], law, atol=2e-6)
            if node < tree.inner:
                own = softmax(made.logits(text, prefix), temperature)
                np.testing.assert_allclose(tree.draft[node], own, atol=2e-6)
            if not node:
                roots.append(np.minimum(law, own).sum())
    assert about["acceptance"] == pytest.approx(np.mean(roots), abs=1e-6)


def test_the_likeliest_of_the_tokens_that_are_drafted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Made(monkeypatch, "parallel, some tokens")
    path = tmp_path / "trees.safetensors"
    made.recorded(TreeRecording, path, paths=2, depth=3, top_k=4)
    source = TreeSource(path)
    for row in range(7):
        tokens = source.tree(row).tokens
        assert set(tokens[0][:4].tolist()) <= set(KEPT)


def test_paths_that_are_deeper_than_what_is_drafted_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Made(monkeypatch, "parallel, some tokens")
    with pytest.raises(ProblemError, match="d drafts 3 tokens of a path at most, and depth is 4; record paths no deep"):
        made.recorded(TreeRecording, tmp_path / "trees.safetensors", paths=2, depth=4)
