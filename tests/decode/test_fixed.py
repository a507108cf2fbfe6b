"""Fixed drafts: the text has the target's law by enumeration of all that may be drawn, and by counting texts."""

import numpy as np
import pytest

from otspec.decode.base.drafts import Drafts
from otspec.decode.drafters.prompt_lookup import continuations

pytestmark = pytest.mark.usefixtures("no_gradients")


def test_the_latest_different_continuations() -> None:
    text = [1, 2, 3, 9, 1, 2, 4, 9, 5, 2, 7, 9, 1, 2]
    assert continuations(text, 2, 2, 9) == [[4, 9], [3, 9], [7, 9]]  # of two tokens, the latest first; then of one
    assert continuations(text, 2, 2, 2) == [[4, 9], [3, 9]]
    assert continuations(text, 1, 1, 9) == [[7], [4], [3]]
    assert continuations([5, 5, 5, 5], 2, 3, 9) == [[5], [5, 5], [5, 5, 5]]
    assert continuations([1, 8, 1, 8, 8, 1, 8], 1, 2, 9) == [[1, 8], [8, 1]]  # the same twice is one
    assert continuations([1, 2, 3], 3, 4, 9) == []


def test_paths_that_begin_alike_share_nodes() -> None:
    drafts = Drafts.fixed([[[1, 2, 3], [1, 2], [1, 4, 4, 4], [7]], [], [[]]])
    one, none, empty = drafts.trees
    assert none.size == empty.size == 1
    lines = {tuple(one.token[one.line(node)].tolist()) for node in range(1, one.size)}
    assert lines == {(1,), (7,), (1, 2), (1, 4), (1, 2, 3), (1, 4, 4), (1, 4, 4, 4)}
    assert (one.length, one.size) == (4, 8)
    assert (np.diff(one.depth) >= 0).all()
