"""Solvers by name: spelled with settings, registered, described; and those of other packages."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import patch

import numpy as np
import pytest

import otspec
import otspec.solver
from otspec import Problem, UnknownSolver, available
from otspec.catalogue import get
from otspec.solver import Solution, Solver, TupleSolver, register, settings_of
from otspec.solvers import LP, MaxFlow
from otspec.tolerances import TOL
from tests.oracles import optimal_acceptance
from tests.processes import printed


@pytest.fixture
def dummy() -> Iterator[type[Any]]:
    """A solver class with one setting of each type, registered until the test is over."""

    @dataclass(frozen=True)
    class Dummy:
        """Does nothing.

        But at length.
        """

        tol: float = TOL
        steps: int = 3
        loud: bool = False
        rule: str = "none"

        name: ClassVar[str]
        exact: ClassVar[bool] = False
        schemes: ClassVar[str] = "none"
        variants: ClassVar[tuple[str, ...]] = ("dummy:steps=4",)
        packages: ClassVar[tuple[str, ...]] = ("a_package_that_nobody_has",)

        def supports(self, problem: Problem) -> str | None:
            return "nothing is supported"

        def __call__(self, problem: Problem) -> Solution:
            raise AssertionError("nothing is supported, so nothing is solved")

    available()  # all that the package has are registered, once
    with patch.dict(otspec.solver.REGISTRY):
        yield register("dummy")(Dummy)


@pytest.mark.usefixtures("dummy")
def test_settings_take_the_types_of_the_fields() -> None:
    for spelling, solver in (
        ("lp", LP()),
        ("lp:max_cells=12:form=full:tol=1e-7", LP(form="full", max_cells=12, tol=1e-7)),
        ("max_flow:engine=networkx", MaxFlow(engine="networkx")),
        ("otspec.solvers.lp:LP:tol=1e-6", LP(tol=1e-6)),
    ):
        assert get(spelling) == solver
    settings = settings_of(get("dummy:tol=1:steps=7:loud=TRUE:rule=x=y"))
    assert settings == {"tol": 1.0, "steps": 7, "loud": True, "rule": "x=y"}
    assert [type(value) for value in settings.values()] == [float, int, bool, str]
    assert settings_of(get("dummy:loud=False")) == settings_of(get("dummy"))
    with pytest.raises(UnknownSolver, match="dummy: loud takes bool, not 'yes'"):
        get("dummy:loud=yes")


RESOLUTION = (("tau", 0), ("tau", 1), ("tau", "nan"), ("stop", 0), ("max_tokens", -1), ("max_iterations", 0))
LUCE = (("max_iterations", 0), ("height", 0.0), ("height", "nan"), ("height", 1e3))


@pytest.mark.parametrize(
    ("spelling", "message"),
    [
        ("lp2", "no solver 'lp2'; known: .*canonical.*distinct_drafters, global_resolution.*lp, max_flow"),
        ("lp:from=full", "lp has no setting 'from=full'; .*: form, engine, tol, max_cells, time_limit_s$"),
        ("lp:name=x", "lp has no setting 'name=x'"),
        ("lp:form=fuller", "lp:form=fuller: no form 'fuller' of the program; known: relaxed, full, tuples"),
        ("lp:max_cells=many", "lp: max_cells takes int, not 'many'"),
        ("max_flow:engine=steam", "no max-flow engine 'steam'; known: numba, igraph, graph_tool, networkx"),
        *((f"global_resolution:{name}={value}", f"{name} .*; take ") for name, value in RESOLUTION),
        *((f"distinct_drafters:{name}={value}", f"{name} .*; take ") for name, value in LUCE),
        *((f"kseq:gamma={one}", "it is at least 1, or 0 to solve") for one in ("0.5", "-1.0", "nan", "inf")),
        ("rsd:max_histories=0", "max_histories is 0; follow at least one"),
        ("single:lenience=0", r"lenience is 0; it is in \(0, 1\]"),
        ("slackness:engine=steam", "no max-flow engine 'steam'; known: numba"),
        ("otspec.solvers.lp:Missing", "cannot be imported as package.module:Class"),
        ("nobody.py:Solver", "nobody.py:Solver cannot be imported .*; of a file in this folder write nobody:Solver"),
        ("otspec.problem:Problem", "is not a solver: Problem lacks exact"),
        ("otspec.solvers.lp:LP:form=round", "no form 'round'"),
    ],
)
def test_unknown_names_and_settings_say_what_is_known(spelling: str, message: str) -> None:
    with pytest.raises(UnknownSolver, match=message):
        get(spelling)


def test_a_name_is_registered_once_and_settings_are_fields_of_a_dataclass(dummy: type[Any]) -> None:
    with pytest.raises(ValueError, match="a solver named 'dummy' is registered already"):
        register("dummy")(dummy)
    with pytest.raises(TypeError, match="object is not a dataclass"):
        register("plain")(object)


@pytest.mark.usefixtures("dummy")
def test_available_describes_every_solver() -> None:
    infos = {info.name: info for info in available()}
    assert list(infos) == sorted(infos)
    assert {"lp", "max_flow", "slackness", "canonical"} <= infos.keys()
    assert infos["dummy"].summary == "Does nothing."
    assert infos["dummy"].missing == ("a_package_that_nobody_has",)
    assert infos["dummy"].settings == {"tol": TOL, "steps": 3, "loud": False, "rule": "none"}
    assert infos["dummy"].variants == ("dummy:steps=4",)
    assert not infos["dummy"].exact
    assert infos["max_flow"].missing == ()


@pytest.mark.parametrize("info", available(), ids=lambda info: info.name)
def test_shipped_solvers_describe_themselves(info: Any) -> None:
    solver = get(info.name)
    assert isinstance(solver, Solver)
    assert info.summary.endswith((".", "]."))
    assert info.schemes
    assert set(info.settings) == {field.name for field in fields(solver)}  # type: ignore[arg-type]  # a dataclass
    for variant in info.variants:
        assert get(variant) != solver
        assert variant.partition(":")[0] == get(variant).name == info.name
    assert isinstance(solver, TupleSolver) == (info.name in ("slackness", "global_resolution"))


DOCUMENTED, SCHEME, ENUMERATED = (
    block.split("```")[0]
    for block in (Path(__file__).parents[1] / "docs" / "own_solver.md").read_text().split("```python\n")[1:]
)
"""The solver and the draft schemes that docs/own_solver.md shows."""
OTHERS = f"""import otspec.solver
{DOCUMENTED}

