from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from otspec import IID, DraftScheme, Greedy, Problem, ProblemError, Table, WithoutReplacement, check_scheme
from otspec.schemes import DraftSets, Support
from tests.each import each
from tests.instances import VARIED, Instance
from tests.refusals import check_refused

Q = np.array([0.1, 0.0, 0.4, 0.3, 0.2])


UNDERFLOW = Instance("tuples underflow, their set does not", Problem([1.0, 0, 0], IID([1.0, 1.4e-162, 1.4e-162], 2)))


@each(instance=[*VARIED, UNDERFLOW])
def test_schemes_of_this_package_are_sound(instance: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to sums of at most 216 products, of a few draws; where something is unknown, it is known to be."""
    monkeypatch.setattr("otspec.schemes.calls.TIE_TOL", 1e-13)
    scheme = instance.problem.scheme
    check = check_scheme(scheme, draws=500)
    assert (check.tuples, check.draws) == (len(scheme.support().drafts), 500)
    of_three = isinstance(scheme, WithoutReplacement) and scheme.n > 2
    assert ("inclusion" in check.unknown) == of_three
    assert "first_draft" not in check.unknown


class Two(IID):
    """i.i.d. drafts, to be spoilt in one method, on which the list of tuples does not depend."""

    def support(self) -> Support:
        return IID(self.q, self.n).support()


def spoilt(method: str, answer: Callable[..., Any]) -> DraftScheme:
    """Two drafts with another answer from one method, which is handed the right one and the arguments."""
    right = getattr(Two, method)
    name = {method: lambda self, *arguments: answer(right(self, *arguments), *arguments)}
    return type("Spoilt", (Two,), name)(Q, 2)


def one_probability_moved(support: Support) -> Support:
    moved = support.probabilities.copy()
    moved[[0, 1]] += [0.01, -0.01]
    return Support(support.drafts, moved)


def never_the_last(drafts: Any, rng: Any, size: int | None = None) -> Any:
    return np.where(drafts == 4, 3, drafts)


def equal_pairs(drafts: Any, rng: Any, size: int | None = None) -> Any:
    """Each draft has the right law, and the pairs have not."""
    return np.repeat(drafts[..., :1], 2, axis=-1)


MISTAKES: dict[str, tuple[str, Callable[..., Any], str]] = {
    "support-off-one": ("support", lambda s: Support(s.drafts, s.probabilities * 0.9), "sum to 0.9, not 1"),
    "support-nan": ("support", lambda s: Support(s.drafts, s.probabilities * np.nan), "not above 0"),
    "support-zero": ("support", lambda s: Support(*map(np.append, s, (0, 0))), "shape"),
    "support-twice": (
        "support",
        lambda s: Support(np.tile(s.drafts, (2, 1)), np.tile(s.probabilities / 2, 2)),
        "the same tuple twice",
    ),
    "support-token": ("support", lambda s: Support(s.drafts + 1, s.probabilities), r"outside 0 \.\. 4"),
    "support-pair": ("support", list, "is a list, not a Support"),
    "support-moved": ("support", one_probability_moved, "where the tuples of"),
    "support-size": ("support_size", lambda size: size - 1, "is 15, and support"),
    "support-size-none": ("support_size", lambda size: None, "is None, not an integer"),
    "reachable": ("reachable", lambda tokens: tokens[::-1], r"is \[4, 3, 2, 0\]"),
    "reachable-all": ("reachable", lambda tokens: np.arange(5), r"shape \(5,\), not \(4,\)"),
    "prob": ("prob", lambda values, drafts: values * 1.01, "where the tuples of support"),
    "prob-nan": ("prob", lambda values, drafts: values * np.nan, "gives nan"),
    "prob-shape": ("prob", lambda values, drafts: np.ravel(values), "has shape"),
    "prob-none": ("prob", lambda values, drafts: None, "is an array of object"),
    "prob-elsewhere": ("prob", lambda values, drafts: np.where((drafts == 1).any(axis=-1), 0.1, values), "gives 0.1"),
    "sample-law": ("sample", never_the_last, "times of"),
    "sample-pairs": ("sample", equal_pairs, "times of"),
    "sample-elsewhere": ("sample", lambda d, *_: np.where(d == 0, 1, d), "which support\\(\\) does not list"),
    "sample-shape": ("sample", lambda d, *_: d.T, "has shape"),
    "hit-chain": ("hit_chain", lambda chain, order: chain**1.01, "where the tuples of support"),
    "hit-chain-short": ("hit_chain", lambda chain, order: chain[1:], "has shape"),
    "priority-law": ("priority_law", lambda law, order: law[order], "where the tuples of support"),
    "draft-sets": ("draft_sets", lambda sets: DraftSets(sets.tokens, sets.mass[::-1]), "where support"),
    "draft-sets-order": ("draft_sets", lambda sets: DraftSets(sets.tokens[::-1], sets.mass[::-1]), "another order"),
    "draft-sets-none": ("draft_sets", lambda sets: None, "is a NoneType, not a DraftSets"),
    "set-count": ("set_count", lambda count: 3, r"is 3, and support\(\) has 10 sets"),
    "compact": ("compact", lambda scheme: IID(scheme.q, 3), "is not a scheme of n = 2 over 5 tokens"),
    "compact-law": ("compact", lambda scheme: IID(scheme.q[[1, 0, 2, 3, 4]], 2), "gives the drafts"),
    "first-draft": ("first_draft", lambda law: law[::-1], "where the tuples of support"),
    "inclusion": ("inclusion", lambda law: law * 0.99, "where the tuples of support"),
    "prefix-order": ("prefix_order", lambda order, p: order[::-1], "and another set"),
    "prefix-order-ids": ("prefix_order", lambda order, p: order[1:], "not an order of all tokens"),
}
"""A method, what it answers in place of the right answer, and what is said of it."""


@each(mistake=MISTAKES)
def test_names_the_method_at_fault(mistake: tuple[str, Callable[..., Any], str]) -> None:
    method, answer, message = mistake
    check_scheme(Two(Q, 2), draws=4000)
    with pytest.raises(ProblemError, match=message) as caught:
        check_scheme(spoilt(method, answer), draws=4000)
    assert method in str(caught.value)


def fails(*arguments: Any) -> None:
    raise IndexError("no such row")


def without_n() -> DraftScheme:
    scheme = Two(Q, 2)
    object.__delattr__(scheme, "n")
    return scheme


REFUSED: list[tuple[Any, str]] = [
    (spoilt("hit_chain", fails), r"Spoilt\.hit_chain\(\[0, .* IndexError: no such row"),
    (without_n(), "Two has no n; set it when the scheme is made"),
    (IID(np.full(30, 1 / 30), 3), "IID has up to 27,000 tuples of drafts, and 20,000 are"),
    (Greedy(np.arange(1, 14) / 91, 2), "Greedy drafts 13 tokens, and the sets of 12"),
    ([0.5, 0.5], r"scheme is a list; derive it from otspec\.schemes\.DraftScheme"),
]


def test_refuses_what_is_too_large_or_no_scheme() -> None:
    check_refused((partial(check_scheme, scheme), message) for scheme, message in REFUSED)


def test_the_answer_does_not_depend_on_chance() -> None:
    table = Table([[0, 1], [1, 1], [2, 0]], [0.5, 0.25, 0.25], 3)
    assert check_scheme(table, draws=100, seed=3) == check_scheme(table, draws=100, seed=3)
    for seed in range(30):
        check_scheme(table, draws=1000, seed=seed)
