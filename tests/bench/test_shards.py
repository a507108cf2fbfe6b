"""Parts of a run: disjoint, complete and balanced, whatever the numbers."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from otspec import ProblemError
from otspec.bench import Benchmark, Cell, grid
from otspec.bench.shards import WHOLE, Shard
from tests.bench.fakes import SmallSource
from tests.each import each

SOLVERS = ["max_flow", "interval", "slackness", "kseq", "rrs"]
"""The last stands for a slow one in the tests."""


def parts(count: int, positions: int, solvers: int, settings: int) -> list[Benchmark]:
    """Every shard of a run."""
    cells = grid(range(1, settings + 1), [2], SOLVERS[-solvers:])
    return [
        Benchmark(cells, {"": SmallSource()}, positions, shard=Shard(number, count)) for number in range(1, count + 1)
    ]


def units(benchmark: Benchmark) -> list[tuple[Cell, int]]:
    return [(cell, at) for cell, share in benchmark.shares.items() for at in share]


@each(count=range(1, 10), positions=(1, 3, 12), solvers=(1, 2, 4, 5), settings=(1, 3, 8))
def test_shards_are_disjoint_and_complete_and_of_one_size(
    count: int, positions: int, solvers: int, settings: int
) -> None:
    shards = parts(count, positions, solvers, settings)
    (whole,) = parts(1, positions, solvers, settings)
    together = [unit for shard in shards for unit in units(shard)]
    assert len(together) == len(set(together))
    assert set(together) == set(units(whole))
    sizes = [shard.count for shard in shards]
    assert sizes == [len(units(shard)) for shard in shards]
    assert max(sizes) - min(sizes) <= 1
    for k in range(1, settings + 1):  # cells of one size are spread
        of_size = [sum(cell.k == k for cell, _ in units(shard)) for shard in shards]
        assert max(of_size) - min(of_size) <= 1
    for cell in whole.cells:  # as are the positions of one cell, and with them its budget
        of_cell = [len(shard.shares.get(cell, ())) for shard in shards]
        assert max(of_cell) - min(of_cell) <= 1
        granted = sum(shard.granted_s(cell) for shard in shards if cell in shard.shares)
        assert granted == pytest.approx(whole.granted_s(cell)) == pytest.approx(whole.budget_s)


@each(count=range(2, 7), solvers=(1, 2, 3, 4, 5))
def test_no_shard_gets_the_slowest_solver_of_every_setting(count: int, solvers: int) -> None:
    settings = 2 * count * solvers
    slow = [sum(cell.solver == "rrs" for cell, _ in units(shard)) for shard in parts(count, 1, solvers, settings)]
    assert sum(slow) == settings
    assert max(slow) <= 1.5 * settings / count


def test_the_whole_is_one_shard_of_one() -> None:
    assert Shard.of("1/1") == WHOLE
    assert all(WHOLE.takes(unit, group) for unit, group in itertools.product(range(30), (1, 4, 7)))


def test_a_unit_is_of_one_shard() -> None:
    for unit, group, count in itertools.product(range(60), (1, 4, 6), (2, 4, 7)):
        takers = Counter(Shard(number, count).takes(unit, group) for number in range(1, count + 1))
        assert takers[True] == 1


def test_shards_are_written_as_numbers() -> None:
    assert Shard.of("3/8") == Shard(3, 8)
    assert str(Shard(3, 8)) == "3/8"
    for text in ("", "3", "0/8", "9/8", "-1/8", "1/0", "a/b", "1/8/2", "1.0/8", "1/" + "9" * 30, "²/3"):
        with pytest.raises(ProblemError, match="write 1/8 for the first of eight parts"):
            Shard.of(text)
