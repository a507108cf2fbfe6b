"""A rule that verifies drafted paths, with its drafts, as an audit calls it: verdicts on trees, or their laws."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from types import SimpleNamespace
from typing import Any

import numpy as np

from otspec.auditing.rules.answers import Invalid, checked_law, described
from otspec.auditing.rules.case import MAX_NUMBERS, TEXT, Law, Sample, draw_each
from otspec.auditing.rules.forms import PathForm, path_form_of
from otspec.auditing.rules.instances import HOSTILE, ORDINARY
from otspec.auditing.rules.path_cases import MAX_TREES, PathCase, case_of, own_models
from otspec.auditing.rules.subject import Begin, Subject, Wording
from otspec.auditing.settings import AuditSettings
from otspec.errors import ProblemError
from otspec.laws import FloatArray, IntArray
from otspec.verification import Model, Tree
from otspec.verification.reference.enumeration import law_over
from otspec.verification.trees.shape import Shape

SAMPLED = (*ORDINARY, "zeros", "ties", "point target")
"""Kinds of models that are drawn from: fewer, because each takes thousands of draws."""


class DraftedTree(Subject[PathCase]):
    """A rule for drafted paths, with the shape of their tree; `otspec.audit_paths` explains the arguments."""

    wording: Wording = Wording(
        case="model",
        right="texts have the target's law",
        right_so_far="the texts have the target's law on these",
        off="the law of the texts is off",
    )

    def __init__(
        self,
        rule: Any,
        shape: Shape,
        *,
        form: str | None,
        shown: Callable[[FloatArray], Any] | None,
        models: Iterable[Model] | None,
        settings: AuditSettings,
    ) -> None:
        super().__init__(rule, settings)
        if shown is not None and not callable(shown):
            raise ProblemError(f"shown is {shown!r}; pass a function")
        self._shape, self._shown, self._rule = shape, shown, rule
        self.form = path_form_of(rule, form)
        self._begin = self._starts(rule)
        self._off = self._tol
        self.user_cases = [] if models is None else self._cases(_numbered(models))
        self.drafts = _described(shape)
        self.has_law = self.form in (PathForm.TREE_LAW, PathForm.CHAINS_LAW)
        if self.form is PathForm.VERIFIER and hasattr(rule, "stop_law"):
            # A verify that overrides an inherited one leaves the law behind.
            ours = [[one for one in type(rule).__mro__ if name in vars(one)][:1] for name in ("stop_law", "verify")]
            self.has_law = settings.method == "exact" or not all(ours) or issubclass(ours[0][0], ours[1][0])
            self.wording = self.wording._replace(right="by stop_law, texts have the target's law")

    @property
    def not_enumerable(self) -> str:
        """Why an exact audit is not possible, and what would make it so."""
        return (
            f"a rule of form {self.form} cannot be enumerated here: that takes a law (stop_law, or form tree_law or "
            f"chains_law) and at most {MAX_TREES:,} trees that can be drafted; leave method out"
        )

    def cases(self, seed: int, *, sampled: bool) -> list[PathCase]:
        """The audit's own models, of fewer kinds if they are sampled."""
        return self._cases(own_models(seed, self._shape.depth, SAMPLED if sampled else (*ORDINARY, *HOSTILE)))

    def _cases(self, named: Iterable[tuple[str, Model]]) -> list[PathCase]:
        return [case_of(name, model, self._shape, self._shown) for name, model in named]

    def law(self, case: PathCase) -> Law:
        """Sum the law of the texts over all trees that can be drafted; of those that hardly are, laws may lose mass."""

        def trees() -> Iterator[tuple[float, Tree]]:
            for chance, tree in case.trees():
                self._off = self._tol if chance > self._tol else 1.0
                yield chance, tree

        verifier: Any = SimpleNamespace(stop_law=lambda tree: self._laws(case, [tree], np.zeros(1, dtype=np.int64))[0])
        found = law_over(trees(), verifier, case.model, case.length)
        return Law(found.output.ravel(), found.mean_accepted / case.length)

    def sample(self, cases: Sequence[PathCase], texts: int) -> list[Sample]:
        """So many texts of each model."""
        with np.errstate(all="ignore"):
            return [self._sample(case, texts) for case in cases]

    def _sample(self, case: PathCase, texts: int) -> Sample:
        rows = texts * TEXT
        numbers, accepted = (np.empty(rows, dtype=np.int64) for _ in range(2))
        passed = np.zeros_like(case.after[0], dtype=np.int64)
        most = max(MAX_NUMBERS // (TEXT * case.vocab * self._shape.slots), 1) * TEXT
        for first in range(0, rows, most):
            part = slice(first, min(first + most, rows))
            trees, which = case.drawn(part.stop - first, self._own)
            nodes, tokens = self._verdicts(case, trees, which)
            node = (np.cumsum([0, *(tree.size for tree in trees)])[:-1])[which] + nodes
            accepted[part] = np.concatenate([tree.depth for tree in trees])[node]
            places = np.concatenate([case.places_of(tree) for tree in trees])[node] * case.vocab + 1 + tokens
            passed += case.passed(places)
            numbers[part] = case.texts(places, self._own)
        return Sample(numbers.reshape(-1, TEXT), np.bincount(accepted, minlength=case.length + 1), None, passed=passed)

    def _verdicts(self, case: PathCase, trees: Sequence[Tree], which: IntArray) -> tuple[IntArray, IntArray]:
        """The accepted node and the token after it, of each row, given the tree that it has drafted: shapes (rows,)."""
        if self.form in (PathForm.TREE_LAW, PathForm.CHAINS_LAW):
            laws = self._laws(case, trees, which, self._begin)
            flat = np.zeros((len(laws), max(law.size for law in laws)))
            for row, law in enumerate(laws):
                flat[row, : law.size] = np.maximum(law, 0.0).ravel()
            drawn = draw_each(np.cumsum(flat, axis=1), self._rng)
            return drawn // case.vocab, drawn % case.vocab
        rows = which.tolist()
        read: Callable[[PathCase, Tree, Any], tuple[int, int]]
        handed: tuple[Iterable[Any], ...]
        if self.form is PathForm.CHAINS:
            call, read, handed = self._rule, place_of, _chains(trees, which)
        else:
            call = self._rule.verify if self.form is PathForm.VERIFIER else self._rule
            read, handed = _verdict, ([trees[one] for one in rows],)
        answers, error = self._answers(call, zip(*handed, repeat(self._rng), strict=False), self._begin)
        known: dict[tuple[Any, ...], tuple[int, int]] = {}
        found = []
        for one, answer in zip(rows, answers, strict=False):
            try:
                verdict = known.get((one, *answer))
            except TypeError:  # of no numbers that can be looked up
                verdict = read(case, trees[one], answer)
            if verdict is None:
                verdict = known[(one, *answer)] = read(case, trees[one], answer)
            found.append(verdict)
        if error is not None:
            raise Invalid(f"raises {described(error)}", drafts_of(trees[rows[len(answers)]]), case) from error
        nodes, tokens = np.array(found, dtype=np.int64).T
        return nodes, tokens

    def _laws(self, case: PathCase, trees: Sequence[Tree], which: IntArray, begin: Begin = ()) -> list[FloatArray]:
        """P(the accepted prefix is node v, the token after it is x) given the tree of each row, shapes (N, V)."""
        drafted = [trees[one] for one in which.tolist()]
        if self.form is PathForm.CHAINS_LAW:
            answers, error = self._answers(self._rule, zip(*_chains(trees, which), strict=True), begin)
        else:
            call = self._rule.stop_law if self.form is PathForm.VERIFIER else self._rule
            answers, error = self._answers(call, zip(drafted, strict=True), begin)
        found = []
        for tree, answer in zip(drafted, answers, strict=False):
            values = _placed(case, tree, answer) if self.form is PathForm.CHAINS_LAW else answer
            found.append(checked_law(values, tree.target.shape, case, drafts_of(tree), self._off))
        if error is not None:
            raise Invalid(f"raises {described(error)}", drafts_of(drafted[len(answers)]), case) from error
        return found


def _chains(trees: Sequence[Tree], which: IntArray) -> tuple[FloatArray, FloatArray, IntArray]:
    """`chains` of each row, which are copies: shapes (rows, K, L + 1, V), (rows, K, L, V) and (rows, K, L)."""
    target, draft, paths = (np.stack(arrays)[which] for arrays in zip(*map(chains, trees), strict=True))
    return target, draft, paths


def chains(tree: Tree) -> tuple[FloatArray, FloatArray, IntArray]:
    """A tree as engines hold it: target (K, L + 1, V), draft (K, L, V), paths (K, L), all of them copies."""
    return tree.target[tree.node], tree.draft[tree.node[:, :-1]], tree.token[tree.node[:, 1:]]


def drafts_of(tree: Tree) -> IntArray:
    """The drafted paths, shape (K, L)."""
    return tree.token[tree.node[:, 1:]]


def place_of(case: PathCase, tree: Tree, answer: Any) -> tuple[int, int]:
    """The node and the token that tokens put out amount to: all but the last of them have to be drafted."""
    drafts = drafts_of(tree)
    try:
        tokens = [operator.index(token) for token in answer]
    except TypeError as error:
        raise Invalid(f"returns {answer!r}, which is not a sequence of token ids", drafts, case) from error
    if not 1 <= len(tokens) <= case.length + 1:
        raise Invalid(
            f"puts out {len(tokens)} tokens; a path of {case.length} gives 1 to {case.length + 1}", drafts, case
        )
    _check_token(case, tree, tokens[-1])
    node = 0
    for level, token in enumerate(tokens[:-1]):
        below = [child for child in tree.children[node].tolist() if tree.token[child] == token]
        if not below:
            raise Invalid(f"puts out {tokens}, and {tokens[: level + 1]} was not drafted", drafts, case)
        node = below[0]
    return node, tokens[-1]


def _verdict(case: PathCase, tree: Tree, answer: Any) -> tuple[int, int]:
    """(node, token) or (node, accepted, token), checked."""
    drafts = drafts_of(tree)
    said_so = isinstance(answer, Sequence) and len(answer) in (2, 3)
    try:
        node, *accepted, token = (operator.index(value) for value in (answer if said_so else ()))
    except (TypeError, ValueError) as error:
        raise Invalid(f"returns {answer!r}, not (node, token) or (node, accepted, token)", drafts, case) from error
    if not 0 <= node < tree.size:
        raise Invalid(f"accepts node {node} of a tree whose nodes are 0 to {tree.size - 1}", drafts, case)
    if accepted and accepted[0] != tree.depth[node]:
        raise Invalid(
            f"reports that it accepted {accepted[0]} tokens, and node {node} has {tree.depth[node]}", drafts, case
        )
    _check_token(case, tree, token)
    return node, token


def _check_token(case: PathCase, tree: Tree, token: int) -> None:
    if not 0 <= token < case.vocab:
        raise Invalid(f"puts out token {token}; token ids run from 0 to {case.vocab - 1}", drafts_of(tree), case)


def _placed(case: PathCase, tree: Tree, law: Any) -> FloatArray:
    """A dictionary of what is put out, as a law of nodes and tokens."""
    if not isinstance(law, Mapping):
        raise Invalid(f"returns {law!r}, not a dictionary from tuples of tokens", drafts_of(tree), case)
    placed = np.zeros_like(tree.target)
    for tokens, chance in law.items():
        try:
            placed[place_of(case, tree, tokens)] += float(chance)
        except (TypeError, ValueError) as error:
            raise Invalid(
                f"gives {tokens!r} the probability {chance!r}, which is not a number", drafts_of(tree), case
            ) from error
    return placed


def _numbered(models: Iterable[Model]) -> list[tuple[str, Model]]:
    """The user's models by their names."""
    try:
        listed = list(models)
    except TypeError as error:
        raise ProblemError(f"models is {models!r}; pass a list of otspec.verification.Model") from error
    if not listed:
        raise ProblemError("models is empty; leave it out for the default, or pass at least one")
    return [(f"model {number}", model) for number, model in enumerate(listed)]


def _described(shape: Shape) -> str:
    """The drafts, in words."""
    if shape.independent_paths:
        return f"{shape.branching[0]} independent paths of {shape.depth} tokens"
    return f"a tree of branching {shape.branching}"
