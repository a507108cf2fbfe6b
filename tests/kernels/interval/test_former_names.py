"""What pickles and imports of version 0.2 name in `otspec.kernels.interval.lottery`: it is found, with a warning."""

from __future__ import annotations

import pytest

from otspec.kernels.interval import exchange, lottery
from tests.each import each


@each(name=(*lottery.KEPT, *lottery.RENAMED))
def test_a_former_name_gives_the_present_object(name: str) -> None:
    with pytest.warns(FutureWarning, match=f"lottery.{name} is now called otspec.kernels.interval.exchange"):
        assert getattr(lottery, name) is getattr(exchange, lottery.RENAMED.get(name, name))
