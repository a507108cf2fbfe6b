"""Synthetic language models whose laws depend on the whole prefix, drawn on first use."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from otspec.data import Source
from otspec.errors import ProblemError
from otspec.laws import FloatArray, as_count
from otspec.logits import law_from_logits
from otspec.settings import Whole, check_value
from otspec.verification.trees.tree import Model, Prefix


@dataclass(frozen=True)
class Regime:
    """How sharp the target is, and how far the draft: both drawn afresh, uniformly from the list, at every prefix.

    Examples
    --------
    >>> import numpy as np
    >>> from otspec.verification import Regime, synthetic
    >>> model = synthetic(Regime(scale=(3.0,), noise=(0.0,)), vocab=50)  # a draft without noise is the target
    >>> bool(np.allclose(model.target((7,)), model.draft((7,))))
    True
    """

    scale: tuple[float, ...]
    """Standard deviations of the target's logits."""
    noise: tuple[float, ...]
    """Standard deviations of what the draft's logits add to them."""
    relative: bool = False
    """Whether the noise is in units of the scale."""


REGIMES = {
    "tiny": Regime((0.7, 1.5, 2.5), (0.4, 1.0, 2.0), relative=True),
    "mixed": Regime((1.0, 2.0, 3.0, 5.0), (0.5, 1.0)),
    "close": Regime((2.0, 3.0, 5.0), (0.2, 0.4)),
    "far": Regime((1.0, 2.0, 3.0), (1.0, 2.0)),
    "sharp": Regime((4.0, 8.0), (0.5, 1.0, 2.0)),
}


def synthetic(regime: str | Regime, vocab: int, seed: int = 0, cache_size: int = 1024) -> Model:
    """A pair of models with independent random laws at every prefix.

    Parameters
    ----------
    regime : str or Regime
        A name in `REGIMES`, or settings.
    vocab : int
        Number of tokens V.
    seed : int
        The laws are a function of it and the prefix.
    cache_size : int
        How many prefixes' laws to cache.

    Raises
    ------
    ProblemError
        If there is no such regime, or vocab, seed or cache_size is no integer, or too small.

    Examples
    --------
    >>> from otspec.verification import synthetic
    >>> model = synthetic("mixed", vocab=50)
    >>> model.target(()).shape, model.draft((7, 3)).shape  # laws of the next token, after any prefix
    ((50,), (50,))
    """
    if isinstance(regime, str):
        if regime not in REGIMES:
            raise ProblemError(f"no regime {regime!r}; known: {', '.join(REGIMES)}")
        regime = REGIMES[regime]
    if not isinstance(regime, Regime):
        raise ProblemError(f"the regime is {regime!r}; pass a Regime, or one of the names {', '.join(REGIMES)}")
    vocab = as_count("vocab", vocab)
    check_value("seed", seed, Whole)

    @lru_cache(as_count("cache_size", cache_size))
    def laws(prefix: Prefix) -> tuple[FloatArray, FloatArray]:
        rng = np.random.default_rng((seed, *prefix))
        scale = rng.choice(regime.scale)
        noise = rng.choice(regime.noise) * (scale if regime.relative else 1.0)
        logits = scale * rng.standard_normal(vocab)
        draft_logits = logits + noise * rng.standard_normal(vocab)
        return law_from_logits("target", logits), law_from_logits("draft", draft_logits)

    return Model(lambda prefix: laws(prefix)[0], lambda prefix: laws(prefix)[1])


def recorded_model(source: Source, seed: int = 0, top_k: int | None = None, cache_size: int = 1024) -> Model:
    """A pair of models with the laws of a source's positions: every prefix has one of them, drawn at random.

    Parameters
    ----------
    source : Source
        A calibrated profile, or a file of recorded positions: see `otspec.data.open_source`.
    seed : int
        Which position a prefix has is a function of it and the prefix.
    top_k : int, optional
        Truncation of the draft.
    cache_size : int
        How many prefixes' laws to cache.

    Raises
    ------
    ProblemError
        If `source` is no source, or seed, top_k or cache_size is no integer, or too small.

    Examples
    --------
    >>> from otspec.data import open_source
    >>> from otspec.verification import recorded_model
    >>> model = recorded_model(open_source("shipped"), top_k=50)  # recorded laws, in a tree of any size
    >>> int((model.draft((3, 1)) > 0).sum())
    50
    """
    if not all(hasattr(source, member) for member in ("position", "__len__")):
        raise ProblemError(f"the source is {source!r}; pass what otspec.data.open_source returns")
    check_value("seed", seed, Whole)
    top_k = None if top_k is None else as_count("top_k", top_k)

    @lru_cache(as_count("cache_size", cache_size))
    def laws(prefix: Prefix) -> tuple[FloatArray, FloatArray]:
        index = int(np.random.default_rng((seed, *prefix)).integers(len(source)))
        position = source.position(index)
        target = law_from_logits("target", position.target_logits)
        return target, law_from_logits("draft", position.draft_logits, top_k=top_k)

    return Model(lambda prefix: laws(prefix)[0], lambda prefix: laws(prefix)[1])
