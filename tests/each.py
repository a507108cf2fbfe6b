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
from typing import Any

import pytest

Test = Callable[..., None]


def each(**series: Iterable[Any]) -> Callable[[Test], Test]:
    """Run a test for every combination of some of its arguments; it fails once, with the names of all that fail.

    A mapping names its values by its keys; else a value goes by its own `name`, or by what it looks like.
    """
    named = {argument: _named(argument, values) for argument, values in series.items()}

    def decorate(test: Test) -> Test:
        signature = inspect.signature(test)
        if strange := named.keys() - signature.parameters.keys():
            raise TypeError(f"{test.__name__} does not take {', '.join(sorted(strange))}")

        @functools.wraps(test)
        def run(*args: Any, **fixtures: Any) -> None:
            __tracebackhide__ = True
            check_each(functools.partial(test, *args, **fixtures), **named)

        kept = [parameter for name, parameter in signature.parameters.items() if name not in named]
        run.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]  # what pytest reads
        return run

    return decorate


def check_each(check: Test, **series: Iterable[Any]) -> None:
    """The loop of `each` inside a test, for values that depend on the test's other arguments."""
    __tracebackhide__ = True
    runs = list(itertools.product(*(_named(argument, values).items() for argument, values in series.items())))
    failures: dict[str, BaseException] = {}
    for chosen in runs:
        try:
            check(**{argument: value for argument, (_, value) in zip(series, chosen, strict=True)})
        except (Exception, pytest.fail.Exception) as error:
            names = [name for name, _ in chosen]
            label = ", ".join(f"{argument}={name}" for argument, name in zip(series, names, strict=True))
            failures[names[0] if len(names) == 1 else label] = error
    if failures:
        lines = [f"{len(failures)} of {len(runs)} fail: {'; '.join(failures)}"]
        for label, failure in failures.items():
            message = str(failure).strip().partition("\n")[0]
            lines.append(f"{label}: {type(failure).__name__}" + (f": {message}" if message else ""))
        raise AssertionError("\n".join(lines)) from next(iter(failures.values()))


def _named(argument: str, values: Iterable[Any]) -> Mapping[str, Any]:
    """The values by name; those of one name are told apart by their number."""
    named: dict[str, Any] = {}
    for key, value in values.items() if isinstance(values, Mapping) else ((None, one) for one in values):
        name = str(getattr(value, "name", getattr(value, "__name__", value)) if key is None else key)
        named[name if name not in named else f"{name} ({len(named)})"] = value
    if not named:
        raise ValueError(f"nothing to check: {argument} has no values")
    return named
