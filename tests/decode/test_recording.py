"""Positions and trees along the target's own text: what is in the file is what the models say, and what was drawn from.

Each law is computed by another way: from the start of its text, without a cache, or by the draft model's formulas.
"""

import copy
import json
from functools import partial
from itertools import count, cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from otspec import DataError, Problem, ProblemError, optimum
from otspec.bench.schema import check_header
from otspec.data import FileSource, TopSource, TreeSource, open_source
from otspec.data.formats import safetensors_about
from otspec.decode.drafters.levels import LevelDrafter
from otspec.decode.pair.loading import Models
from otspec.decode.recording import positions, trees
from otspec.decode.recording.positions import Recording, begun, record
from otspec.decode.recording.trees import TreeRecording
from otspec.logits import law_from_logits
from otspec.schemes import WithoutReplacement
from otspec.verification import Tree
from otspec.verification.rules.catalogue import JOINT, verifier_of_paths
from tests.contracts.draft_models import eagle, logits_of_eagle, logits_of_parallel, over_all, shared
from tests.decode.families import family
from tests.decode.models import calls_of, logits_after, pair
from tests.each import check_each, each
from tests.processes import killed
from tests.refusals import Refused, check_refused

PROMPTS = [[1, 2], [3, 4, 5], [6]]
KEPT = (0, 2, 5, 6, 7)
KINDS: dict[str, tuple[Any, Any]] = {
    "plain": (lambda target, draft: draft, lambda model, target, text, drafted: logits_after(model, text + drafted)),
    "eagle": (lambda target, draft: eagle(draft), logits_of_eagle),
    "shared": (lambda target, draft: shared(target), logits_of_eagle),
    "shared, some tokens": (lambda target, draft: shared(target, 0, KEPT), logits_of_eagle),
    "parallel, some tokens": (lambda target, draft: shared(target, 2, KEPT), logits_of_parallel),
}
"""How a draft model is made, and what it says."""
OFF = {"float32": 2e-6, "float16": 4e-3, "bfloat16": 4e-2}
"""L1 of laws by what logits are stored in."""


def request(of: type[Recording] = Recording, kind: str = "plain", vocab: int = 8, **settings: Any) -> Any:
    """Seven positions, or trees of three paths of two tokens, of a tiny pair in float64."""
    target, draft = pair(vocab)
    inputs: dict[str, Any] = {"positions": 7, "new": 6, "batch": 2, "stored": "float32"}
    inputs |= {"paths": 3, "depth": 2} if of is TreeRecording else {}
    prompts = settings.pop("prompts", PROMPTS)
    return of(Models(target, None, KINDS[kind][0](target, draft)), ("t", "d"), prompts, **{**inputs, **settings})


TREES = partial(request, TreeRecording)


