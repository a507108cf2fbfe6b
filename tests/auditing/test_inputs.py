"""What an audit is told: forms by signature, wrong input in one sentence, settings that are spelled in one class."""

import re
from functools import partial
from types import SimpleNamespace
from typing import Any, get_type_hints

import pytest

import otspec
from otspec import MissingExtra, UnknownSolver
from otspec.auditing import AuditOptions, AuditSettings
from otspec.auditing.rules.forms import Form, PathForm, form_of, path_form_of
from otspec.solvers import KSeq
from otspec.verification import Block
from tests.auditing import decoder_rules as rules
from tests.auditing.forms import MODELS
from tests.each import each
from tests.oracles import Floats, Ints
from tests.refusals import check_refused


class Callable4:
    def __call__(self, p: Floats, q: Floats, drafts: Ints, u: Floats) -> int:
        return rules.draw(p, u[0])


SIGNATURES: list[tuple[Any, Form | PathForm]] = [
    ("kseq", Form.PLAN),
    (KSeq(), Form.PLAN),
    (lambda p, q, drafts: p, Form.LAW),
    (lambda p, q, drafts, rng: 0, Form.RNG),
    (lambda p, q, drafts, uniforms: 0, Form.UNIFORMS),
    (Callable4(), Form.UNIFORMS),
    (lambda p, q, drafts, generator: 0, Form.TORCH),
    (partial(lambda setting, p, q, drafts, rng: 0, 1), Form.RNG),
    (lambda p, q, drafts, u=None, verbose=False: 0, Form.UNIFORMS),
    (lambda problem, tol=1e-9, verbose=False, rng=None: None, Form.PLAN),
    (otspec.verify, Form.RNG),
    (Block(), PathForm.VERIFIER),
    (SimpleNamespace(verify=print, stop_law=print), PathForm.VERIFIER),
    (lambda tree, rng=None: None, PathForm.TREE),
    (lambda tree: None, PathForm.TREE_LAW),
    (lambda p, q, paths, rng: None, PathForm.CHAINS),
    (lambda p, q, paths, more=1: None, PathForm.CHAINS_LAW),
]


@each(case=SIGNATURES)
def test_the_signature_tells(case: tuple[Any, Form | PathForm]) -> None:
    rule, form = case
    assert (form_of if isinstance(form, Form) else path_form_of)(rule, None) is form


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"rule": lambda p, q, drafts, seed: 0}, "cannot tell the form of a rule of (p, q, drafts, seed)"),
    ({"rule": lambda p, q, drafts, verbose=False, rng=None: 0}, "the rule takes rng, and not as its fourth argument"),
    ({"rule": lambda p, q, drafts, *, rng: 0}, "the argument rng of <function"),
    ({"rule": 3}, "the rule is 3; pass a callable"),
    ({"rule": otspec.solvers.LP}, "the rule is the class LP; pass an instance of it"),
    ({"rule": Block()}, "for several drafted tokens; pass it to otspec.audit_paths"),
    ({"rule": "naive", "form": "numpy"}, "form is 'numpy'; known: rng, uniforms"),
    ({"rule": "naive", "scheme": "topk"}, "no draft law 'topk'; known: iid"),
    ({"rule": "naive", "tol": -1}, "tol is -1"),
    ({"rule": "naive", "max_seconds": 0}, "max_seconds is 0; it is above 0 and at most 1e12, or None for no limit"),
    ({"rule": "naive", "scheme": "hub_pairs", "instances": [([1.0], [1.0])]}, "hub_pairs are pairs, pass n = 2"),
    ({"rule": "naive", "instances": [([0.5, 0.6], [0.5, 0.5])]}, "p sums to 1.1"),
    ({"rule": "naive", "instances": [([0.5, 0.5], [1.0])]}, "n = 3, and p has 2 tokens"),
    ({"rule": "naive", "scheme": "independent", "instances": [([1.0], [1.0])]}, "a law for each, shape (3, V)"),
    ({"rule": otspec.verify, "method": "exact"}, "a rule of form rng cannot be enumerated"),
    ({"rule": "naive", "method": "exact", "n": 30, "instances": [([0.5, 0.5], [0.5, 0.5])]}, "at most 5,000 tuples"),
    ({"rule": "naive", "scheme": lambda q, n: otspec.IID(q, 2)}, "draws 2 of"),
    ({"rule": "naive", "seed": -1}, "seed is -1; pass one integer, 0 or more"),
    ({"rule": "naive", "n": 10**6}, "n is 1000000; pass an integer >= 1, at most 4,096"),
    ({"rule": "naive", "uniforms": 10**8}, "an audit hands a rule at most 1,048,576"),
    ({"rule": "naive", "instances": []}, "instances is empty; leave it out"),
    ({"rule": "naive", "instances": [[0.2, 0.3, 0.5]]}, "pass a list of pairs"),
    ({"rule": "naive", "scheme": lambda q, n: q}, "which is not a draft scheme"),
    ({"rule": "naive", "scheme": lambda q: q}, "raises TypeError"),
    ({"rule": "naive", "shown": lambda q: q / 2}, "shown(q) sums to 0.5"),
    ({"rule": "naive", "shown": lambda q: 1 / 0}, "shown raises ZeroDivisionError"),
    ({"rule": "naive", "drafter": lambda q, n: otspec.IID(q, n) if q.size < 5 else 1 / 0}, "raises ZeroDivisionError"),
]
OF_PATHS: list[tuple[dict[str, Any], str]] = [
    ({"rule": lambda p, q: None}, "cannot tell the form of a rule of (p, q)"),
    ({"models": []}, "models is empty"),
    ({"count": 0}, "count is 0; pass an integer >= 1"),
    ({"models": [3]}, "pass otspec.verification.Model"),
    ({"method": "guess"}, "method is 'guess'; known: auto, exact, sampled"),
    ({"form": "plan"}, "form is 'plan'; known: verifier, tree"),
    ({"rule": lambda tree, rng: Block().verify(tree, rng), "method": "exact"}, "cannot be enumerated here"),
    ({"length": 30}, "texts of L + 1 tokens, and an audit counts at most 20,000"),
    ({"shown": lambda q: q / 2, "models": MODELS}, "sums to 0.5"),
]


def test_wrong_input_is_one_clear_error() -> None:
    of_paths = partial(otspec.audit_paths, rule=Block(), count=1)
    for call, table in ((otspec.audit, REFUSED), (of_paths, OF_PATHS)):
        check_refused((partial(call, **inputs), re.escape(said)) for inputs, said in table)


def test_an_unknown_solver_and_keyword_and_a_missing_package_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownSolver, match="no solver 'kseq2'"):
        otspec.audit("kseq2")
    call: Any
    for call in (otspec.audit, otspec.audit_paths):
        with pytest.raises(TypeError, match="unexpected keyword argument 'bugdet'; the settings are seed, alpha"):
            call("naive", bugdet=3)
        with pytest.raises(TypeError, match="unexpected keyword argument 'count_of_paths'"):
            call("naive", count_of_paths=3)
    with pytest.raises(TypeError, match=r"audit_paths\(\) got an unexpected keyword argument 'n'"):
        call(Block(), n=3)  # the drafts of a tree are no setting
    monkeypatch.setattr("otspec.extras.installed", lambda package: False)
    with pytest.raises(MissingExtra, match="torch is not installed"):
        otspec.audit(lambda p, q, drafts, generator: drafts[:, 0])


def test_keywords_are_the_fields() -> None:
    types = get_type_hints(AuditSettings)
    assert types.pop("n") is int
    assert get_type_hints(AuditOptions) == types
