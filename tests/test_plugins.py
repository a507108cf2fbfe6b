"""Solvers and draft laws of other packages: by entry point, and by module and class."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import otspec
from otspec.catalogue import get
from tests.oracles import optimal_acceptance

DOCUMENTED, SCHEME, ENUMERATED = (
    block.split("```")[0]
    for block in (Path(__file__).parents[1] / "docs" / "own_solver.md").read_text().split("```python\n")[1:]
)
"""The solver and the draft schemes that docs/own_solver.md shows."""
OTHERS = f"""{DOCUMENTED}

def reversed_law(q, n):
    from otspec import IID

    return IID(q[::-1], n)


class Unfinished:
    pass
"""

SHOWN = """
import sys, warnings
import numpy as np
import otspec

problem = otspec.Problem([0.6, 0.3, 0.1], otspec.IID([0.2, 0.3, 0.5], 2))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    result = otspec.solve(problem, "from_target")
assert result.success
assert np.isclose(result.plan.acceptance, 0.6 * 0.36 + 0.3 * 0.51 + 0.1 * 0.75)
assert "from_target" in {info.name for info in otspec.available()}
assert otspec.audit("from_target", scheme="reversed", n=2).verdict is otspec.AuditVerdict.LOSSLESS
print(*(warning.message for warning in caught), sep="\\n")
"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder on the path of Python with an installed package of somebody else's."""
    (tmp_path / "others.py").write_text(OTHERS)
    metadata = tmp_path / "others-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        "[otspec.solvers]\nfrom_target = others:FromTarget\nunfinished = others:Unfinished\n"
        "absent = others:Absent\nlp = others:FromTarget\n"
        "[otspec.schemes]\nreversed = others:reversed_law\n"
    )
    return tmp_path


def test_entry_points_bring_solvers_and_draft_laws(installed: Path) -> None:
    shown = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(installed)!r})\n{SHOWN}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert shown.returncode == 0, shown.stderr
    assert "'unfinished' of another package is ignored: Unfinished is not a dataclass" in shown.stdout
    assert "'absent' of others, in otspec.solvers, is ignored: AttributeError" in shown.stdout
    assert "'lp' of others, in otspec.solvers, is ignored: the name is taken" in shown.stdout


def test_a_class_is_run_without_being_registered(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    otspec.available()  # registers, before the path has entry points of others
    monkeypatch.syspath_prepend(installed)
    solver = get("others:FromTarget:tol=1e-6")
    assert solver.name == "others:FromTarget"
    assert solver.tol == 1e-6
    problem = otspec.Problem([0.6, 0.3, 0.1], otspec.IID([0.2, 0.3, 0.5], 2))
    assert otspec.solve(problem, "others:FromTarget").success


def test_the_scheme_that_contributing_shows_is_sound_and_solved() -> None:
    shown: dict[str, Any] = {}
    exec(SCHEME, shown)
    q, r = [0.1, 0.3, 0.6, 0.0], [0.5, 0.5, 0.0, 0.0]
    scheme = shown["OneOf"](otspec.IID(q, 2), otspec.IID(r, 2))
    assert otspec.check_scheme(scheme).unknown == ("first_draft", "inclusion", "prefix_order")
    problem = otspec.Problem([0.2, 0.4, 0.3, 0.1], scheme)
    result = otspec.solve(problem)
    assert result.plan.acceptance == pytest.approx(optimal_acceptance(problem), abs=1e-12)
    assert result.plan.deviation <= 1e-12


def test_the_documented_list_of_tuples_is_a_scheme() -> None:
    shown: dict[str, Any] = {}
    exec(ENUMERATED, shown)
    scheme = shown["Repeated"](np.array([0.1, 0.2, 0.3, 0.4]), 2)
    assert otspec.check_scheme(scheme).unknown == ("prefix_order",)
    problem = otspec.Problem([0.2, 0.4, 0.3, 0.1], scheme)
    result = otspec.solve(problem)
    assert result.plan.acceptance == pytest.approx(optimal_acceptance(problem), abs=1e-12)
    assert result.plan.acceptance == pytest.approx(0.7, abs=1e-12)  # the same draft twice is one draft
