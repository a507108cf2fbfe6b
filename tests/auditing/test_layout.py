"""One driver, two subjects: the driver knows neither of them, and they do not know each other."""

from __future__ import annotations

from tests.test_layers import imports, modules

ROOM = "otspec.auditing"
SUBJECTS = ("positions", "paths")
DRIVER = (
    *("driver", "exact", "sampled", "trial", "tally", "counts", "evidence", "findings", "report", "outcome"),
    *("subject", "settings", "calling", "answers", "cases"),
)


def part_of(module: str) -> str:
    """The first name below the room."""
    return module.removeprefix(f"{ROOM}.").partition(".")[0]


INSIDE = [one for one in imports() if one.importer.startswith(f"{ROOM}.") and one.imported.startswith(f"{ROOM}.")]


def test_the_driver_knows_no_subject() -> None:
    assert {f"{ROOM}.{name}" for name in DRIVER} <= set(modules())
    wrong = [one for one in INSIDE if part_of(one.importer) in DRIVER and part_of(one.imported) in SUBJECTS]
    assert not wrong


def test_the_subjects_do_not_know_each_other() -> None:
    crossing = [{part_of(one.importer), part_of(one.imported)} for one in INSIDE]
    assert {"driver", "positions"} in crossing
    assert {"driver", "paths"} in crossing
    assert set(SUBJECTS) not in crossing
