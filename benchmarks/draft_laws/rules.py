"""How close the published rules come to the optimum, and what the wrong draft law does to them.

The first two tables are exact, over small random problems: every tuple of drafts is counted.  The third compares the
rules on calibrated positions over the whole vocabulary.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain

import numpy as np

from benchmarks.draft_laws.grid import DISTINCT, IID_DRAFTS, SCHEMES
from benchmarks.measuring import laws_of
from benchmarks.questions import Data as Profiles
from benchmarks.questions import Out, Positions, Question, answer, over
from benchmarks.reporting import Record
from benchmarks.tables import figures, label
from otspec import IID, Problem, optimum, solve
from otspec.certificate import upper_bound
from otspec.data import Source
from otspec.laws import FloatArray
from otspec.plans import Match, Sequential
from otspec.reporting.columns import Column, table
from otspec.reporting.means import grouped
from otspec.reporting.tables import TextTable
from otspec.solvers import RRS, RSD

SMALL = 1000
NS = (2, 4, 8)
PUBLISHED = {
    "single, i.i.d.": ("single", IID_DRAFTS),
    "naive, i.i.d.": ("naive", IID_DRAFTS),
    "naive, without replacement": ("naive", DISTINCT),
    "naive, top n": ("naive", "top-n"),
    "rrs, i.i.d.": ("rrs", IID_DRAFTS),
    "kseq, i.i.d.": ("kseq", IID_DRAFTS),
    "kseq:gamma=n, i.i.d.": ("kseq:gamma={n}", IID_DRAFTS),
    "rsd, without replacement": ("rsd", DISTINCT),
    "spechub, hub pairs (n = 2)": ("spechub", "hub pairs"),
}
"""Rules on the drafts that they are for: how a rule is spelt, with n in it, and its draft law."""
MISUSED: dict[str, tuple[RRS | RSD, str]] = {
    "rsd on i.i.d. drafts": (RSD(allow_biased=True), IID_DRAFTS),
    "rrs on drafts without replacement": (RRS(allow_biased=True), DISTINCT),
    "rrs on the top n, tested with q": (RRS(allow_biased=True), "top-n"),
    "rsd on the top n, tested with q": (RSD(allow_biased=True), "top-n"),
}
LARGE = ("single, i.i.d.", "naive, i.i.d.", "rrs, i.i.d.", "kseq, i.i.d.", "rsd, without replacement")
OWN, WRONG, WHOLE = "own drafts", "wrong drafts", "whole vocabulary"


def rules(data: Profiles = "llama3", positions: Positions = 10, out: Out = None) -> None:
    """The published rules beside the optimum, on their own drafts and on wrong ones."""
    at_scale = over(data, positions, whole_vocabulary)
    answer(RULES, chain(own_drafts(SMALL), wrong_drafts(SMALL), at_scale), out)


def random_laws(count: int) -> Iterator[tuple[FloatArray, FloatArray, int]]:
    """p and q, shape (V,), and n < V: softmax laws over 3 to 5 tokens, q from p's logits with errors, n = 2 or 3."""
    rng = np.random.default_rng(0)
    for _ in range(count):
        vocab = int(rng.integers(3, 6))
        n = int(rng.integers(2, min(4, vocab)))
        logits = rng.choice([0.7, 1.5, 2.5]) * rng.normal(size=vocab)
        errors = rng.choice([0.4, 1.0, 2.0]) * rng.normal(size=vocab)
        p, q = (np.exp(z - z.max()) for z in (logits, logits + errors))
        yield p / p.sum(), q / q.sum(), n


def own_drafts(count: int) -> Iterator[Record]:
    """Every rule on small problems with the drafts that it is for."""
    for number, (p, q, n) in enumerate(random_laws(count)):
        for name, (spelling, law) in PUBLISHED.items():
            problem = Problem(p, SCHEMES[law](q, n))
            plan = solve(problem, spelling.format(n=n)).plan
            assert isinstance(plan, Match | Sequential)
            yield {
                "part": OWN,
                "rule": name,
                "problem": number,
                "acceptance": plan.acceptance,
                "membership": plan.membership,
                "of_iid": plan.acceptance / optimum(Problem(p, IID(q, problem.n))).acceptance,
                "of_own": plan.acceptance / optimum(problem).acceptance,
            }


