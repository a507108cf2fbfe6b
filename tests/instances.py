"""Problems to try: a table of known answers, and families of random and hostile problems, all small and all seeded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from otspec import IID, DraftScheme, Greedy, HubPairs, Independent, Problem, Systematic, Table, TopK, WithoutReplacement
from tests.oracles import Floats, all_tuples

P4 = np.array([0.4, 0.3, 0.2, 0.1])
Q4 = np.array([0.1, 0.2, 0.3, 0.4])
E1 = np.array([0.0, 1.0, 0.0, 0.0])
LEFT = np.array([0.5, 0.5, 0.0, 0.0])
RIGHT = np.array([0.0, 0.0, 0.25, 0.75])


@dataclass(frozen=True)
class Known:
    """A problem whose optimal acceptance follows from one line of reasoning."""

    name: str
    problem: Problem
    acceptance: float
    why: str


def _iid(p: Floats, q: Floats, n: int) -> Problem:
    return Problem(p, IID(q, n))


KNOWN = (
    Known("single-draft", _iid(P4, Q4, 1), np.minimum(P4, Q4).sum(), why="1 - TV(p, q) [chen2023accelerating]"),
    Known("same-law", _iid(P4, P4, 3), 1.0, why="put out the first draft"),
    Known("point-target", _iid(E1, Q4, 3), 1 - (1 - Q4[1]) ** 3, why="token 1 must be drawn"),
    Known("point-draft", _iid(P4, E1, 3), P4[1], why="the drafts are always (1, 1, 1)"),
    Known("same-point", _iid(E1, E1, 2), 1.0, why="both are always token 1"),
    Known("disjoint", _iid(LEFT, RIGHT, 3), 0.0, why="no draft can ever be put out"),
    Known("one-token", _iid(np.ones(1), np.ones(1), 2), 1.0, why="there is nothing else to say"),
    Known(
        "two-tokens",
        _iid(np.array([0.9, 0.1]), np.array([0.5, 0.5]), 2),
        1 - 0.5**2 + 0.1,
        why="H = {1}: token 0 is needed with 0.9 and drawn with 0.75 only; the tuple (1, 1) serves p(1) = 0.1",
    ),
    Known(
        "underdrafted-tail",
        _iid(np.array([0.5, 0.5 - 1e-12, 1e-12]), np.array([0.5, 0.5, 0.0]), 1),
        1 - 1e-12,
        why="only the undrafted tail of p is lost",
    ),
    Known(
        "unreachable-half",
        _iid(np.array([0.25, 0.25, 0.5]), np.array([0.5, 0.5, 0.0]), 2),
        0.5,
        why="H = {0, 1} holds every draft, and p(H) = 0.5",
    ),
    Known(
        "greedy",
        Problem(P4, Greedy(Q4, 2)),
        0.1 + 1 / 6 + 0.3 + 0.2,
        why="p(3) = 0.1 of the fixed token, and the sum of min(p, q/0.6) over the others",
    ),
    Known("top-two", Problem(P4, TopK(Q4, 2)), 0.2 + 0.1, why="p of the two likeliest drafts"),
    Known(
        "two-points",
        Problem(P4, Independent(np.array([E1, np.eye(4)[3]]))),
        0.3 + 0.1,
        why="the drafts are always (1, 3)",
    ),
    Known(
        "both-tokens-always",
        Problem(np.array([0.3, 0.7, 0.0]), Table(np.array([[0, 1]]), np.ones(1), 3)),
        1.0,
        why="drafts without replacement that cover the support of p",
    ),
    Known(
        "correlated",
        Problem(np.array([0.5, 0.3, 0.2]), Table(np.array([[0, 1], [2, 2]]), np.array([0.5, 0.5]), 3)),
        0.7,
        why="H = {2}: the tuple (0, 1) is always accepted, (2, 2) serves p(2) = 0.2",
    ),
    Known(
        "every-token-but-one",
        Problem(np.array([0.0, 0.0, 1.0]), WithoutReplacement(np.array([0.5, 0.25, 0.25]), 2)),
        1 - 0.5 * 0.5 - 0.25 * 0.5 / 0.75,
        why="token 2 is missed by the drafts (0, 1) and (1, 0) only",
    ),
    Known(
        "all-tokens-drafted",
        Problem(np.array([0.1, 0.2, 0.7]), WithoutReplacement(np.array([0.9, 0.05, 0.05]), 3)),
        1.0,
        why="three of three tokens are drafted",
    ),
)


@dataclass(frozen=True)
class Instance:
    """One member of a family."""

    name: str
    problem: Problem


Rng = np.random.Generator


def _size(rng: Rng) -> tuple[int, int]:
    return int(rng.integers(2, 7)), int(rng.integers(1, 4))


def _dirichlet(concentration: float) -> Callable[[Rng], Problem]:
    def make(rng: Rng) -> Problem:
        vocab, n = _size(rng)
        p, q = rng.dirichlet(np.full(vocab, concentration), 2)
        return _iid(p, q, n)

    return make


def _zeros(rng: Rng) -> Problem:
    vocab, n = _size(rng)
    p, q = (rng.dirichlet(np.ones(vocab)) * _some(rng, vocab) for _ in range(2))
    return _iid(p / p.sum(), q / q.sum(), n)


def _some(rng: Rng, vocab: int) -> Floats:
    """0 or 1 for each token, at least one of them 1."""
    kept = (rng.random(vocab) < 0.5).astype(np.float64)
    kept[rng.integers(vocab)] = 1.0
    return kept


def _ties(rng: Rng) -> Problem:
    # Multiples of 1/16 with few different ratios p/q: sums are exact, and so are the ties between subsets.
    vocab, n = _size(rng)
    p, q = (np.bincount(rng.integers(vocab, size=16), minlength=vocab) / 16 for _ in range(2))
    return _iid(p, q, n)


def _same_law(rng: Rng) -> Problem:
    vocab, n = _size(rng)
    q = rng.dirichlet(np.full(vocab, 0.5))
    return _iid(q, q, n)


def _nearly_same_law(rng: Rng) -> Problem:
    # A few ulp apart: every token is over- or under-drafted by rounding only.
    vocab, n = _size(rng)
    q = rng.dirichlet(np.ones(vocab))
    p = q * (1 + rng.integers(-3, 4, vocab) * np.finfo(np.float64).eps)
    return _iid(p, q, n)


def _point_target(rng: Rng) -> Problem:
    vocab, n = _size(rng)
    return _iid(np.eye(vocab)[rng.integers(vocab)], rng.dirichlet(np.ones(vocab)), n)


def _point_draft(rng: Rng) -> Problem:
    vocab, n = _size(rng)
    return _iid(rng.dirichlet(np.ones(vocab)), np.eye(vocab)[rng.integers(vocab)], n)


def _disjoint(rng: Rng) -> Problem:
    vocab, n = _size(rng)
    cut = int(rng.integers(1, vocab))
    p = np.concatenate((rng.dirichlet(np.ones(cut)), np.zeros(vocab - cut)))
    q = np.concatenate((np.zeros(cut), rng.dirichlet(np.ones(vocab - cut))))
    return _iid(p, q, n)


def _tail(smallest: float) -> Callable[[Rng], Problem]:
    """Laws whose tokens are of ordinary size or down to `smallest`, in p and q independently."""

    def make(rng: Rng) -> Problem:
        vocab, n = _size(rng)
        laws = []
        for _ in range(2):
            law = smallest ** rng.random(vocab)
            law[rng.random(vocab) < 0.3] = smallest
            law[rng.integers(vocab)] = 1.0
            laws.append(law / law.sum())
        return _iid(laws[0], laws[1], n)

    return make


def _float32(rng: Rng) -> Problem:
    # What a model hands over: its total is off by some 1e-8, which `as_law` divides out.
    vocab, n = _size(rng)
    logits = rng.normal(scale=4, size=(2, vocab)).astype(np.float32)
    p, q = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return _iid(p, q, n)


def _one_token(rng: Rng) -> Problem:
    return _iid(np.ones(1), np.ones(1), int(rng.integers(1, 4)))


def _unreachable(rng: Rng) -> Problem:
    vocab, n = _size(rng)
    q = rng.dirichlet(np.ones(vocab))
    q[rng.permutation(vocab)[: vocab // 2]] = 0.0
    return _iid(rng.dirichlet(np.ones(vocab)), q / q.sum(), n)


def _table(concentration: float) -> Callable[[Rng], Problem]:
    """Any number of tuples, with any correlation between the drafts."""

    def make(rng: Rng) -> Problem:
        vocab, n = _size(rng)
        p = rng.dirichlet(np.full(vocab, concentration))
        tuples = all_tuples(IID(p, n))
        some = rng.permutation(len(tuples))[: rng.integers(1, min(len(tuples), 30) + 1)]
        return Problem(p, Table(tuples[some], rng.dirichlet(np.full(some.size, concentration)), vocab))

    return make


def _distinct_drafts(rng: Rng) -> Problem:
    # Without replacement: the drafts of a tuple differ, which no i.i.d. scheme can do.
    vocab = int(rng.integers(3, 7))
    p, q = rng.dirichlet(np.ones(vocab), 2)
    pairs = np.array([(a, b) for a in range(vocab) for b in range(vocab) if a != b])
    return Problem(p, Table(pairs, q[pairs[:, 0]] * q[pairs[:, 1]] / (1 - q[pairs[:, 0]]), vocab))


def _hostile_table(rng: Rng) -> Problem:
    # Exact ties, rows of probability 0, and tokens that stand only in such rows.
    vocab, n = _size(rng)
    p = np.bincount(rng.integers(vocab, size=8), minlength=vocab) / 8
    tuples = all_tuples(IID(p, n))
    some = rng.permutation(len(tuples))[:8]
    return Problem(p, Table(tuples[some], np.bincount(rng.integers(some.size, size=8), minlength=some.size) / 8, vocab))


def _tiny_table(rng: Rng) -> Problem:
    vocab, n = _size(rng)
    p = rng.dirichlet(np.ones(vocab))
    tuples = all_tuples(IID(p, n))
    some = rng.permutation(len(tuples))[:10]
    law = 10.0 ** rng.choice([-300, -12, -6, 0], some.size)
    return Problem(p, Table(tuples[some], law / law.sum(), vocab))


def _hostile_law(rng: Rng, vocab: int) -> Floats:
    """A law of a kind drawn at random: flat, peaked, with zeros, with ties, with tails down to 1e-300, in float32."""
    kind = rng.integers(7)
    if kind < 2:
        law = rng.dirichlet(np.full(vocab, (1.0, 0.1)[kind]))
    elif kind == 2:
        law = rng.dirichlet(np.ones(vocab)) * _some(rng, vocab)
    elif kind == 3:
        law = np.bincount(rng.integers(vocab, size=16), minlength=vocab) / 16
    elif kind == 4:
        law = np.exp(rng.normal(scale=4, size=vocab)).astype(np.float32)
    else:
        law = (1e-12, 1e-300)[kind - 5] ** rng.random(vocab)
        law[rng.integers(vocab)] = 1.0
    return law / law.sum()


def _independent(rng: Rng) -> Problem:
    vocab, n = _size(rng)
    qs = np.array([_hostile_law(rng, vocab) for _ in range(n)])
    return Problem(_hostile_law(rng, vocab), Independent(qs))


def _distinct(scheme: Callable[[Floats, int], DraftScheme]) -> Callable[[Rng], Problem]:
    """A scheme whose n drafts differ, so that q has to have n tokens."""

    def make(rng: Rng) -> Problem:
        vocab, n = _size(rng)
        q = _hostile_law(rng, vocab)
        return Problem(_hostile_law(rng, vocab), scheme(q, min(n, int(np.count_nonzero(q)))))

    return make


def _without_replacement(problem: Callable[[Rng], Problem]) -> Callable[[Rng], Problem]:
    """The laws of an i.i.d. family, drafted without replacement."""

    def make(rng: Rng) -> Problem:
        like = problem(rng)
        assert isinstance(like.scheme, IID)
        q, n = like.scheme.q, like.scheme.n
        return Problem(like.p, WithoutReplacement(q, min(n, int(np.count_nonzero(q)))))

    return make


def _hub_pairs(problem: Callable[[Rng], Problem]) -> Callable[[Rng], Problem]:
    """The laws of an i.i.d. family, drafted in pairs with a hub."""

    def make(rng: Rng) -> Problem:
        like = problem(rng)
        assert isinstance(like.scheme, IID)
        return Problem(like.p, HubPairs(like.scheme.q))

    return make


FAMILIES: dict[str, tuple[int, Callable[[Rng], Problem]]] = {
    "flat": (20, _dirichlet(5.0)),
    "uniform": (30, _dirichlet(1.0)),
    "peaked": (30, _dirichlet(0.1)),
    "zeros": (25, _zeros),
    "ties": (25, _ties),
    "same-law": (12, _same_law),
    "nearly-same-law": (12, _nearly_same_law),
    "point-target": (10, _point_target),
    "point-draft": (8, _point_draft),
    "disjoint": (10, _disjoint),
    "tail-1e-12": (20, _tail(1e-12)),
    "tail-1e-300": (20, _tail(1e-300)),
    "float32": (12, _float32),
    "one-token": (3, _one_token),
    "unreachable": (15, _unreachable),
    "table": (25, _table(1.0)),
    "peaked-table": (15, _table(0.1)),
    "distinct-drafts": (10, _distinct_drafts),
    "hostile-table": (15, _hostile_table),
    "tiny-table": (10, _tiny_table),
    "independent": (20, _independent),
    "greedy": (20, _distinct(Greedy)),
    "top-k": (12, _distinct(TopK)),
    "systematic": (25, _distinct(Systematic)),
    "distinct-uniform": (25, _without_replacement(_dirichlet(1.0))),
    "distinct-peaked": (25, _without_replacement(_dirichlet(0.1))),
    "distinct-zeros": (15, _without_replacement(_zeros)),
    "distinct-ties": (15, _without_replacement(_ties)),
    "distinct-nearly-same-law": (8, _without_replacement(_nearly_same_law)),
    "distinct-point-target": (8, _without_replacement(_point_target)),
    "distinct-tail-1e-12": (15, _without_replacement(_tail(1e-12))),
    "distinct-tail-1e-300": (15, _without_replacement(_tail(1e-300))),
    "distinct-unreachable": (10, _without_replacement(_unreachable)),
    "hub-pairs-uniform": (12, _hub_pairs(_dirichlet(1.0))),
    "hub-pairs-ties": (10, _hub_pairs(_ties)),
    "hub-pairs-zeros": (10, _hub_pairs(_zeros)),
    "hub-pairs-point-draft": (3, _hub_pairs(_point_draft)),
    "hub-pairs-tail-1e-300": (10, _hub_pairs(_tail(1e-300))),
}
"""How many of each family, and how one is made; the seed of a member is its family's place and its number."""

INSTANCES = tuple(
    Instance(f"{family}-{number}", make(np.random.default_rng((place, number))))
    for place, (family, (count, make)) in enumerate(FAMILIES.items())
    for number in range(count)
)

SMALL = tuple(Instance(known.name, known.problem) for known in KNOWN) + INSTANCES
"""Everything that can be enumerated: V <= 6, n <= 3."""


def sample_of_each(per_family: int) -> list[Instance]:
    """The first members of every family, for tests that need variety and not numbers."""
    return [i for i in INSTANCES if int(i.name.rpartition("-")[2]) < per_family]


VARIED = [Instance(known.name, known.problem) for known in KNOWN] + sample_of_each(8)
"""The known answers and some of every family: the usual diet of a property test."""


def peaked_problem(vocab: int, n: int, seed: int = 0) -> Problem:
    """Laws like those of language models: a few likely tokens, a long tail, and drafts from logits with errors."""
    rng = np.random.default_rng(seed)
    target = rng.permutation(-1.5 * np.log(np.arange(1, vocab + 1))) + rng.normal(scale=0.5, size=vocab)
    return Problem.from_logits(target, target + rng.normal(scale=1.5, size=vocab), n)