def reversed_law(q, n):
    from otspec import IID

    return IID(q[::-1], n)


class Unfinished:
    pass


@otspec.solver.register("decorated")
class Decorated(FromTarget):
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
assert {"from_target", "decorated"} <= {info.name for info in otspec.available()}
assert otspec.audit("from_target", scheme="reversed", n=2).verdict is otspec.AuditVerdict.LOSSLESS
print(*(warning.message for warning in caught), sep="\\n")
"""


def test_entry_points_bring_solvers_and_draft_laws(tmp_path: Path) -> None:
    """Of an installed package of somebody else's, in a folder on the path of Python."""
    (tmp_path / "others.py").write_text(OTHERS)
    metadata = tmp_path / "others-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        "[otspec.solvers]\nfrom_target = others:FromTarget\nunfinished = others:Unfinished\n"
        "absent = others:Absent\nlp = others:FromTarget\ndecorated = others:Decorated\n"
        "[otspec.schemes]\nreversed = others:reversed_law\n"
    )
    shown = printed(f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{SHOWN}")
    assert "'unfinished' of another package is ignored: Unfinished is not a dataclass" in shown
    assert "'absent' of others, in otspec.solvers, is ignored: AttributeError" in shown
    assert "'lp' of others, in otspec.solvers, is ignored: the name is taken" in shown
    assert "decorated" not in shown


def test_the_documented_solver_and_schemes_are_sound_and_solved() -> None:
    shown: dict[str, Any] = {}
    for block in (DOCUMENTED, SCHEME, ENUMERATED):
        exec(block, shown)
    either = shown["OneOf"](otspec.IID([0.1, 0.3, 0.6, 0.0], 2), otspec.IID([0.5, 0.5, 0.0, 0.0], 2))
    repeated = shown["Repeated"](np.array([0.1, 0.2, 0.3, 0.4]), 2)
    assert otspec.check_scheme(either).unknown == ("first_draft", "inclusion", "prefix_order")
    assert otspec.check_scheme(repeated).unknown == ("prefix_order",)
    for scheme in (either, repeated):
        problem = otspec.Problem([0.2, 0.4, 0.3, 0.1], scheme)
        plan = otspec.solve(problem).plan
        assert plan.acceptance == pytest.approx(optimal_acceptance(problem), abs=1e-12)
        assert plan.deviation <= 1e-12
        assert otspec.solve(problem, shown["FromTarget"]()).stats.solver.endswith(":FromTarget")
    assert plan.acceptance == pytest.approx(0.7, abs=1e-12)  # the same draft twice is one draft
