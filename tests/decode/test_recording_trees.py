"""Trees recorded along the target's own text: what is in the file is what the models say, and what was drawn from."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import otspec.decode.recording.trees as module  # noqa: E402
from otspec import DataError, ProblemError  # noqa: E402
from otspec.data import TreeSource, open_source  # noqa: E402
from otspec.decode.drafters.model import ModelDrafter  # noqa: E402
from otspec.decode.pair.loading import Models  # noqa: E402
from otspec.decode.recording.positions import record  # noqa: E402
from otspec.decode.recording.trees import TreeRecording  # noqa: E402
from otspec.laws import law_from_logits  # noqa: E402
from otspec.paths import (  # noqa: E402
    Model,
    Tree,
    path_law,
)
from otspec.verification.rules.catalogue import JOINT, verifier_of_paths  # noqa: E402
from tests.decode.killed import kill_after_three_chunks  # noqa: E402
from tests.decode.models import law_after, logits_after, pair  # noqa: E402
from tests.each import each  # noqa: E402

PROMPTS = [[1, 2], [3, 4, 5], [6]]


def asked(**settings: Any) -> TreeRecording:
    """Seven trees of a tiny pair, in float64."""
    vocab = settings.pop("vocab", 8)
    target, draft = pair(vocab)
    given: dict[str, Any] = {"positions": 7, "new": 6, "batch": 2, "stored": "float32", "paths": 3, "depth": 2}
    prompts = settings.pop("prompts", PROMPTS)
    return TreeRecording(Models(target, None, draft), ("t", "d"), prompts, **{**given, **settings})


class Recorded:
    """A file of trees, the texts that they were drafted after, and the laws that they were drawn from."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, recording: TreeRecording, path: Path) -> None:
        contexts: list[list[int]] = []
        laws: list[Any] = []

        class Noting(ModelDrafter):
            def draft(self, texts: Any, depth: int) -> Any:
                drafts = super().draft(texts, depth)
                contexts.extend(list(text) for text in texts)
                laws.extend(drafts.laws.split([tree.inner for tree in drafts.trees]))
                return drafts

        with monkeypatch.context() as patch:
            patch.setattr("otspec.decode.drafters.catalogue.ModelDrafter", Noting)
            self.about = record(recording, path)
        rows = [row for _, rows in recording.chunks for row in rows]
        self.contexts = dict(zip(rows, contexts, strict=True))
        self.drawn_from = {row: law.numpy() for row, law in zip(rows, laws, strict=True)}
        self.source = TreeSource(path)


def tree_of(source: TreeSource, index: int) -> Tree:
    one = source.tree(index)
    return Tree.of(one.paths, one.target, one.draft)


@each(stored=("float32", "float16", "bfloat16"), temperature=(1.0, 0.6))
def test_laws_are_those_of_the_models_and_those_that_were_drawn_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored: str, temperature: float
) -> None:
    recording = asked(stored=stored, temperature=temperature)
    made = Recorded(monkeypatch, recording, tmp_path / f"{stored}{temperature}.safetensors")
    error = made.about["error_of_storing"]
    assert 0 < error["target_l1_max"] < {"float32": 2e-6, "float16": 4e-3, "bfloat16": 4e-2}[stored]
    assert (len(made.source), made.source.vocab, made.source.paths, made.source.depth) == (7, 8, 3, 2)
    off = {"target": [0.0], "draft": [0.0]}
    for row, context in made.contexts.items():
        tree = tree_of(made.source, row)
        np.testing.assert_array_equal(tree.node, made.source.tree(row).nodes)
        np.testing.assert_allclose(tree.draft, made.drawn_from[row], rtol=0, atol=1e-15)
        assert context[: len(PROMPTS[row % 3])] == PROMPTS[made.source.prompt(row)]
        assert len(PROMPTS[row % 3]) < len(context) <= len(PROMPTS[row % 3]) + 6
        for node in range(tree.size):
            text = [*context, *tree.prefix(node)]
            law = law_after(recording.models.target, text, temperature=temperature)
            off["target"].append(np.abs(tree.target[node] - law).sum())
            if node < tree.inner:
                law = law_after(recording.models.draft, text, temperature=temperature)
                off["draft"].append(np.abs(tree.draft[node] - law).sum())
    assert max(off["target"]) == pytest.approx(error["target_l1_max"], rel=1e-2)
    assert max(off["draft"]) == pytest.approx(error["draft_l1_max"], rel=1e-2)
    roots = [np.minimum(*roots_of(recording, context, temperature)).sum() for context in made.contexts.values()]
    assert made.about["acceptance"] == pytest.approx(np.mean(roots), abs=1e-9)


