"""An upper bound on what any lossless verifier accepts, from drafted trees alone: `docs/theory/paths.md` has the proof.

P(v is drafted) is d(v) = 1 - (1 - q(v))**K, and no lossless verifier accepts v, or what goes on from it, with a larger
probability than a(v) = min(a(u) p(v | u), d(v)), u being the prefix of v without its last token, a(empty) = 1.  What is
accepted after u is at most the least of d(u H) + a(u) p(not H | u) over token sets H, since a path has to go through H
for a token in it to be accepted.  Weighted by 1 / d(u), this is a mean over drafted trees: no other laws are needed
than those at drafted nodes, and nothing is asked of the models.
"""

from __future__ import annotations

import numpy as np

from otspec.errors import ProblemError
from otspec.laws import FloatArray, falling_ratio
from otspec.verification.trees.tree import Tree, check_tree


def drafted_bound(tree: Tree) -> float:
    """What a drafted tree adds to an upper bound on the mean number of accepted tokens.

    The mean of this number over drafted trees bounds the mean accepted length of every lossless verifier, of the
    models that drafted them: exactly if all trees are enumerated, up to sampling where they are recorded.  Of a single
    tree it bounds nothing.

    Parameters
    ----------
    tree : Tree
        Of K independent paths from one draft model.

    Raises
    ------
    ProblemError
        If it is none, or its paths share draws, or are drafted by laws of their own.

    Examples
    --------
    >>> import numpy as np
    >>> from otspec.paths import drafted_bound, synthetic
    >>> rng, model = np.random.default_rng(0), synthetic("mixed", vocab=50)
    >>> trees = [model.tree(model.sample(4, 3, rng)) for _ in range(50)]
    >>> print(f"no lossless rule accepts more than {np.mean([drafted_bound(tree) for tree in trees]):.1f} of 3")
    no lossless rule accepts more than 2.8 of 3
    """
    check_tree(tree)
    if not tree.shape.independent_paths or tree.draft.ndim != 2:
        raise ProblemError(
            f"branching is {tree.shape.branching} and draft laws have shape {tree.draft.shape}; the bound is for "
            "independent paths of one draft model"
        )
    reached, likely = np.ones(tree.size), np.ones(tree.size)  # a and q of each prefix
    total = 0.0
    for node in range(tree.inner):
        if node:
            above, token = tree.parent[node], tree.token[node]
            likely[node] = likely[above] * tree.draft[above, token]
            most = float(_met(likely[node], tree.count))
            reached[node] = min(reached[above] * tree.target[above, token], most)
        best = accepted_after(tree.target[node], tree.draft[node], reached[node], likely[node], tree.count)
        drafted = float(_met(likely[node], tree.count))
        total += best / drafted if drafted > 0 else 1.0  # below the range of floats; the ratio is at most 1
    return total


def accepted_after(target: FloatArray, draft: FloatArray, reached: float, likely: float, count: int) -> float:
    """The least of P(a path goes on into H) + reached * p(not H) over token sets H, after a prefix.

    The first term is a concave function of q(H), the second is linear in p(H), so an extreme set is a least one: the
    tokens where p/q is largest, how many of them is tried.

    Parameters
    ----------
    target, draft : ndarray, shape (V,)
        Laws after the prefix.
    reached : float
        The most that it can be accepted with.
    likely : float
        Its probability under the draft model.
    count : int
        K.
    """
    order = falling_ratio(target, draft)
    inside = np.append(0.0, np.cumsum(draft[order]))
    outside = np.append(np.cumsum(target[order][::-1])[::-1], 0.0)
    return float((_met(likely * inside, count) + reached * outside).min())


def _met(likely: FloatArray | float, count: int) -> FloatArray:
    """P(one of so many independent paths goes through a set of this probability)."""
    with np.errstate(divide="ignore"):  # of a certain set, whose logarithm is -inf
        return np.asarray(-np.expm1(count * np.log1p(-np.minimum(likely, 1.0))))
