"""The mean accepted length of a pick rule without a drafted tree: along texts of the target, L refinements each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from otspec.errors import ProblemError
from otspec.laws import FloatArray, IntArray, Seed, as_count, as_float, as_generator, as_law, draw
from otspec.reporting.means import standard_error
from otspec.verification.rules.protocol import PickRule
from otspec.verification.trees.shape import Shape
from otspec.verification.trees.tree import Model, Prefix, as_shape, check_model

Models = Callable[[int], Model]
"""A law of models: from a seed to a model.  ``functools.partial(synthetic, "mixed", 1000)`` is one."""

SEEDS = 2**62
"""Seeds of models are below this."""


@dataclass(frozen=True)
class Estimate:
    """A mean over independent samples.

    Examples
    --------
    >>> from otspec.verification import Nested, accepted_length, synthetic
    >>> found = accepted_length(Nested(), synthetic("mixed", vocab=50), (2, 1), samples=20)
    >>> low, high = found.interval(0.9)
    >>> low < found.value < high
    True
    """

    value: float
    error: float
    """Its standard error."""

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Two-sided interval by the normal law, which the mean of many samples has.

        Raises
        ------
        ProblemError
            If the confidence is not between 0 and 1.
        """
        if not 0 < as_float(confidence) < 1:
            raise ProblemError(f"confidence is {confidence!r}; pass a number between 0 and 1, such as 0.95")
        wide = float(ndtri(0.5 + 0.5 * confidence)) * self.error
        return self.value - wide, self.value + wide


class Line(NamedTuple):
    """A text of the target with both models' laws along it."""

    target: FloatArray
    """Shape (L, V): the law of each token."""
    draft: FloatArray
    """Shape (L, V): the draft model's law in its place."""
    tokens: IntArray
    """Shape (L,)."""


def accepted_length(
    rule: PickRule, model: Model | Models, branching: Sequence[int], samples: int = 1000, rng: Seed = 0
) -> Estimate:
    """Estimate the mean accepted length of a rule that picks a path by a known law g, and block-verifies it.

    It is the sum over prefixes v of A(v) = p(v) min over u of g(u)/p(u), u being v or a prefix of it, which is a mean
    over texts v of the target: no tree is drafted, and all rules may walk along the same texts.  The sum over the last
    token is taken exactly (`docs/paths.md`).

    Parameters
    ----------
    rule : PickRule
        `Nested`, `GreedyMultiPath` or `Block`.
    model : Model, or callable
        One model; or a law of models, seed to model, over which the mean is taken: every sample has its own.
    branching : sequence of int
        How many children each drafted token of a level has: (K, 1, ..., 1) for K paths.
    samples : int
        Texts, >= 2.
    rng : Generator or int
        A seed gives the same texts at every call, for all rules.

    Raises
    ------
    ProblemError
        If the rule has no law along a path, or the other arguments are not as above.

    Examples
    --------
    >>> from otspec.verification import GreedyMultiPath, Nested, accepted_length, synthetic
    >>> model = synthetic("mixed", vocab=50)
    >>> for rule in GreedyMultiPath(), Nested():
    ...     print(f"{accepted_length(rule, model, (4, 1, 1), samples=50).value:.1f}")
    2.1
    2.5
    """
    if not isinstance(rule, PickRule):
        raise ProblemError(
            f"the rule is {rule!r}; pass one that has a law of the path it picks: Nested, GreedyMultiPath "
            "or Block. otspec.verification.tree_law and stop_law have the others'"
        )
    shape, rng = as_shape(branching), as_generator(rng)
    models = (lambda seed: model) if isinstance(model, Model) else law_of_models(model)
    values = [
        length_along(rule, target_line(models(seed), shape.depth, rng), shape) for seed in model_seeds(samples, rng)
    ]
    return mean_of(np.array(values))


def target_line(model: Model, length: int, rng: np.random.Generator) -> Line:
    """Draw a text of `length` tokens from the target."""
    prefix: Prefix = ()
    targets, drafts = [], []
    for _ in range(length):
        p, q = laws_after(model, prefix)
        targets.append(p)
        drafts.append(q)
        prefix = (*prefix, int(draw(p, rng)))
    return Line(np.array(targets), np.array(drafts), np.array(prefix))


def laws_after(model: Model, prefix: Prefix) -> tuple[FloatArray, FloatArray]:
    """Both laws after a prefix, checked."""
    p, q = as_law(f"target{prefix}", model.target(prefix)), as_law(f"draft{prefix}", model.draft(prefix))
    if p.size != q.size:
        raise ProblemError(f"laws have {sorted({p.size, q.size})} tokens; all need one vocabulary")
    return p, q


def length_along(rule: PickRule, line: Line, shape: Shape) -> float:
    """Mean accepted length given a text, of which the mean over texts of the target is that over all drafts.

    It is the sum of P(at least 1, ..., L drafted tokens are accepted).  Given a text v and all before its last token,
    sum A(v)/p(v) over the last token exactly; and so for all its prefixes.  With w the weight of block verification and
    r = g(v)/p(v), that is r times the sum of min(w p, g).
    """
    target, draft, tokens = _drafted(line)
    proposal = rule.along(target, draft, tokens, shape)
    found = np.zeros(line.tokens.size)
    weight, log_ratio = 1.0, 0.0  # weight: the least of the ratios so far, 1 for the root's
    for i, (p, g) in enumerate(zip(target, proposal, strict=True)):
        ratio = np.exp(min(log_ratio, 700.0))  # beyond, the sum is that of weight p where g > 0
        found[i] = np.minimum(weight * p, ratio * g).sum()
        if i < tokens.size - 1:
            chance = g[tokens[i]]
            if not chance > 0.0:
                break
            log_ratio += float(np.log(chance) - np.log(p[tokens[i]]))
            weight = min(weight, float(np.exp(min(log_ratio, 0.0))))
    return float(found.sum())


def _drafted(line: Line) -> Line:
    """The text down to the first token that cannot be drafted; its last token, which decides nothing, is one that can.

    No prefix with a token of draft probability 0 is accepted.
    """
    drafted = np.take_along_axis(line.draft, line.tokens[:, None], axis=1)[:, 0] > 0.0
    reach = line.tokens.size if drafted.all() else int(drafted.argmin()) + 1
    tokens = line.tokens[:reach].copy()
    tokens[-1] = line.draft[reach - 1].argmax()
    return Line(line.target[:reach], line.draft[:reach], tokens)


def law_of_models(models: Any) -> Models:
    """A function of a seed whose models are checked on use."""
    if not callable(models):
        check_model(models)

    def checked(seed: int) -> Model:
        model = models(seed)
        check_model(model)
        return model

    return checked


def model_seeds(samples: int, rng: np.random.Generator) -> list[int]:
    """A seed of a model of its own for each sample.

    Raises
    ------
    ProblemError
        If `samples` is not an integer >= 2.
    """
    if as_count("samples", samples) < 2:
        raise ProblemError("samples is 1; pass an integer >= 2, of one sample there is no standard error")
    return [int(seed) for seed in rng.integers(SEEDS, size=samples)]


def mean_of(values: FloatArray) -> Estimate:
    """Mean of independent values, and its standard error."""
    return Estimate(float(values.mean()), standard_error(values))
