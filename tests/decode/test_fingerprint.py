"""Models are told apart by their weights."""

from otspec.decode.models.fingerprint import fingerprint
from tests.decode.models import tiny


def test_fingerprints_tell_models_apart() -> None:
    assert fingerprint(tiny(seed=0)) == fingerprint(tiny(seed=0)) != fingerprint(tiny(seed=1))
