"""Everything that drafts or decodes is in the catalogue of the contracts."""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import otspec.decode
from otspec.decode import DRAFT_LAWS, JOINT, MultiDraft, Strategy, methods
from otspec.decode.drafters.catalogue import CONDITIONED
from otspec.decode.drafters.drafter import Drafter, WrappedDrafter
from otspec.decode.drafters.several import SeveralDrafters
from otspec.decode.methods import GreedyLenience, Typical
from otspec.decode.methods.catalogue import METHODS
from otspec.decode.step.strategy import listed
from tests.contracts.catalogue import CATALOGUE, FEW, IID_RULES, LOSSY
from tests.contracts.draft_models import models
from tests.contracts.oracles import sampling_of

THEIRS = {"assisted", "assisted_lookup", "plain"}
"""transformers' own methods, which tests/decode/test_methods.py measures."""
NAMED = {"multi-draft": "paths", "single": "speculative"}
"""What the catalogue calls the methods that commands call otherwise."""

Prepared = dict[str, tuple[Strategy, Drafter]]


@pytest.fixture(scope="module")
def made() -> Prepared:
    """One of each entry."""
    found = {}
    for name, entry in {**CATALOGUE, **LOSSY}.items():
        of = models(entry.vocab)
        strategy = entry.make(of)
        found[name] = strategy, strategy.prepare(of.vocab, sampling_of(of), torch.Generator()).drafter
    return found


def _all(drafter: Drafter) -> Iterator[type[Drafter]]:
    yield type(drafter)
    if isinstance(drafter, WrappedDrafter):
        yield from _all(drafter.inner)
    if isinstance(drafter, SeveralDrafters):
        for one in drafter.drafters:
            yield from _all(one)


def _below(kind: type) -> Iterator[type]:
    one: type
    for one in kind.__subclasses__():
        yield one
        yield from _below(one)


def test_every_strategy(made: Prepared) -> None:
    strategies = [strategy for strategy, _ in made.values()]
    assert any(type(one) is MultiDraft for one in strategies)
    for name in set(methods.__all__) - THEIRS - {GreedyLenience.__name__, Typical.__name__}:
        public = getattr(methods, name)
        if inspect.isclass(public):
            assert any(type(one) is public for one in strategies), name
        else:
            assert name.replace("_", " ") in {**CATALOGUE, **LOSSY}, name
    for name, method in METHODS.items():
        if method.strategy is not None:
            assert NAMED.get(name, name.replace("-", " ")) in {**CATALOGUE, **LOSSY}, name


def test_every_drafter(made: Prepared) -> None:
    """Of the whole package, wherever it lives."""
    for module in pkgutil.walk_packages(otspec.decode.__path__, "otspec.decode."):
        importlib.import_module(module.name)
    drafters = {kind for _, drafter in made.values() for kind in _all(drafter)}
    there = {one for one in _below(Drafter) if one.__module__.startswith("otspec.") and not inspect.isabstract(one)}
    assert there - drafters == {WrappedDrafter}


def test_few_are_one_of_each_class(made: Prepared) -> None:
    def classes(name: str) -> frozenset[type]:
        strategy, drafter = made[name]
        draft = getattr(strategy, "draft", None)
        return frozenset((type(strategy), *_all(drafter), *(map(type, listed(draft)) if draft is not None else ())))

    assert {classes(name) for name in FEW} == {classes(name) for name in CATALOGUE}


def test_every_draft_law_rule_and_model_that_looks_at_the_target(made: Prepared) -> None:
    of_models: list[Any] = [one for one, _ in made.values() if isinstance(one, MultiDraft)]
    assert {one.settings.law or "iid" for one in of_models} == set(DRAFT_LAWS)
    assert set(JOINT) <= {rule for rule in IID_RULES if isinstance(rule, str)}
    known = {kind for one in of_models for model in one.models for kind in type(model).__mro__}
    assert known >= set(CONDITIONED)
