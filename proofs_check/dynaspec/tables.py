"""Section 5: what the text says of Tables 1 and 2."""

from __future__ import annotations

from otspec.proofs_check.claim import Mutation, Verdict
from otspec.proofs_check.printed import above, average, listed, shifted
from otspec.proofs_check.search import Instance

KEY = "zhang2025dynaspec"

TASKS = ("MT", "Conv.", "RAG", "Math", "QA", "Summ.", "Code")
FR = "3.38 3.87 3.85 4.16 3.32 3.51 4.11"
OURS = "3.51 4.05 3.91 4.21 3.40 3.51 4.71"
SIZES = "27,817 27,020 27,546 27,436 27,208 27,107 27,277"
FR_PA = "3.50 3.94 3.86 4.18 3.38 3.58 4.21"

AVERAGES: list[Instance] = [
    {"row": row, "cells": cells.split(), "mean": mean}
    for row, cells, mean in (
        ("Table 1, full vocabulary", "3.66 4.11 4.03 4.31 3.45 3.68 4.77", "4.00"),
        ("Table 1, FR-Spec", FR, "3.74"),
        ("Table 1, DynaSpec", OURS, "3.90"),
        ("Table 1, DynaSpec, vocabulary", SIZES, "27,344"),
        ("Table 2, FR-Spec-PA", FR_PA, "3.81"),
    )
]


def _versus(more: str, less: str) -> list[Instance]:
    return [{"task": task, "more": a, "less": b} for task, a, b in zip(TASKS, more.split(), less.split(), strict=True)]


CLAIMS = (
    listed(
        "dynaspec-averages",
        "The averages of Tables 1 and 2 are the means of their rows.",
        f"{KEY}, Tables 1 and 2",
        AVERAGES,
        average,
        mutations=(
            Mutation("Two units in the last place more.", lambda mean, **row: average(mean=shifted(mean, 2), **row)),
        ),
    ),
    listed(
        "dynaspec-table-1-longer",
        "DynaSpec has a higher mean acceptance length than FR-Spec across the seven datasets.",
        f"{KEY}, section 5.2 and Table 1",
        _versus(OURS, FR),
        above,
        expected=Verdict.FAILS,
        counterexample={"task": "Summ.", "more": "3.51", "less": "3.51"},
        remedy="At least as high on all seven, as printed, and higher on six.",
    ),
    listed(
        "dynaspec-table-1-smaller",
        "DynaSpec needs a smaller mean shortlist than FR-Spec across the seven datasets.",
        f"{KEY}, section 5.2 and Table 1",
        _versus(" ".join(["32,768"] * 7), SIZES),
        above,
        remark="Table 1 gives FR-Spec 32k; Table 2 gives the number.",
        mutations=(Mutation("By at least 5,000 tokens.", lambda **row: above(**row) - 5000),),
    ),
    listed(
        "dynaspec-table-2-longer",
        "FR-Spec with position-aware budgets accepts more than with a fixed one, on all seven datasets.",
        f"{KEY}, section 5.3 and Table 2",
        _versus(FR_PA, FR),
        above,
        mutations=(Mutation("By at least 0.02.", lambda **row: above(**row) - 0.015),),
    ),
)
