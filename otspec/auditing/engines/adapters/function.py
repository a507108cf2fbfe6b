"""A function that completes prompts, as an engine: the way to audit what no adapter reaches."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from otspec.auditing.engines.engine import Acceptance, Engine, Sampling, Text, as_text
from otspec.errors import ProblemError

ARGUMENTS = ("prompt", "count", "length", "sampling", "seed", "drafts")


class Completes(Protocol):
    """A function that completes a prompt; its arguments are those of `otspec.auditing.engines.Engine.texts`.

    A completion is a `Text`, its token ids, or, where the engine tells no tokens, a string.  Further arguments are
    settings, which `Function` hands to it.
    """

    def __call__(
        self, prompt: str, count: int, length: int, sampling: Sampling, seed: int, /, *, drafts: bool
    ) -> Sequence[Any]:
        """So many independent completions of the prompt."""


class Function:
    """A function as an engine; its first line of documentation is told as the method.

    Parameters
    ----------
    complete : callable
        ``complete(prompt, count, length, sampling, seed, drafts=...)`` returns `count` independent completions of the
        prompt, of `length` tokens at most, with drafts or without.  Each is a `Text`, a sequence of token ids without
        the prompt's, or a string where there are no ids.  Another seed gives other texts, and `sampling.greedy` asks
        for the likeliest tokens.
    settings : mapping, optional
        Keywords that it is called with besides.

    Raises
    ------
    ProblemError
        If it is no function, has not these arguments or no such setting, or needs one that is not given.

    Examples
    --------
    >>> import numpy as np
    >>> from otspec.auditing.engines import Sampling
    >>> from otspec.auditing.engines.adapters.function import Function
    >>> def uniform(prompt, count, length, sampling, seed, drafts, vocab=5):
    ...     "Uniform tokens."
    ...     return np.random.default_rng((seed, drafts)).integers(vocab, size=(count, length))
    >>> engine = Function(uniform, {"vocab": 2})
    >>> print(engine.name, engine.method, len(engine.texts("", 3, 4, Sampling(), 0, drafts=True)))
    uniform Uniform tokens, vocab 2 3
    """

    version = ""

    def __init__(self, complete: Completes | Callable[..., Any], settings: Mapping[str, Any] | None = None) -> None:
        if not callable(complete):
            raise ProblemError(f"{complete!r} is no engine; pass a function, or an object with the names of Engine")
        self.name = str(getattr(complete, "__name__", type(complete).__name__))
        self._complete: Callable[..., Any] = complete
        self._settings = dict(settings or {})
        _check(self.name, inspect.signature(complete), self._settings)
        documentation = (inspect.getdoc(complete) or "a function").splitlines()[0].rstrip(".")
        self.method = ", ".join((documentation, *(f"{name} {value}" for name, value in self._settings.items())))

    def texts(self, prompt: str, count: int, length: int, sampling: Sampling, seed: int, *, drafts: bool) -> list[Text]:
        """What the function returns, as texts."""
        found = self._complete(prompt, count, length, sampling, seed, drafts=drafts, **self._settings)
        return [as_text(one) for one in found]

    def acceptance(self) -> Acceptance | None:
        """None: a function does not count its drafts."""
        return None

    def close(self) -> None:
        """Do nothing: what the function holds is its own."""


def as_engine(engine: Any) -> Engine:
    """An engine as it is, and a function as one.

    Raises
    ------
    ProblemError
        If it is neither.
    """
    if inspect.isclass(engine):
        raise ProblemError(f"{engine.__name__} is a class; pass what it makes")
    return engine if isinstance(engine, Engine) else Function(engine)


def _check(name: str, signature: inspect.Signature, settings: Mapping[str, Any]) -> None:
    """Refuse a function that cannot be called with what it is asked and these settings."""
    wanted = f"{name} takes ({', '.join(signature.parameters)}); an engine's function takes {', '.join(ARGUMENTS)}"
    taken = signature.parameters.values()
    others = [
        one.name
        for one in taken
        if one.name not in ARGUMENTS and one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
    ]
    if not any(one.kind is one.VAR_KEYWORD for one in taken):
        for setting in settings:
            if setting not in others:
                raise ProblemError(f"{name} has no setting {setting!r}; it has {', '.join(others) or 'none'}")
    lacking = [one for one in others if signature.parameters[one].default is inspect.Parameter.empty]
    if missing := [one for one in lacking if one not in settings]:
        raise ProblemError(f"{wanted}; {', '.join(missing)} is a setting without a value")
    try:
        signature.bind("", 1, 1, Sampling(), 0, drafts=True, **settings)
    except TypeError as error:
        raise ProblemError(wanted) from error
