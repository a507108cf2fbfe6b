"""Which layout suits systematic drafts: mean optimal acceptance on the same positions, beside other draft laws.

    python -m benchmarks.layouts [--positions 300] [--top-k 1000] [--data llama3,gemma2] [--n 2,4]

Layouts are shown as differences to the random one, which `otspec.Systematic` uses, with the standard error of the mean
difference.  `--top-k 0` keeps the whole vocabulary.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table

from otspec import Greedy, Problem, Systematic, TopK, optimum
from otspec.data import open_source
from otspec.laws import FloatArray, IntArray
from otspec.schemes import DraftScheme
from otspec.schemes.systematic import lay_out


def falling(q: FloatArray) -> IntArray:
    """By decreasing q."""
    return np.argsort(-q, kind="stable")


def alternating(q: FloatArray) -> IntArray:
    """Likeliest, unlikeliest, second likeliest and so on."""
    order = falling(q)
    mixed = np.empty_like(order)
    mixed[0::2], mixed[1::2] = np.split(order, [(order.size + 1) // 2])
    mixed[1::2] = mixed[1::2][::-1]
    return mixed


def golden(q: FloatArray) -> IntArray:
    """Ranks spread evenly: rank i at the place of the fractional part of i times the golden ratio."""
    return falling(q)[np.argsort(np.arange(q.size) * (5**0.5 - 1) / 2 % 1)]


LAYOUTS: dict[str, Callable[[FloatArray], IntArray]] = {
    "by token id": lambda q: np.arange(q.size),
    "by decreasing q": falling,
    "alternating": alternating,
    "golden ratio": golden,
    "random, another seed": lambda q: np.random.default_rng(1).permutation(q.size),
}
LAWS: dict[str, Callable[[FloatArray, int], DraftScheme]] = {"greedy": Greedy, "top-n": TopK, "systematic": Systematic}


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--positions", type=int, default=300)
    parser.add_argument("--top-k", type=int, default=1000)
    parser.add_argument("--data", default="llama3,gemma2")
    parser.add_argument("--n", default="2,4")
    arguments = parser.parse_args()
    columns = [(data, int(n)) for data in arguments.data.split(",") for n in arguments.n.split(",")]
    kept = f"top-{arguments.top_k}" if arguments.top_k else "whole vocabulary"
    table = Table(title=f"{arguments.positions} positions, {kept}")
    for name in ("", *(f"{data}, n = {n}" for data, n in columns)):
        table.add_column(name, justify="right")
    cells = [measure(data, n, arguments.positions, arguments.top_k or None) for data, n in columns]
    for row in cells[0]:
        table.add_row(row, *(cell[row] for cell in cells))
    Console(width=140).print(table)


def measure(data: str, n: int, positions: int, top_k: int | None) -> dict[str, str]:
    """Mean acceptance of each law, and mean difference of each layout, as text."""
    source = open_source(data, 0)
    acceptance: dict[str, list[float]] = {name: [] for name in ("i.i.d.", *LAWS, *LAYOUTS)}
    for index in range(positions):
        problem = source.position(index).problem(n, top_k=top_k).compact().problem
        q = problem.scheme.q  # type: ignore[attr-defined]  # an IID
        acceptance["i.i.d."].append(optimum(problem).acceptance)
        for name, law in LAWS.items():
            acceptance[name].append(optimum(Problem(problem.p, law(q, n))).acceptance)
        for name, layout in LAYOUTS.items():
            acceptance[name].append(optimum(Problem(problem.p, lay_out(q, n, layout(q)))).acceptance)
    base = np.array(acceptance["systematic"])
    shown = {}
    for name, values in acceptance.items():
        difference = np.array(values) - base
        error = difference.std(ddof=1) / np.sqrt(positions)
        shown[name] = f"{difference.mean():+.4f} ({error:.4f})" if name in LAYOUTS else f"{np.mean(values):.4f}"
    return shown


if __name__ == "__main__":
    main()