def wrong_drafts(count: int) -> Iterator[Record]:
    """Rules on small problems with drafts of another law than theirs."""
    for number, (p, q, n) in enumerate(random_laws(count)):
        for name, (rule, law) in MISUSED.items():
            plan = rule.biased_plan(Problem(p, SCHEMES[law](q, n)), q)
            yield {
                "part": WRONG,
                "rule": name,
                "problem": number,
                "tv": plan.deviation / 2,
                "acceptance": plan.acceptance,
                "best": plan.bound,
                "above": bool(plan.acceptance > plan.bound + 1e-9),
            }


def whole_vocabulary(source: Source, positions: int) -> Iterator[Record]:
    """The rules, and the time of `solve`, where nothing is truncated."""
    about = {"part": WHOLE, "data": source.name, "vocab": source.vocab}
    for n in NS:
        for index in range(positions):
            p, q = laws_of(source.position(index), compact=False)
            best = upper_bound(Problem(p, IID(q, n)))
            for name in LARGE + (("spechub, hub pairs (n = 2)",) if n == 2 else ()):
                spelling, law = PUBLISHED[name]
                problem = Problem(p, SCHEMES[law](q, n))
                if index == 0:
                    solve(problem, spelling)  # compiles
                started = time.perf_counter()
                plan = solve(problem, spelling).plan
                wall_s = time.perf_counter() - started
                assert plan is not None
                yield {
                    **about,
                    "n": n,
                    "rule": name,
                    "problem": index,
                    "acceptance": plan.acceptance,
                    "of_iid": plan.acceptance / best,
                    "of_own": plan.acceptance / plan.bound,
                    "ms": wall_s * 1e3,
                }


Group = Sequence[Record]


def _mean(name: str, field: str) -> Column[Group]:
    return figures(name, field, np.mean, ".3f")


def _with_extreme(name: str, field: str, extreme: Callable[[FloatArray], float]) -> Column[Group]:
    """The mean, and in brackets the least or the largest."""
    both = [figures(name, field, of, ".3f") for of in (np.mean, extreme)]
    return Column(name, lambda group: f"{both[0].show(group)} ({both[1].show(group)})")


OF_OWN: Sequence[Column[Group]] = (
    label("rule, drafts", "rule"),
    _mean("acceptance", "acceptance"),
    _mean("membership", "membership"),
    _with_extreme("/ alpha* of i.i.d.", "of_iid", np.min),
    _with_extreme("/ alpha* of its drafts", "of_own", np.min),
)
OF_WRONG: Sequence[Column[Group]] = (
    label("rule and drafts", "rule"),
    _with_extreme("total variation, mean (max)", "tv", np.max),
    _mean("acceptance", "acceptance"),
    _mean("alpha*", "best"),
    figures("above alpha*", "above", np.mean, ".0%"),
)
OF_WHOLE: Sequence[Column[Group]] = (
    label("n", "n"),
    label("rule, drafts", "rule"),
    _mean("acceptance", "acceptance"),
    _mean("/ alpha* of i.i.d.", "of_iid"),
    _mean("/ alpha* of its drafts", "of_own"),
    figures("ms", "ms", np.median, ".0f"),
)


def tables(records: Sequence[Record]) -> list[TextTable]:
    """The rules on their own drafts, on wrong ones, and over whole vocabularies."""
    parts = grouped(records, lambda record: (record["part"], record.get("data")))
    return [_table(part, data, mine) for (part, data), mine in parts.items()]


def _table(part: str, data: str | None, records: Sequence[Record]) -> TextTable:
    count = len({one["problem"] for one in records})
    groups = grouped(records, lambda record: (record.get("n"), record["rule"])).values()
    if part == OWN:
        return table(
            f"On their own drafts: {count} small problems, exact; alpha* ratios as mean (least)", OF_OWN, groups
        )
    if part == WRONG:
        return table(f"On the wrong drafts: {count} small problems, exact", OF_WRONG, groups)
    vocab = records[0]["vocab"]
    title = f"{data}, V = {vocab}: mean over {count} positions, median ms of `otspec.solve`"
    return table(title, OF_WHOLE, groups)


RULES = Question("rules", [rules], ("part", "data", "n", "rule", "problem"), tables)
