"""Former names of fields: `sound` is now `valid`."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from otspec.engines.chains import Chains  # noqa: E402
from otspec.verification.device import RowVerification, TreeVerification  # noqa: E402
from tests.each import each  # noqa: E402


@each(kind=(RowVerification, TreeVerification, Chains))
def test_the_flag_of_what_is_valid_has_its_former_name_for_a_release(kind: Any) -> None:
    found = kind(**{name: torch.arange(2) + place for place, name in enumerate(kind._fields)})
    with pytest.warns(FutureWarning, match=rf"{kind.__name__}.sound is now called {kind.__name__}.valid") as caught:
        assert found.sound is found.valid
    assert caught[0].filename == __file__