class Recorded:
    """A file, the texts up to every row of it, and the laws that trees were drawn from."""

    def __init__(self, path: Path, of: type[Recording] = Recording, kind: str = "plain", **settings: Any) -> None:
        self.recording, self._says = request(of, kind, **settings), KINDS[kind][1]
        vocab = self.recording.vocab
        with pytest.MonkeyPatch.context() as patch:
            placed, drafted = calls_of(patch, positions, "own_places"), calls_of(patch, LevelDrafter, "draft")
            patch.setattr(trees, "own_places", positions.own_places)
            self.about = record(self.recording, path)
        rows = [row for _, rows in self.recording.chunks for row in rows]
        contexts = [text for (_, prompts, *_), (texts, after) in placed for text in begun(texts, prompts, after)]
        self.contexts = dict(zip(rows, contexts, strict=True))
        laws = [law for _, one in drafted for law in one.over(vocab).split([tree.inner for tree in one.trees])]
        paths = [tree.token[tree.node[:, 1:]] for _, one in drafted for tree in one.trees]
        self.drawn = dict(zip(rows, zip(laws, paths, strict=True), strict=False))
        """The laws that trees were drawn from, and their paths."""
        self.source: Any = TreeSource(path) if of is TreeRecording else open_source(path)

    def logits(self, row: int, drafted: tuple[int, ...] = ()) -> tuple[Any, Any]:
        """What both models say after the text up to a row, and drafts."""
        models, text = self.recording.models, self.contexts[row]
        with torch.inference_mode():
            said = self._says(models.draft, models.target, text, list(drafted))
        said = over_all(models.draft, said) if hasattr(models.draft, "draft_tokens") else said
        return logits_after(models.target, [*text, *drafted]), said

    def laws(self, row: int, drafted: tuple[int, ...] = ()) -> list[Any]:
        """Both laws at the temperature of the recording, if it is of trees."""
        heat = self.recording.temperature if isinstance(self.recording, TreeRecording) else 1.0
        return [law_from_logits("logits", one, heat) for one in self.logits(row, drafted)]

    def tree(self, row: int) -> Tree:
        one = self.source.tree(row)
        return Tree.of(one.paths, one.target, one.draft)

    def check(self, off: tuple[list[float], list[float]]) -> None:
        """The header has the largest errors of storing, and the acceptance of one draft."""
        error = self.about["error_of_storing"]
        stored = self.recording.stored
        for role, found in zip(("target", "draft"), off, strict=True):
            assert error[f"{role}_l1_max"] == pytest.approx(max(found), rel=1e-2, abs=1e-9), role
            assert error[f"{role}_l1_max"] < OFF[stored]
        overlap = np.mean([np.minimum(*self.laws(row)).sum() for row in self.contexts])
        assert self.about["acceptance"] == pytest.approx(overlap, abs=1e-6)


CASES = [*((kind, "float32") for kind in KINDS), ("plain", "float16"), ("plain", "bfloat16")]


@each(case=CASES)
def test_positions_are_what_the_models_say(tmp_path: Path, case: tuple[str, str]) -> None:
    kind, stored = case
    made = Recorded(tmp_path / f"{kind}{stored}.safetensors", kind=kind, stored=stored)
    assert isinstance(made.source, FileSource)
    assert (len(made.source), made.source.vocab) == (7, 8)
    off: tuple[list[float], list[float]] = [], []
    for row, context in made.contexts.items():
        assert context[: len(PROMPTS[row % 3])] == PROMPTS[row % 3]
        problem: Any = made.source.position(row).problem(2)
        for one, exact, held in zip(off, made.laws(row), (problem.p, problem.scheme.q), strict=True):
            one.append(float(np.abs(exact - held).sum()))
    made.check(off)


def test_places_are_spread_over_the_text(tmp_path: Path) -> None:
    made = Recorded(tmp_path / "p.safetensors", positions=24, new=4)
    assert {len(text) - len(PROMPTS[row % 3]) for row, text in made.contexts.items()} == {1, 2, 3, 4}


@each(case=[*zip(CASES, cycle((1.0, 0.6))), (CASES[0], 0.6)])
def test_trees_are_what_the_models_say_and_what_was_drawn_from(
    tmp_path: Path, case: tuple[tuple[str, str], float]
) -> None:
    (kind, stored), temperature = case
    path = tmp_path / f"{kind}{stored}{temperature}.safetensors"
    made = Recorded(path, TreeRecording, kind, stored=stored, temperature=temperature)
    assert (len(made.source), made.source.vocab, made.source.paths, made.source.depth) == (7, 8, 3, 2)
    off: tuple[list[float], list[float]] = [], []
    for row, context in made.contexts.items():
        tree = made.tree(row)
        assert tree.inner > 1
        np.testing.assert_array_equal(tree.node, made.source.tree(row).nodes)
        laws, paths = made.drawn[row]
        np.testing.assert_allclose(tree.draft, laws, rtol=0, atol=1e-15)
        np.testing.assert_array_equal(made.source.tree(row).paths, paths)
        assert context[: len(PROMPTS[row % 3])] == PROMPTS[made.source.prompt(row)]
        for node in range(tree.size):
            target, draft = made.laws(row, tuple(tree.prefix(node)))
            off[0].append(np.abs(tree.target[node] - target).sum())
            if node < tree.inner:
                off[1].append(np.abs(tree.draft[node] - draft).sum())
    made.check(off)


