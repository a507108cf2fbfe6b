"""Models are told apart by their weights."""

import pytest

torch = pytest.importorskip("torch")

from otspec.decode.models.fingerprint import fingerprint  # noqa: E402
from tests.decode.models import tiny  # noqa: E402


def test_fingerprints_tell_models_apart() -> None:
    assert fingerprint(tiny(seed=0)) == fingerprint(tiny(seed=0)) != fingerprint(tiny(seed=1))
