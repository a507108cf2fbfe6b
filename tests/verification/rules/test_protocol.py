"""What every verifier of paths answers."""

import numpy as np

from otspec.paths import Block, Match, Nested, PathVerifier, TokenWise, synthetic
from tests.each import each


@each(verifier=(Nested(), Block(), Match(), TokenWise("interval")), seed=range(5))
def test_log_probabilities_are_the_targets_along_what_is_put_out(verifier: PathVerifier, seed: int) -> None:
    model = synthetic("mixed", vocab=6, seed=seed)
    tree = model.tree(model.sample(1 if isinstance(verifier, Block) else 3, 3, rng=seed))
    verdict = verifier.verify(tree, np.random.default_rng(seed))
    text = (*tree.prefix(verdict.node), verdict.token)
    expected = [np.log(model.target(text[:place])[token]) for place, token in enumerate(text)]
    np.testing.assert_allclose(verdict.logprobs(tree), expected)