# --- the likeliest tokens alone


def test_the_likeliest_tokens_are_enough_for_drafts_among_them(tmp_path: Path) -> None:
    """At as many temperatures as wanted."""
    path = tmp_path / "top.safetensors"
    source = (made := Recorded(path, top_k=4, rest_at=(0.6, 1.0))).source
    assert (type(source), len(source), source.vocab, source.known) == (TopSource, 7, 8, 4)
    alone = [optimum(source.position(row).problem(1, top_k=4)).acceptance for row in made.contexts]
    assert (source.identity["bytes"], made.about["acceptance"]) == (path.stat().st_size, pytest.approx(np.mean(alone)))

    def check(row: int, n: int, settings: dict[str, Any]) -> None:
        exact: Any = Problem.from_logits(*made.logits(row), n, **settings)
        held: Any = source.position(row).problem(n, **settings)
        assert optimum(held).acceptance == pytest.approx(optimum(exact).acceptance, abs=1e-6)
        assert held.scheme.q == pytest.approx(exact.scheme.q, abs=1e-6)
        if n <= settings["top_k"] and "top_p" not in settings:
            one, two = (Problem(of.p, WithoutReplacement(of.scheme.q, n)) for of in (held, exact))
            assert optimum(one).acceptance == pytest.approx(optimum(two).acceptance, abs=1e-6)

    ways = [{"top_k": 1}, {"top_k": 2, "top_p": 0.8}, {"top_k": 4}, {"top_k": 3, "temperature": 0.6}]
    ways += [{"top_k": 3, "temperature": 0.6, "draft_temperature": 1.0}]
    check_each(check, row=list(made.contexts), n=(1, 3), settings=ways)
    for inputs, message in (
        ({}, "all tokens may be drafted, and the file has the 4 likeliest drafts"),
        ({"top_k": 5}, "pass top_k=4 or less, or record whole laws"),
        ({"top_k": 2, "temperature": 0.5}, "temperature is 0.5, and the mass .* is known at 0.6, 1 only"),
        ({"top_k": 2, "target_top_k": 3}, "target_top_k is 3, and the file lacks tokens"),
    ):
        with pytest.raises(ProblemError, match=message):
            source.position(0).problem(2, **inputs)
    with pytest.raises(DataError, match="indices run from 0 to 6"):
        source.position(7)


def test_the_likeliest_tokens_tell_every_rule_what_whole_laws_tell(tmp_path: Path) -> None:
    made = Recorded(tmp_path / "top.safetensors", TreeRecording, top_k=4, temperature=0.8)
    assert made.about["error_of_storing"]["draft_l1_max"] < OFF["float32"]
    for row in made.contexts:
        one = made.source.tree(row)

        def law(role: int, top_k: int | None, prefix: tuple[int, ...], row: int = row) -> Any:
            return law_from_logits("logits", made.logits(row, prefix)[role], temperature=0.8, top_k=top_k)

        whole = Tree.of(one.tokens[one.nodes[:, :-1], one.paths], partial(law, 0, None), partial(law, 1, 4))
        for spelling in (*JOINT, "interval", "kseq"):
            rule = verifier_of_paths(spelling)
            held, full = (tree.depth @ rule.stop_law(tree).sum(axis=1) for tree in (made.tree(row), whole))
            assert held == pytest.approx(full, abs=2e-5), (spelling, row)
    made = Recorded(tmp_path / "p.safetensors", TreeRecording, "parallel, some tokens", depth=3, top_k=4)
    assert all(set(made.source.tree(row).tokens[0][:4].tolist()) <= set(KEPT) for row in range(7))


