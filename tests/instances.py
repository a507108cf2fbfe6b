"""Problems to try: a table of known answers, and families of random and hostile problems, all small and all seeded."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from otspec import IID, DraftScheme, Greedy, HubPairs, Independent, Problem, Table, TopK, WithoutReplacement
from tests import laws
from tests.laws import Kind, Pair, Rng
from tests.oracles import Floats, all_tuples

P4 = np.array([0.4, 0.3, 0.2, 0.1])
Q4 = np.array([0.1, 0.2, 0.3, 0.4])
SCHEMES: dict[str, DraftScheme] = {
    "iid": IID(Q4, 2),
    "distinct": WithoutReplacement(Q4, 2),
    "independent": Independent([Q4, P4]),
    "greedy": Greedy(Q4, 2),
    "top": TopK(Q4, 2),
    "hubs": HubPairs(Q4),
    "table": Table([[0, 1], [2, 2]], [0.5, 0.5], 4),
}
"""Two drafts of each scheme of the package."""
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
    Known("disjoint", _iid(LEFT, RIGHT, 3), 0.0, why="no draft can ever be put out"),
    Known(
        "two-tokens",
        _iid(np.array([0.9, 0.1]), np.array([0.5, 0.5]), 2),
        1 - 0.5**2 + 0.1,
        why="H = {1}: token 0 is needed with 0.9 and drawn with 0.75 only; the tuple (1, 1) serves p(1) = 0.1",
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
)


@dataclass(frozen=True)
class Instance:
    """One member of a family."""

    name: str
    problem: Problem


def _size(rng: Rng) -> tuple[int, int]:
    return int(rng.integers(2, 7)), int(rng.integers(1, 4))


def _drafted(kind: Kind) -> Callable[[Rng], Problem]:
    """i.i.d. drafts."""

    def make(rng: Rng) -> Problem:
        vocab, n = _size(rng)
        return _iid(*kind(rng, vocab), n)

    return make


def _one_token(rng: Rng) -> Problem:
    return _iid(np.ones(1), np.ones(1), int(rng.integers(1, 4)))


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
    return laws.hostile(rng, vocab)[1]


def _independent(rng: Rng) -> Problem:
    vocab, n = _size(rng)
    qs = np.array([_hostile_law(rng, vocab) for _ in range(n)])
    return Problem(_hostile_law(rng, vocab), Independent(qs))


def _distinct(scheme: Callable[[Floats, int], DraftScheme], kind: Kind) -> Callable[[Rng], Problem]:
    """A scheme whose n drafts differ, so that q has to have n tokens."""

    def make(rng: Rng) -> Problem:
        vocab, n = _size(rng)
        p, q = kind(rng, vocab)
        return Problem(p, scheme(q, min(n, int(np.count_nonzero(q)))))

    return make


def _hostile_pair(rng: Rng, vocab: int) -> Pair:
    return _hostile_law(rng, vocab), _hostile_law(rng, vocab)


def _hub_pairs(kind: Kind) -> Callable[[Rng], Problem]:
    """Pairs with a hub."""

    def make(rng: Rng) -> Problem:
        p, q = kind(rng, _size(rng)[0])
        return Problem(p, HubPairs(q))

    return make


ZEROS, TIES = laws.zeros(laws.uniform, 0.5), laws.grid(16)
UNIFORM, PEAKED = laws.uniform, laws.dirichlet(0.1)
NEARLY_SAME = laws.close(UNIFORM, 3e-16)
POINT_TARGET, POINT_DRAFT = laws.point_target(UNIFORM), laws.point_draft(UNIFORM)

FAMILIES: dict[str, tuple[int, Callable[[Rng], Problem]]] = {
    "flat": (20, _drafted(laws.dirichlet(5.0))),
    "uniform": (30, _drafted(UNIFORM)),
    "peaked": (30, _drafted(PEAKED)),
    "zeros": (25, _drafted(ZEROS)),
    "ties": (25, _drafted(TIES)),
    "same-law": (12, _drafted(laws.same(laws.dirichlet(0.5)))),
    "nearly-same-law": (12, _drafted(NEARLY_SAME)),
    "point-target": (10, _drafted(POINT_TARGET)),
    "point-draft": (8, _drafted(POINT_DRAFT)),
    "disjoint": (10, _drafted(laws.disjoint(UNIFORM))),
    "tail-1e-12": (20, _drafted(laws.tail(1e-12))),
    "tail-1e-300": (20, _drafted(laws.tail(1e-300))),
    "float32": (12, _drafted(laws.float32(laws.model))),
    "one-token": (3, _one_token),
    "unreachable": (15, _drafted(laws.unreachable)),
    "table": (25, _table(1.0)),
    "peaked-table": (15, _table(0.1)),
    "distinct-drafts": (10, _distinct_drafts),
    "hostile-table": (15, _hostile_table),
    "tiny-table": (10, _tiny_table),
    "independent": (20, _independent),
    "greedy": (20, _distinct(Greedy, _hostile_pair)),
    "top-k": (12, _distinct(TopK, _hostile_pair)),
    "distinct-uniform": (25, _distinct(WithoutReplacement, UNIFORM)),
    "distinct-peaked": (25, _distinct(WithoutReplacement, PEAKED)),
    "distinct-zeros": (15, _distinct(WithoutReplacement, ZEROS)),
    "distinct-ties": (15, _distinct(WithoutReplacement, TIES)),
    "distinct-nearly-same-law": (8, _distinct(WithoutReplacement, NEARLY_SAME)),
    "distinct-point-target": (8, _distinct(WithoutReplacement, POINT_TARGET)),
    "distinct-tail-1e-12": (15, _distinct(WithoutReplacement, laws.tail(1e-12))),
    "distinct-tail-1e-300": (15, _distinct(WithoutReplacement, laws.tail(1e-300))),
    "distinct-unreachable": (10, _distinct(WithoutReplacement, laws.unreachable)),
    "hub-pairs-uniform": (12, _hub_pairs(UNIFORM)),
    "hub-pairs-ties": (10, _hub_pairs(TIES)),
    "hub-pairs-zeros": (10, _hub_pairs(ZEROS)),
    "hub-pairs-point-draft": (3, _hub_pairs(POINT_DRAFT)),
    "hub-pairs-tail-1e-300": (10, _hub_pairs(laws.tail(1e-300))),
}
"""How many of each family, and how one is made; the seed of a member is its family's place and its number."""

