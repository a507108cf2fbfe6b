"""Which layout suits systematic drafts: mean optimal acceptance on the same positions, beside other draft laws.

    python -m benchmarks.layouts [--positions 300] [--top-k 1000] [--data llama3,gemma2] [--n 2,4]

Layouts are shown as differences to the random one, which `otspec.Systematic` uses, with the standard error of the mean
difference.  `--top-k 0` keeps the whole vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.measuring import laws_of
from benchmarks.reporting import asking, show
from otspec import IID, Greedy, Problem, Systematic, TopK, optimum
from otspec.data import Source, open_source
from otspec.laws import FloatArray, IntArray
from otspec.reporting.means import standard_error
from otspec.reporting.tables import TextTable
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
LAWS: dict[str, Callable[[FloatArray, int], DraftScheme]] = {
    "i.i.d.": IID,
    "greedy": Greedy,
    "top-n": TopK,
    "systematic": Systematic,
}


def main() -> None:
    """Print one table."""
    parser = asking(__doc__, "llama3,gemma2", 300)
    parser.add_argument("--top-k", type=int, default=1000)
    parser.add_argument("--n", default="2,4")
    asked = parser.parse_args()
    columns = [(open_source(data), int(n)) for data in asked.data.split(",") for n in asked.n.split(",")]
    cells = [measure(source, n, asked.positions, asked.top_k) for source, n in columns]
    rows = [(name, *(cell[name] for cell in cells)) for name in cells[0]]
    kept = f"top-{asked.top_k}" if asked.top_k else "whole vocabulary"
    header = ("", *(f"{source.name}, n = {n}" for source, n in columns))
    show(TextTable(f"{asked.positions} positions, {kept}", header, rows, "", labels=1))


def measure(source: Source, n: int, positions: int, top_k: int) -> dict[str, str]:
    """Mean acceptance of each law, and mean difference of each layout, as text."""
    acceptance: dict[str, list[float]] = {name: [] for name in (*LAWS, *LAYOUTS)}
    for index in range(positions):
        p, q = laws_of(source.position(index), top_k)
        schemes = {name: law(q, n) for name, law in LAWS.items()}
        schemes |= {name: lay_out(q, n, layout(q)) for name, layout in LAYOUTS.items()}
        for name, scheme in schemes.items():
            acceptance[name].append(optimum(Problem(p, scheme)).acceptance)
    base = np.array(acceptance["systematic"])
    shown = {}
    for name, values in acceptance.items():
        difference = np.array(values) - base
        error = standard_error(difference)
        shown[name] = f"{difference.mean():+.4f} ({error:.4f})" if name in LAYOUTS else f"{np.mean(values):.4f}"
    return shown


if __name__ == "__main__":
    main()