# --- files


@pytest.mark.parametrize(
    ("ask", "change", "message"),
    [(request, {"seed": 1}, "its seed is 0, yours 1; d"), (TREES, {"paths": 2}, "its paths is 3, yours 2; delete")],
    ids=["positions", "trees"],
)
def test_a_recording_that_is_killed_goes_on_and_ends_as_if_nothing_had_been(
    ask: Any, change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path, whole, other = (tmp_path / f"{name}.safetensors" for name in ("killed", "whole", "other"))
    chunks = count(1)
    killed(lambda die: record(ask(), path, lambda rows: die() if next(chunks) == 3 else None))
    assert not path.exists()
    with pytest.raises(DataError, match=f"belongs to another recording: {message}"):
        record(ask(**change), path)
    assert json.loads((tmp_path / "killed.safetensors.state").read_text())["state"]["chunks"] == 3
    record(ask(), path)
    record(ask(), whole)
    assert path.read_bytes() == whole.read_bytes()
    assert {entry.name for entry in tmp_path.iterdir()} == {path.name, whole.name}
    record(ask(**change), other)
    assert other.read_bytes() != whole.read_bytes()


def test_the_header_says_where_it_is_from_and_others_can_read_the_file(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.numpy")
    path = tmp_path / "p.safetensors"
    about = record(request(), path)
    assert about == safetensors_about(path)
    check_header(about, path)
    assert about["target"] != about["draft"]
    said = {"seed": 0, "temperature": 1.0, "dtype": "float64", "stored": "float32", "new_tokens": 6}
    assert said.items() <= about.items()
    assert {"otspec", "torch", "transformers"} <= about["versions"].keys()
    assert about["prompts"]["count"] == 3
    arrays = safetensors.load_file(path)
    np.testing.assert_array_equal(arrays["draft_logits"][2], open_source(path).position(2).draft_logits)


def test_what_cannot_be_recorded_is_refused(tmp_path: Path) -> None:
    foreign = request().models._replace(matching=object())
    learning = request().models._replace(draft=copy.deepcopy(family("gpt2", 8)).train())
    refused: list[Refused] = [
        (lambda: request(positions=0), "positions is 0; pass an integer >= 1"),
        (lambda: request(seed=-1, batch=2), "seed is -1; pass one integer, 0 or more"),
        (lambda: request(prompts=[]), "no prompts, or an empty one"),
        (lambda: request(stored="int8"), "cannot be stored as 'int8'; known: float32"),
        (lambda: request(top_k=8), "top_k is 8; of 8 tokens store 1 to 7, or all"),
        (lambda: request(new=100), "a prompt and 100 tokens after it are 103, and a model reads 64"),
        (lambda: request(top_k=4, rest_at=(1.0, 0.0)), r"at temperatures, and they are \[1.0, 0.0\]; pass finite ones"),
        (lambda: TREES(temperature=0.0), "the temperature is 0, where all paths of a tree are the same"),
        (lambda: TREES(depth=60), "a prompt and 66 tokens after it are 69, and a model reads 64"),
        (lambda: TREES(paths=0), "paths is 0; pass an integer >= 1"),
        (lambda: TreeRecording(learning, ("t", "d"), PROMPTS, 7), "the draft model, GPT2.* It is in training mode"),
        (lambda: TreeRecording(foreign, ("t", "d"), PROMPTS, 7), "d has another tokenizer than t, and its laws are"),
        (
            lambda: record(TREES(kind="parallel, some tokens", depth=4), tmp_path / "t.safetensors"),
            "d drafts 3 tokens of a path at most, and depth is 4; record paths no deep",
        ),
    ]
    check_refused(refused)
    path = tmp_path / "p.safetensors"
    record(TREES(), path)
    with pytest.raises(DataError, match="holds recorded trees, not positions; otspec bench paths compares rules"):
        open_source(path)
