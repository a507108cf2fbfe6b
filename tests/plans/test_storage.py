from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import otspec
from otspec import IID, Plan, Problem, ProblemError, WithoutReplacement
from otspec.errors import DataError
from otspec.plans import Match, Pick, load
from otspec.plans.storage import save
from tests.instances import P4, Q4, SCHEMES
from tests.plans.test_tables import FIRST, Claims
from tests.spellings import every_spelling

OF_SEVERAL_DRAFTS = {"iid-3": IID(Q4, 3), "one": IID(Q4, 1), "distinct-3": WithoutReplacement(Q4, 3)}


def plans() -> list[tuple[str, Plan]]:
    """A plan of every solver for every scheme that it takes, and one at a price."""
    made = []
    for spelling in every_spelling():
        for name, scheme in (SCHEMES | OF_SEVERAL_DRAFTS).items():
            plan = otspec.solve(Problem(P4, scheme), spelling, strict=False).plan
            if plan is not None:
                made.append((f"{spelling}-{name}", plan))
    return [*made, ("lossy-iid", otspec.best_lossy_plan(Problem(P4, SCHEMES["iid"]), 0.05))]


def test_every_plan_comes_back_to_the_last_bit(tmp_path: Path) -> None:
    path = tmp_path / "plan.npz"
    for name, plan in plans():
        plan.save(path)
        back = load(path)
        assert type(back) is type(plan), name
        assert_array_equal(back.problem.p, plan.problem.p)
        for drafts in plan.problem.scheme.support().drafts[::3]:
            assert_array_equal(back.conditional(drafts), plan.conditional(drafts), err_msg=name)
            assert back.sample(drafts, 3) == plan.sample(drafts, 3), name
        figures = ("acceptance", "bound", "gap", "deviation", "max_deviation")
        assert [getattr(back, figure) for figure in figures] == [getattr(plan, figure) for figure in figures], name
        assert_array_equal(back.output_law(), plan.output_law(), err_msg=name)


def test_a_large_plan_comes_back_and_shares_what_was_shared(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.full(20_000, 0.1), 2)
    problem = Problem(np.float32(p), IID(np.float32(q), 4))
    plan = otspec.solve(problem).plan
    plan.save(tmp_path / "plan")
    assert list(tmp_path.iterdir()) == [tmp_path / "plan"]  # the name is taken as it is
    back = load(str(tmp_path / "plan"))
    assert isinstance(back, Pick)
    assert back.rule.scheme is back.problem.scheme  # type: ignore[attr-defined]
    assert back.gap == plan.gap
    for drafts in problem.scheme.sample(1, 5):
        assert_array_equal(back.conditional(drafts), plan.conditional(drafts))
    with pytest.raises(ValueError, match="read-only"):
        back.problem.p[0] = 1.0


def test_what_is_no_plan_is_refused(tmp_path: Path) -> None:
    plan = Pick(Problem(P4, IID(Q4, 2)), Claims(Q4, FIRST), 1.0)  # by a class of somebody else's
    with pytest.raises(ProblemError, match=r"consists of a tests\.plans\.test_tables:Claims, .* or pickle"):
        plan.save(tmp_path / "plan.npz")
    assert not any(tmp_path.iterdir())
    with pytest.raises(ProblemError, match="consists of a builtins:dict"):
        save({}, tmp_path / "plan.npz")  # type: ignore[arg-type]
    with pytest.raises(ProblemError, match="an array of <U1"):
        save(Match(Problem(P4, IID(Q4, 2)), np.array(["a"]), 1.0), tmp_path / "plan.npz")
    with pytest.raises(DataError, match="cannot be written: No such file or directory"):
        otspec.solve(Problem(P4, IID(Q4, 2))).plan.save(tmp_path / "missing" / "plan.npz")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"readonly": None}, "readonly"),
        ({"plan@": "otspec.problem:Problem"}, "plan.p"),
        ({"plan@": "=plan.problem"}, "plan.problem"),
        ({"plan.problem.p": None}, "plan.problem.p"),
        ({"plan@": "subprocess:Popen"}, "subprocess:Popen is no class of otspec's plans"),
        ({"plan@": "tuple 0"}, "holds a tuple, and no plan"),
    ],
)
def test_a_file_of_something_else_is_told(tmp_path: Path, changes: dict[str, str | None], message: str) -> None:
    path = tmp_path / "plan.npz"
    otspec.solve(Problem(P4, IID(Q4, 2)), "max_flow").plan.save(path)
    with np.load(path) as archive:
        members = {name: archive[name] for name in archive.files}
    np.savez(path, **{name: array for name, array in (members | changes).items() if array is not None})
    with pytest.raises(DataError, match=message):
        load(path)


def test_a_damaged_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "plan.npz"
    otspec.solve(Problem(P4, IID(Q4, 2))).plan.save(path)
    whole = path.read_bytes()
    for content in (b"", b"x", whole[:100], whole[: len(whole) // 2], b"\x93NUMPY" + whole):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"plan\.npz"):
            load(path)
    np.save(path.with_suffix(".npy"), Q4)
    for name in (path.with_suffix(".npy"), tmp_path / "missing", tmp_path):
        with pytest.raises(DataError, match=r"cannot be read|is not a file of a plan"):
            load(name)
