"""Solvers of independent drafts against each other: `luce` beside the exact ones.

    python -m benchmarks.luce [--k 1000] [--n 4] [--drafts iid|temperatures|noise] [--solvers luce,interval]

"temperatures" gives the n drafts temperatures from 0.7 to 1.3, "noise" a draft model each: normal noise of 0.5 on the
logits.  A solver is timed from the problem on compact tokens to the plan with its certificate.
"""

from __future__ import annotations

import time

import numpy as np

from benchmarks.reporting import asking
from otspec import IID, DraftScheme, Independent, Problem, solve
from otspec.catalogue import get
from otspec.data import Position, open_source
from otspec.laws import FloatArray, law_from_logits
from otspec.reporting.console import console


def problem(position: Position, drafts: str, k: int | None, n: int, rng: np.random.Generator) -> Problem:
    """One position with n drafts, each truncated to its k likeliest tokens."""

    def law(logits: FloatArray, temperature: float = 1.0) -> FloatArray:
        return law_from_logits("draft_logits", logits, temperature, k, None)

    logits = position.draft_logits
    scheme: DraftScheme
    if drafts == "iid":
        scheme = IID(law(logits), n)
    elif drafts == "temperatures":
        scheme = Independent(np.stack([law(logits, temperature) for temperature in np.linspace(0.7, 1.3, n)]))
    else:
        scheme = Independent(np.stack([law(logits + 0.5 * rng.standard_normal(logits.size)) for _ in range(n)]))
    return Problem(law_from_logits("target_logits", position.target_logits, 1.0, None, None), scheme).compact().problem


def main() -> None:
    """Print a row per solver."""
    parser = asking(__doc__, "llama3", 20)
    parser.add_argument("--k", default="1000", help="draft tokens kept, or V")
    parser.add_argument("--n", type=int, default=4)
    parser.add_argument("--drafts", choices=("iid", "temperatures", "noise"), default="iid")
    parser.add_argument("--solvers", default="luce:tol=1e-4,luce:tol=1e-6,luce,interval")
    settings = parser.parse_args()
    source, rng = open_source(settings.data), np.random.default_rng(0)
    k = None if settings.k == "V" else int(settings.k)
    problems = [
        problem(source.position(index), settings.drafts, k, settings.n, rng) for index in range(settings.positions)
    ]
    for spelling in settings.solvers.split(","):
        solver = get(spelling)
        solve(problems[0], solver, strict=False)
        ms, gaps, iterations = [], [], []
        for one in problems:
            started = time.perf_counter()
            solution = solver(one)
            ms.append(1e3 * (time.perf_counter() - started))
            gaps.append(solution.plan.gap)
            iterations.append(solution.sizes.get("iterations", 0))
        console.print(
            f"{spelling:20s} ms median {np.median(ms):8.2f} mean {np.mean(ms):8.2f} max {np.max(ms):8.2f}  "
            f"gap median {np.median(gaps):8.1e} max {np.max(gaps):8.1e}  "
            f"solved to 1e-4 {np.mean(np.array(gaps) <= 1e-4):4.0%}, to 1e-6 {np.mean(np.array(gaps) <= 1e-6):4.0%}  "
            f"iterations {np.median(iterations):.0f}, at most {np.max(iterations)}",
            highlight=False,
            soft_wrap=True,
        )


if __name__ == "__main__":
    main()
