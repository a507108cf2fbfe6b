"""Problems to try: families of random and hostile ones, all small and all seeded."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from otspec import IID, DraftScheme, Greedy, HubPairs, Independent, Problem, Table, TopK, WithoutReplacement
from otspec.data import open_source
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


def _iid(p: Floats, q: Floats, n: int) -> Problem:
    return Problem(p, IID(q, n))


@dataclass(frozen=True)
class Instance:
    """One member of a family."""

    name: str
    problem: Problem


def _size(rng: Rng) -> tuple[int, int]:
    return int(rng.integers(2, 7)), int(rng.integers(1, 4))


def _of(scheme: Callable[[Floats, int], DraftScheme], kind: Kind) -> Callable[[Rng], Problem]:
    """Drafts of a scheme; of those that differ no more than there can be."""

    def make(rng: Rng) -> Problem:
        vocab, n = _size(rng)
        p, q = kind(rng, vocab)
        return Problem(p, scheme(q, n if scheme is IID else min(n, int(np.count_nonzero(q)))))

    return make


def _hub_pairs(q: Floats, n: int) -> DraftScheme:
    return HubPairs(q)


def _table(kind: Kind) -> Callable[[Rng], Problem]:
    """Up to 30 tuples, with any correlation between the drafts."""

    def make(rng: Rng) -> Problem:
        vocab, n = _size(rng)
        p = kind(rng, vocab)[0]
        tuples = all_tuples(IID(p, n))
        some = rng.permutation(len(tuples))[: rng.integers(1, min(len(tuples), 30) + 1)]
        return Problem(p, Table(tuples[some], kind(rng, some.size)[1], vocab))

    return make


def _hostile_law(rng: Rng, vocab: int) -> Floats:
    return laws.hostile(rng, vocab)[1]


def _hostile_pair(rng: Rng, vocab: int) -> Pair:
    return _hostile_law(rng, vocab), _hostile_law(rng, vocab)


def _independent(rng: Rng) -> Problem:
    vocab, n = _size(rng)
    qs = np.array([_hostile_law(rng, vocab) for _ in range(n)])
    return Problem(_hostile_law(rng, vocab), Independent(qs))


ZEROS, TIES = laws.zeros(laws.uniform, 0.5), laws.grid(16)
UNIFORM, PEAKED = laws.uniform, laws.dirichlet(0.1)
NEARLY_SAME = laws.close(UNIFORM, 3e-16)
POINT_TARGET, POINT_DRAFT = laws.point_target(UNIFORM), laws.point_draft(UNIFORM)

FAMILIES: dict[str, tuple[int, Callable[[Rng], Problem]]] = {
    "flat": (20, _of(IID, laws.dirichlet(5.0))),
    "uniform": (30, _of(IID, UNIFORM)),
    "peaked": (30, _of(IID, PEAKED)),
    "zeros": (25, _of(IID, ZEROS)),
    "ties": (25, _of(IID, TIES)),
    "same-law": (12, _of(IID, laws.same(laws.dirichlet(0.5)))),
    "nearly-same-law": (12, _of(IID, NEARLY_SAME)),
    "point-target": (10, _of(IID, POINT_TARGET)),
    "point-draft": (8, _of(IID, POINT_DRAFT)),
    "disjoint": (10, _of(IID, laws.disjoint(UNIFORM))),
    "tail-1e-12": (20, _of(IID, laws.tail(1e-12))),
    "tail-1e-300": (20, _of(IID, laws.tail(1e-300))),
    "float32": (12, _of(IID, laws.float32(laws.model))),
    "one-token": (3, lambda rng: _iid(np.ones(1), np.ones(1), int(rng.integers(1, 4)))),
    "unreachable": (15, _of(IID, laws.unreachable)),
    "table": (25, _table(UNIFORM)),
    "peaked-table": (15, _table(PEAKED)),
    "hostile-table": (15, _table(laws.grid(8))),
    "tiny-table": (10, _table(laws.tail(1e-300))),
    "independent": (20, _independent),
    "greedy": (20, _of(Greedy, _hostile_pair)),
    "top-k": (12, _of(TopK, _hostile_pair)),
    "distinct-uniform": (25, _of(WithoutReplacement, UNIFORM)),
    "distinct-peaked": (25, _of(WithoutReplacement, PEAKED)),
    "distinct-zeros": (15, _of(WithoutReplacement, ZEROS)),
    "distinct-ties": (15, _of(WithoutReplacement, TIES)),
    "distinct-nearly-same-law": (8, _of(WithoutReplacement, NEARLY_SAME)),
    "distinct-point-target": (8, _of(WithoutReplacement, POINT_TARGET)),
    "distinct-tail-1e-12": (15, _of(WithoutReplacement, laws.tail(1e-12))),
    "distinct-tail-1e-300": (15, _of(WithoutReplacement, laws.tail(1e-300))),
    "distinct-unreachable": (10, _of(WithoutReplacement, laws.unreachable)),
    "hub-pairs-uniform": (12, _of(_hub_pairs, UNIFORM)),
    "hub-pairs-ties": (10, _of(_hub_pairs, TIES)),
    "hub-pairs-zeros": (10, _of(_hub_pairs, ZEROS)),
    "hub-pairs-point-draft": (3, _of(_hub_pairs, POINT_DRAFT)),
    "hub-pairs-tail-1e-300": (10, _of(_hub_pairs, laws.tail(1e-300))),
}
"""How many of each family, and how one is made; the seed of a member is its family's place and its number."""

SMALL = tuple(
    Instance(f"{family}-{number}", make(np.random.default_rng((place, number))))
    for place, (family, (count, make)) in enumerate(FAMILIES.items())
    for number in range(count)
)
"""Everything that can be enumerated: V <= 6, n <= 3."""

BY_FAMILY = {family: tuple(i for i in SMALL if i.name.rpartition("-")[0] == family) for family in FAMILIES}

BY_PREFIXES = [i for i in SMALL if i.problem.scheme.prefix_order(i.problem.p) is not None]
"""Those where prefixes of one order of the tokens decide."""


def sample_of_each(per_family: int) -> list[Instance]:
    """The first members of every family, for tests that need variety and not numbers."""
    return [i for i in SMALL if int(i.name.rpartition("-")[2]) < per_family]


VARIED = sample_of_each(8)
"""The usual diet of a property test."""

PAIRS: dict[str, Pair] = {
    instance.name: (instance.problem.p, instance.problem.scheme.q)
    for instance in VARIED
    if isinstance(instance.problem.scheme, IID)
}
"""Target and draft laws of those with i.i.d. drafts, by name."""


def peaked_problem(vocab: int, n: int, seed: int = 0) -> Problem:
    """Laws like those of language models: a few likely tokens, a long tail, and drafts from logits with errors."""
    return _iid(*laws.long_tail(np.random.default_rng(seed), vocab), n)


def starved_problem() -> Problem:
    """A position where release probabilities alone lose 3e-3: a likely token leaves too little to those after it."""
    position = open_source("llama3").position(24).problem(1, top_k=1000)
    return Problem(position.p, WithoutReplacement(position.scheme.priority_law(np.arange(position.vocab)), 2))
