"""Block verification of paths of tensors, where paths end before others do."""

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from otspec.verification.rules.block.tensors import verify_path  # noqa: E402

PATHS, LONGEST, VOCAB = 400, 4, 5


def test_nothing_beyond_the_end_of_a_path_is_accepted_or_counts() -> None:
    """Tokens beyond the end are tokens too, and likely ones: only the length says that they are none."""
    rng = np.random.default_rng(0)
    p, g = (torch.from_numpy(rng.dirichlet(np.ones(VOCAB), (LONGEST + 1, PATHS))) for _ in range(2))
    tokens = torch.from_numpy(rng.integers(VOCAB, size=(PATHS, LONGEST)))
    length = torch.from_numpy(rng.integers(LONGEST + 1, size=PATHS))
    uniforms = torch.from_numpy(rng.random((PATHS, LONGEST + 1)))
    rows = torch.arange(PATHS)

    def verified(tokens: Any) -> Any:
        return verify_path(lambda at: (p[at, rows], g[at, rows]), tokens, length, uniforms)

    accepted, token = verified(tokens)
    assert (accepted <= length).all()
    assert (accepted == length).any()
    beyond = torch.arange(LONGEST) >= length[:, None]
    again = verified(tokens.masked_fill(beyond, -1))
    assert torch.equal(accepted, again[0])
    assert torch.equal(token, again[1])
