"""A test over many instances is one test: it loops inside, goes on after a failure, and names every one that fails.

    @each(instance=VARIED, tau=(1e-2, 1e-3))
    def test_something(engine: str, instance: Instance, tau: float) -> None: ...

runs for each instance and each tau; `engine` is an ordinary fixture, made once for all of them.  Parameters of
`pytest.mark.parametrize` are for what a reader of the report wants to tell apart, such as solvers and engines.
Pytest's own `subtests` would name the instances as well, at a millisecond for each that passes, three under
pytest-xdist.
"""

import functools
import inspect
import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import pytest

SHOWN = 20
"""Failures of one test that are told with their messages; more of them would say the same."""

Test = Callable[..., None]


class Failure(NamedTuple):
    """One instance, and what was wrong with it."""

    name: str
    error: BaseException

    def __str__(self) -> str:
        message = str(self.error).strip().partition("\n")[0]
        return f"{self.name}: {type(self.error).__name__}" + (f": {message}" if message else "")


def each(**series: Iterable[Any]) -> Callable[[Test], Test]:
    """Run a test for every combination of some of its arguments; it fails once, with the names of all that fail.

    Parameters
    ----------
    **series : iterable
        The values of each argument.  A mapping names its values by its keys; else a value goes by its own `name`, or by
        what it looks like.

    Raises
    ------
    ValueError
        If there is nothing to run the test for: it would pass.
    TypeError
        If the test does not take one of the arguments.
    """
    series = {argument: values if isinstance(values, Mapping) else list(values) for argument, values in series.items()}
    _runs(series)

    def decorate(test: Test) -> Test:
        signature = inspect.signature(test)
        if strange := series.keys() - signature.parameters.keys():
            raise TypeError(f"{test.__name__} does not take {', '.join(sorted(strange))}")

        @functools.wraps(test)
        def run(*args: Any, **fixtures: Any) -> None:
            __tracebackhide__ = True
            check_each(functools.partial(test, *args, **fixtures), **series)

        kept = [parameter for name, parameter in signature.parameters.items() if name not in series]
        run.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]  # what pytest reads
        return run

    return decorate


def check_each(check: Test, **series: Iterable[Any]) -> None:
    """The loop of `each` inside a test, for values that depend on the test's other arguments.

    Raises
    ------
    AssertionError
        If the check fails anywhere, caused by the first failure.
    ValueError
        If there is nothing to check.
    """
    __tracebackhide__ = True
    runs = _runs(series)
    failures = []
    for chosen in runs:
        try:
            check(**{argument: value for argument, _, value in chosen})
        except (Exception, pytest.fail.Exception) as error:
            failures.append(Failure(_label(chosen), error))
    if failures:
        raise AssertionError(_summary(failures, len(runs))) from failures[0].error


Run = tuple[tuple[str, str, Any], ...]
"""For each argument its name, the value's name, and the value."""


def _runs(series: Mapping[str, Iterable[Any]]) -> list[Run]:
    named = [[(argument, name, value) for name, value in _named(values)] for argument, values in series.items()]
    runs = list(itertools.product(*named))
    if not runs:
        raise ValueError(f"nothing to check: {', '.join(series)} has no values")
    return runs


def _named(values: Iterable[Any]) -> list[tuple[str, Any]]:
    if isinstance(values, Mapping):
        return [(str(name), value) for name, value in values.items()]
    return [(str(getattr(value, "name", getattr(value, "__name__", value))), value) for value in values]


def _label(chosen: Run) -> str:
    """The name of one instance, or of each argument that led to it."""
    if len(chosen) == 1:
        return chosen[0][1]
    return ", ".join(f"{argument}={name}" for argument, name, _ in chosen)


def _summary(failures: list[Failure], runs: int) -> str:
    """How many, which, and why; the first of them is shown with its traceback."""
    names = "; ".join(failure.name for failure in failures)
    lines = [f"{len(failures)} of {runs} fail: {names}", *map(str, failures[:SHOWN])]
    if len(failures) > SHOWN:
        lines.append(f"... and {len(failures) - SHOWN} more")
    return "\n".join(lines)
