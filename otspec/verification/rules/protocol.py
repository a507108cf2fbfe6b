"""The methods of every verifier of several drafted paths."""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from otspec.laws import FloatArray, IntArray
from otspec.verification.trees.shape import Shape
from otspec.verification.trees.tree import Tree


class PathVerification(NamedTuple):
    """What comes out of the verification of one tree: ``tree.prefix(node)``, then `token`.

    Examples
    --------
    >>> from otspec.verification import Nested, synthetic
    >>> model = synthetic("mixed", vocab=50)
    >>> tree = model.tree(model.sample(4, 3, rng=0))
    >>> verdict = Nested().verify(tree, rng=1)
    >>> text = (*tree.prefix(verdict.node), verdict.token)
    >>> len(text) == verdict.accepted + 1
    True
    """

    node: int
    """The last accepted node."""
    accepted: int
    """How many drafted tokens are accepted, 0 to L."""
    token: int
    """The token after them; the target model goes on from there."""

    def logprobs(self, tree: Tree) -> FloatArray:
        """The target's log-probabilities of what is put out, shape (accepted + 1,): one for each token.

        Each is under the target's law after the tokens before it, whichever rule put it out, and from whatever law.

        Parameters
        ----------
        tree : Tree
            That was verified.

        Examples
        --------
        >>> from otspec.verification import Nested, Tree
        >>> tree = Tree.of([[0, 1], [0, 2]], lambda prefix: [0.5, 0.25, 0.25], lambda prefix: [0.4, 0.3, 0.3])
        >>> verdict = Nested().verify(tree, rng=1)
        >>> len(verdict.logprobs(tree)) == verdict.accepted + 1
        True
        """
        nodes = tree.line(self.node)
        found: FloatArray = np.log(tree.target[[0, *nodes], [*tree.token[nodes].tolist(), self.token]])
        return found


@runtime_checkable
class PathVerifier(Protocol):
    """A rule that accepts a prefix of one of the drafted paths and adds a token.

    A lossless one puts out text with the target's law: what it puts out, continued by the target model, has the law of
    target text.  Its worth is the mean number of accepted tokens.
    """

    @property
    def exchangeable(self) -> bool:
        """Whether the order of the paths does not matter."""

    def verify(self, tree: Tree, rng: np.random.Generator) -> PathVerification:
        """Accept a prefix and draw the token after it.

        Decoding hands over a generator.  The verifiers of this package also take an integer, as the seed of one.
        """

    def stop_law(self, tree: Tree) -> FloatArray:
        """Exact law of the verdict given the tree, shape (N, V): P(the prefix is node v, the token after it is x)."""


@runtime_checkable
class PickRule(Protocol):
    """A rule that picks a path by a law that is known along it: its accepted length needs no drafted tree."""

    def along(self, target: FloatArray, draft: FloatArray, tokens: IntArray, shape: Shape) -> FloatArray:
        """Proposal laws, shape (l, V), of the first l <= L tokens of a picked path: as `LabelVerifier.along`."""
