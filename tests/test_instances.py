"""What the tests try things on is what it says: a generator that went soft would leave every test green."""

from collections.abc import Callable

import numpy as np

from otspec.tolerances import MASS_TOL
from tests import laws
from tests.each import each
from tests.instances import BY_FAMILY, FAMILIES, SMALL
from tests.laws import Kind
from tests.oracles import Floats

Property = Callable[[Floats, Floats], bool]

KINDS: dict[str, tuple[Kind, Property]] = {
    "dirichlet": (laws.dirichlet(0.05, 30.0), lambda p, q: bool((p != q).all())),
    "model": (laws.model, lambda p, q: bool((p > 0).all() and (q > 0).all() and (p != q).all())),
    "long_tail": (laws.long_tail, lambda p, q: bool(p.max() > 10 * np.median(p))),
    "same": (laws.same(laws.model), lambda p, q: bool((p == q).all())),
    "close": (laws.close(laws.model, 3e-16), lambda p, q: bool(0 < np.abs(p / q - 1).max() < 1e-14)),
    "grid": (laws.grid(16), lambda p, q: bool((16 * p % 1 == 0).all() and p.sum() == q.sum() == 1)),
    "tied_ratios": (laws.tied_ratios, lambda p, q: np.unique((p / q).round(12)).size <= 3),
    "zeros": (laws.zeros(laws.model, 0.5), lambda p, q: bool((p == 0).any() and (q == 0).any())),
    "unreachable": (laws.unreachable, lambda p, q: bool((p > 0).all() and np.count_nonzero(q) == (q.size + 1) // 2)),
    "disjoint": (laws.disjoint(laws.model), lambda p, q: bool((p * q == 0).all())),
    "point_target": (laws.point_target(laws.model), lambda p, q: np.count_nonzero(p) == 1 == p.max()),
    "point_draft": (laws.point_draft(laws.model), lambda p, q: np.count_nonzero(q) == 1 == q.max()),
    "tail": (laws.tail(1e-300), lambda p, q: bool(0 < p.min() < 1e-200 and 0 < q.min() < 1e-200)),
    "smallest_floats": (laws.smallest_floats(laws.model), lambda p, q: bool(p.min() < 1e-249 and q.min() < 1e-249)),
    "one_likely": (laws.one_likely(laws.model), lambda p, q: bool(p.max() > 0.9)),
    "lumpy": (laws.lumpy, lambda p, q: bool(q.max() > 20 * q.min())),
    "float32": (
        laws.float32(laws.model),
        lambda p, q: bool((p == p.astype(np.float32)).all() and 1e-8 < abs(p.sum() - 1) < MASS_TOL),
    ),
}


@each(kind=KINDS)
def test_kinds_are_what_they_say(kind: tuple[Kind, Property]) -> None:
    make, says = kind
    found = [make(np.random.default_rng(seed), 40) for seed in range(50)]
    assert sum(says(p, q) for p, q in found) >= 45


@each(kind=KINDS, vocab=(1, 2, 3, 7))
def test_kinds_are_laws_over_any_vocabulary(kind: tuple[Kind, Property], vocab: int) -> None:
    for seed in range(20):
        for law in kind[0](np.random.default_rng(seed), vocab):
            assert law.size == vocab or (law.size == 2 and vocab == 1)  # disjoint laws need two tokens
            assert law.min() >= 0
            assert abs(law.sum() - 1) < MASS_TOL


def test_hostile_laws_are_of_every_kind() -> None:
    drawn = [laws.hostile(np.random.default_rng(seed), 6)[1] for seed in range(200)]
    assert sum((law == 0).any() for law in drawn) >= 20
    assert sum(0 < law[law > 0].min() < 1e-100 for law in drawn) >= 15
    assert sum(law.max() > 0.9 for law in drawn) >= 15
    assert sum(law.min() > 0.01 for law in drawn) >= 10


def test_every_instance_belongs_to_a_family() -> None:
    assert sum(map(len, BY_FAMILY.values())) == len(SMALL)
    assert {name: len(BY_FAMILY[name]) for name in FAMILIES} == {name: count for name, (count, _) in FAMILIES.items()}
