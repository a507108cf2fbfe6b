"""Every exact solver in every spelling worth a test, and how one that is not installed is skipped."""

from collections.abc import Iterable
from typing import Any

import pytest

from otspec import available
from otspec.catalogue import SolverInfo, get
from otspec.extras import missing
from otspec.solvers.max_flow.engines import ENGINES


def exact_spellings() -> list[str]:
    """Names, variants and printed forms of the exact solvers, a flow engine each; installed or not."""
    own = (spelling for info in available() if info.exact for spelling in _spellings(info))
    return sorted({"lp:form=tuples", "max_flow:form=tuples", *own})


def _spellings(info: SolverInfo) -> list[str]:
    if info.settings.get("engine") in ENGINES:
        return [f"{info.name}:engine={engine}" for engine in ENGINES]
    return [info.name, *info.variants]


def every_spelling() -> list[str]:
    """Every solver and its variants that are installed, and the rules on drafts that they are not made for."""
    biased = [f"{info.name}:allow_biased=true" for info in available() if "allow_biased" in info.settings]
    own = [spelling for info in available() for spelling in (info.name, *info.variants)]
    return [spelling for spelling in (*own, *biased) if installed(spelling)]


def not_installed(packages: Iterable[str]) -> str:
    """Why to skip what needs these packages; empty if all of them are installed."""
    lacking = missing(tuple(packages))
    return f"not installed: {', '.join(lacking)}" if lacking else ""


def installed(spelling: str) -> bool:
    """Whether the packages that a solver needs are."""
    return not not_installed(get(spelling).packages)


def skipped(spelling: str, *others: Any) -> Any:
    """The one parameter set that stands for a solver that is not installed, skipped with its reason."""
    reason = not_installed(get(spelling).packages)
    return pytest.param(spelling, *others, marks=pytest.mark.skip(reason=reason), id=spelling)


def installed_or_skipped(spellings: Iterable[str]) -> list[Any]:
    """For `pytest.mark.parametrize`: the solvers, those that are not installed skipped."""
    return [spelling if installed(spelling) else skipped(spelling) for spelling in spellings]
