"""A tiny random pair that commands are told of."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """How commands are told of the pair."""
    from tests.saved_pair import save  # needs torch, and the tests of most commands do not

    target, draft = save(tmp_path_factory.mktemp("pair"))
    return ("--target", str(target), "--draft", str(draft))
