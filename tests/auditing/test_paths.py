"""`otspec.audit_paths`: verifiers of several tokens and paths pass, what is broken in them is found, in every form."""

import numpy as np
import pytest

import otspec
from otspec import AuditVerdict
from otspec.verification import Block, Model, tree_law
from tests.auditing.forms import MODELS, NoBlock
from tests.auditing.known_bugs import drawn_from, token_wise_law
from tests.oracles import Floats, Ints


def test_the_distance_and_the_length_are_those_of_enumeration() -> None:
    audit = otspec.audit_paths(NoBlock(), branching=(1, 2), models=MODELS)
    for one, model in zip(audit.instances, MODELS, strict=True):
        law = tree_law(NoBlock(), model, (1, 2))
        assert one.tv == pytest.approx(law.deviation / 2, abs=1e-12)
        assert one.accepted == pytest.approx(law.mean_accepted, abs=1e-12)  # type: ignore[attr-defined]
    assert audit.drafts == "a tree of branching (1, 2)"


def test_accepting_more_than_any_lossless_rule_is_a_finding_by_itself() -> None:
    def all_of_it(target: Floats, draft: Floats, paths: Ints) -> dict[tuple[int, ...], float]:
        return {(*paths[0].tolist(), token): chance for token, chance in enumerate(target[0, -1].tolist())}

    audit = otspec.audit_paths(all_of_it, 1, 2, models=MODELS)
    assert audit.verdict is AuditVerdict.NOT_LOSSLESS
    assert any("accepts more than any lossless rule can: on 2 of 2" in finding.message for finding in audit.findings)


def second(target: Floats, draft: Floats, paths: Ints) -> dict[tuple[int, ...], float]:
    return token_wise_law(1.0)(target[1:], draft[1:], paths[1:])


def test_a_rule_of_chains_passes_whatever_the_other_path_is() -> None:
    """The same tokens are other nodes of other trees."""
    model = Model(lambda prefix: np.array([0.6, 0.4]), lambda prefix: np.array([0.7, 0.3]))
    for law, models in ((token_wise_law(1.0), [model]), (second, MODELS)):
        for rule, method in ((law, "exact"), (law, "sampled"), (drawn_from(law), "sampled")):
            audit = otspec.audit_paths(rule, 2, 2, models=models, method=method, resolution=0.1)
            assert (audit.verdict, audit.outcome.method) == (AuditVerdict.LOSSLESS, method)


def test_what_cannot_be_is_spelt_as_a_text() -> None:
    model = Model(lambda prefix: np.array([1.0, 0.0]), lambda prefix: np.array([0.5, 0.5]))
    audit = otspec.audit_paths(lambda target, draft, paths, rng: paths[0], 1, 2, models=[model])
    assert any("emits texts of p = 0: 0 1 0, 1 0 0, 1 1 0" in finding.message for finding in audit.findings)
    assert "[1, 0, 0, 0, 0, 0, 0, 0]" in str(audit)


def test_a_draft_law_that_the_rule_is_not_told_of() -> None:
    def warmer(q: Floats) -> Floats:
        flat: Floats = q**0.8
        return flat / flat.sum()

    audit = otspec.audit_paths(Block(), 4, 3, shown=warmer, method="sampled")
    assert (audit.verdict, audit.outcome.draws < 15_000) == (AuditVerdict.NOT_LOSSLESS, True)  # 23 000 by whole texts


def test_what_is_audited_is_what_decodes() -> None:
    overridden = {"verify": lambda self, tree, rng: Block().verify(tree, rng)._replace(token=0)}
    audit = otspec.audit_paths(type("Careless", (Block,), overridden)(), 1, 2, models=MODELS)
    assert (audit.verdict, audit.outcome.method) == (AuditVerdict.NOT_LOSSLESS, "sampled")
