"""`import otspec` as a user meets it: what can be reached, what it prints, what survives a pickle."""

import pickle
import runpy
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import otspec
from otspec.solver import REGISTRY
from tests.instances import P4, Q4, SCHEMES
from tests.processes import printed


def loaded_after(code: str) -> set[str]:
    """The modules that a new Python has loaded after running some code."""
    return set(printed(f"{code}\nimport sys\nprint(*sys.modules)").split())


def test_importing_the_package_loads_none_of_it() -> None:
    loaded = loaded_after("import otspec")
    assert not loaded & {"numpy", "numba", "scipy", "torch"}
    assert [name for name in loaded if name.startswith("otspec.")] == ["otspec.lazy"]


def test_every_public_name_is_there_and_listed() -> None:
    for name in otspec.__all__:
        assert getattr(otspec, name) is not None, name
        assert name in dir(otspec), name
    for name in ("decode", "generate", "proofs_check"):  # `from otspec import *` leaves out what needs torch, or is big
        assert name in dir(otspec)
    with pytest.raises(AttributeError, match="module 'otspec' has no attribute 'solver_of_everything'"):
        _ = otspec.solver_of_everything


def test_subpackages_are_reached_without_importing_them_and_shadow_no_function_of_their_name() -> None:
    names = ("vocab", "solvers", "proofs_check", "data", "schemes", "verification")
    reached = f"import otspec; [getattr(otspec, name) for name in {names}]"
    modules = "otspec.solving, otspec.verification, otspec.auditing, otspec.certificate, otspec.catalogue"
    functions = "otspec.solve, otspec.verify, otspec.audit, otspec.optimum, otspec.available"
    shadowed = f"import {modules}; assert all(type(f).__name__ == 'function' for f in ({functions}))"
    assert {f"otspec.{name}" for name in names} <= loaded_after(f"{reached}; {shadowed}")


def test_the_users_snippet_runs() -> None:
    runpy.run_path(str(Path(__file__).with_name("typed_use.py")))


def test_objects_print_as_one_line_and_survive_a_pickle() -> None:
    for scheme in SCHEMES.values():
        problem = otspec.Problem(P4, scheme)
        for made in (scheme, problem, otspec.optimum(problem)):
            assert 20 < len(repr(made)) < 160
            assert "\n" not in repr(made)
        back = pickle.loads(pickle.dumps(problem))
        assert repr(back) == repr(problem)
        assert_array_equal(back.p, problem.p)
        drafts = problem.scheme.sample(np.random.default_rng(1))
        assert back.scheme.prob(drafts) == problem.scheme.prob(drafts)
        for info in otspec.available():
            if info.missing or not REGISTRY[info.name].__module__.startswith("otspec.solvers."):
                continue
            result = otspec.solve(problem, info.name, strict=False)
            again = pickle.loads(pickle.dumps(result))
            assert repr(again) == repr(result)
            assert "\n" not in repr(result)
            assert len(repr(result)) < 400
            if result.plan is not None:
                assert "\n" not in repr(result.plan)
                law = result.plan.conditional(drafts)
                assert_array_equal(again.plan.conditional(drafts), law, err_msg=f"{info.name}, {scheme!r}")


def test_an_error_of_a_solve_survives_a_pickle() -> None:
    with pytest.raises(otspec.SolveError) as caught:
        otspec.solve(otspec.Problem(P4, otspec.WithoutReplacement(Q4, 2)), "interval")
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert again.result.status is otspec.Status.UNSUPPORTED