def roots_of(recording: TreeRecording, context: list[int], temperature: float) -> tuple[Any, Any]:
    models = recording.models.target, recording.models.draft
    one, two = (law_after(model, context, temperature=temperature) for model in models)
    return one, two


def test_the_likeliest_tokens_tell_every_rule_what_whole_laws_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = asked(top_k=4, temperature=0.8)
    made = Recorded(monkeypatch, recording, tmp_path / "top.safetensors")
    assert made.about["error_of_storing"]["draft_l1_max"] < 2e-6
    for row, context in made.contexts.items():
        one = made.source.tree(row)
        held = Tree.of(one.paths, one.target, one.draft)
        of_vocabulary = one.tokens[one.nodes[:, :-1], one.paths]

        def law(model: Any, top_k: int | None, prefix: tuple[int, ...], context: list[int] = context) -> Any:
            logits = logits_after(model, [*context, *prefix])
            return law_from_logits("logits", logits, temperature=0.8, top_k=top_k)

        whole = Tree.of(
            of_vocabulary,
            lambda prefix: law(recording.models.target, None, prefix),
            lambda prefix: law(recording.models.draft, 4, prefix),
        )
        for spelling in (*JOINT, "interval", "kseq"):
            rule = verifier_of_paths(spelling)
            two = [(tree.depth @ rule.stop_law(tree).sum(axis=1)) for tree in (held, whole)]
            assert two[0] == pytest.approx(two[1], abs=2e-5), (spelling, row)


def test_the_mean_over_recorded_trees_is_that_over_all_drafts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All trees after one text: the mean of the file estimates what enumeration says."""
    recording = asked(vocab=4, positions=400, batch=400, prompts=[[1, 2]], paths=2, depth=2)

    def one_text(target: Any, prompts: Any, *_: Any) -> tuple[Any, Any]:
        return prompts, np.zeros(len(prompts), dtype=np.int64)

    monkeypatch.setattr(module, "own_places", one_text)
    path = tmp_path / "trees.safetensors"
    record(recording, path)
    source = TreeSource(path)

    @cache
    def law(model: Any, prefix: tuple[int, ...]) -> Any:
        return law_after(model, [1, 2, *prefix])

    model = Model(*(lambda prefix, of=of: law(of, prefix) for of in (recording.models.target, recording.models.draft)))
    trees = [tree_of(source, row) for row in range(400)]
    for spelling in ("nested", "interval", "traversal"):
        rule = verifier_of_paths(spelling)
        found = np.array([tree.depth @ rule.stop_law(tree).sum(axis=1) for tree in trees])
        exact = path_law(rule, model, 2, 2).mean_accepted
        assert abs(found.mean() - exact) < 4 * found.std() / 20, spelling


def test_a_recording_that_is_killed_goes_on_and_ends_as_if_nothing_had_been(tmp_path: Path) -> None:
    path, whole = tmp_path / "killed.safetensors", tmp_path / "whole.safetensors"
    kill_after_three_chunks(asked(), path)
    assert not path.exists()
    with pytest.raises(DataError, match="belongs to another recording: its paths is 3, yours 2; delete it"):
        record(asked(paths=2), path)
    record(asked(), path)
    record(asked(), whole)
    assert path.read_bytes() == whole.read_bytes()
    assert {entry.name for entry in tmp_path.iterdir()} == {path.name, whole.name}


def test_what_cannot_be_recorded_is_refused(tmp_path: Path) -> None:
    def check(settings: dict[str, Any], message: str) -> None:
        with pytest.raises(ProblemError, match=message):
            asked(**settings)

    for settings, message in (
        ({"temperature": 0.0}, "the temperature is 0, where all paths of a tree are the same"),
        ({"depth": 60}, "a prompt and 66 tokens after it are 69, and a model reads 64"),
        ({"paths": 0}, "paths is 0; pass an integer >= 1"),
        ({"top_k": 8}, "top_k is 8; of 8 tokens keep 1 to 7, or all"),
    ):
        check(settings, message)
    recording = asked()
    with pytest.raises(ProblemError, match="d has another tokenizer than t, and its laws are over other tokens"):
        TreeRecording(recording.models._replace(matching=object()), ("t", "d"), PROMPTS, 7)  # type: ignore[arg-type]
    path = tmp_path / "p.safetensors"
    record(recording, path)
    with pytest.raises(DataError, match="holds recorded trees, not positions; otspec bench paths compares rules"):
        open_source(path)