INSTANCES = tuple(
    Instance(f"{family}-{number}", make(np.random.default_rng((place, number))))
    for place, (family, (count, make)) in enumerate(FAMILIES.items())
    for number in range(count)
)

BY_FAMILY = {
    "known": tuple(Instance(known.name, known.problem) for known in KNOWN),
    **{family: tuple(i for i in INSTANCES if i.name.rpartition("-")[0] == family) for family in FAMILIES},
}
SMALL = BY_FAMILY["known"] + INSTANCES
"""Everything that can be enumerated: V <= 6, n <= 3."""

BY_PREFIXES = [i for i in SMALL if i.problem.scheme.prefix_order(i.problem.p) is not None]
"""Those where prefixes of one order of the tokens decide."""


def sample_of_each(per_family: int) -> list[Instance]:
    """The first members of every family, for tests that need variety and not numbers."""
    return [i for i in INSTANCES if int(i.name.rpartition("-")[2]) < per_family]


VARIED = [*BY_FAMILY["known"], *sample_of_each(8)]
"""The known answers and some of every family: the usual diet of a property test."""

PAIRS: dict[str, Pair] = {
    instance.name: (instance.problem.p, instance.problem.scheme.q)
    for instance in VARIED
    if isinstance(instance.problem.scheme, IID)
}
"""Target and draft laws of those with i.i.d. drafts, by name."""


def peaked_problem(vocab: int, n: int, seed: int = 0) -> Problem:
    """Laws like those of language models: a few likely tokens, a long tail, and drafts from logits with errors."""
    return _iid(*laws.long_tail(np.random.default_rng(seed), vocab), n)
