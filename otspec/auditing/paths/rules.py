"""Rules for drafted paths as the audit calls them: the verdict on a tree, or the law of it."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from otspec.auditing.answers import Invalid, checked_law
from otspec.auditing.calling import CalledRule
from otspec.auditing.deadline import Deadline
from otspec.auditing.paths.cases import PathCase
from otspec.auditing.paths.forms import PathForm, detect
from otspec.errors import ProblemError
from otspec.laws import FloatArray, IntArray
from otspec.paths import Tree


class PathRule(CalledRule):
    """A rule of any form.

    Parameters
    ----------
    call : callable or PathVerifier
        The user's rule.
    form : PathForm
    tol : float
        How far the total of a law may be off 1, and an entry below 0.
    deadline : Deadline
        The rule is not called after it.
    """

    def __init__(self, call: Any, form: PathForm, tol: float, deadline: Deadline) -> None:
        super().__init__(call, deadline)
        self.form = form
        self._tol = tol

    @property
    def has_law(self) -> bool:
        """Whether it gives the exact law of its verdict."""
        return self.form in (PathForm.VERIFIER, PathForm.TREE_LAW, PathForm.CHAINS_LAW)

    @property
    def draws(self) -> bool:
        """Whether it gives verdicts, of its own randomness."""
        return self.form in (PathForm.VERIFIER, PathForm.TREE, PathForm.CHAINS)

    def law(self, case: PathCase, tree: Tree) -> FloatArray:
        """P(the accepted prefix is node v, the token after it is x) given the tree, shape (N, V).

        Raises
        ------
        Invalid
            If the rule gives no law, or one of what was not drafted.
        """
        drafts = drafts_of(tree)
        if self.form is PathForm.VERIFIER:
            values = self._try(lambda: self._call.stop_law(tree), drafts, case)
        elif self.form is PathForm.TREE_LAW:
            values = self._try(lambda: self._call(tree), drafts, case)
        else:
            values = self._placed(case, tree, self._try(lambda: self._call(*chains(tree)), drafts, case))
        return checked_law(values, tree.target.shape, case, drafts, self._tol)

    def verdict(self, case: PathCase, tree: Tree, rng: np.random.Generator) -> tuple[int, int]:
        """Draw the accepted node, and the token after it.

        Raises
        ------
        Invalid
            If the rule gives none.
        """
        if not self.draws:
            law = self.law(case, tree).ravel()
            below = np.cumsum(np.maximum(law, 0.0))
            found = int(np.searchsorted(below, rng.random() * below[-1], side="right"))
            return found // case.vocab, found % case.vocab
        drafts = drafts_of(tree)
        if self.form is PathForm.CHAINS:
            return place(case, tree, self._try(lambda: self._call(*chains(tree), rng), drafts, case))
        call = self._call.verify if self.form is PathForm.VERIFIER else self._call
        return _verdict(case, tree, self._try(lambda: call(tree, rng), drafts, case))

    def _placed(self, case: PathCase, tree: Tree, law: Any) -> FloatArray:
        """A dictionary of what is put out, as a law of nodes and tokens."""
        if not isinstance(law, Mapping):
            raise Invalid(f"returns {law!r}, not a dictionary from tuples of tokens", drafts_of(tree), case)
        placed = np.zeros_like(tree.target)
        for tokens, chance in law.items():
            try:
                placed[place(case, tree, tokens)] += float(chance)
            except (TypeError, ValueError) as error:
                raise Invalid(
                    f"says that {tokens!r} has probability {chance!r}, which is not a number", drafts_of(tree), case
                ) from error
        return placed


def chains(tree: Tree) -> tuple[FloatArray, FloatArray, IntArray]:
    """A tree as engines hold it: target (K, L + 1, V), draft (K, L, V), paths (K, L), all of them copies."""
    return tree.target[tree.node], tree.draft[tree.node[:, :-1]], tree.token[tree.node[:, 1:]]


def drafts_of(tree: Tree) -> IntArray:
    """The drafted paths, shape (K, L)."""
    return tree.token[tree.node[:, 1:]]


def place(case: PathCase, tree: Tree, answer: Any) -> tuple[int, int]:
    """The node and the token that tokens put out amount to: all but the last of them have to be drafted.

    Raises
    ------
    Invalid
        If they are none, too many, or not drafted.
    """
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
            f"says that it accepted {accepted[0]} tokens, and node {node} has {tree.depth[node]}", drafts, case
        )
    _check_token(case, tree, token)
    return node, token


def _check_token(case: PathCase, tree: Tree, token: int) -> None:
    if not 0 <= token < case.vocab:
        raise Invalid(f"puts out token {token}; token ids run from 0 to {case.vocab - 1}", drafts_of(tree), case)


def rule_of(call: Any, form: str | None, tol: float, deadline: Deadline) -> PathRule:
    """Bring the user's rule to a common form.

    Raises
    ------
    ProblemError
        If its form is unknown or cannot be told.
    """
    if form is not None and not (isinstance(form, str) and form in set(PathForm)):
        raise ProblemError(f"form is {form!r}; known: {', '.join(PathForm)}")
    if form is not None and not (callable(call) or form == PathForm.VERIFIER):
        raise ProblemError(f"the rule is {call!r}; pass a callable, or a verifier such as otspec.paths.Nested()")
    kind = detect(call) if form is None else PathForm(form)
    if kind is PathForm.VERIFIER and not all(hasattr(call, name) for name in ("verify", "stop_law")):
        raise ProblemError(f"the rule is {call!r}; a verifier has the methods verify and stop_law")
    return PathRule(call, kind, tol, deadline)
