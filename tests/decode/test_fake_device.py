"""On a device whose tensors have no numbers a step waits for nothing but its copies, and mixes no devices.

A GPU is not needed to see that: `tests.fake_device`.  Triton's kernels and CUDA graphs are tested in tests/gpu.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from transformers import LogitsProcessorList, MaxLengthCriteria, StoppingCriteriaList

from otspec.decode import MultiDraft
from otspec.decode.base.sampling import Sampling
from otspec.decode.base.text import Request, StoppingRules
from otspec.decode.drafters.shortlists.selection import History, Level
from otspec.decode.models.head import Head
from otspec.decode.step.loop import Decoder, Decoding
from otspec.decode.verify.on_device import device_rule
from otspec.decode.verify.step import step_verifier
from otspec.verification.tensors import majorant
from tests.contracts.draft_models import DRAFT_MODELS, random_router
from tests.decode.models import pair
from tests.fake_device import device, there, without_numbers

VOCAB = 8
NEW = 2
"""Tokens of a text, of which no draft is accepted: so many steps."""

RULES: dict[str, dict[str, Any]] = {
    "nested": {"paths": 2, "depth": 2},
    "interval": {"branching": (2, 2), "solver": "interval"},
    "truncated": {"paths": 2, "depth": 1, "draft_top_k": 3},
}


def waits(strategy: Callable[[Any], Any], model: Any, target: Any, temperature: float = 1.0) -> list[tuple[int, ...]]:
    """Shapes of what comes to the host in a run: zeros as drafted tokens, and -1 as what is verified, which is none."""
    shown = (0, -1) if temperature else (0,)
    with torch.no_grad(), without_numbers():
        mine, own = there(target), there(model)
        if getattr(own, "_lent", ()):
            own._lent = (mine.get_input_embeddings().weight,)
        sampling, generator = Sampling(LogitsProcessorList(), temperature > 0), torch.Generator()
        drafter, verifier = strategy(own).prepare(VOCAB, sampling, generator)
        rule = device_rule(verifier, device(), None)
        verification = step_verifier(verifier, sampling, np.random.default_rng(0), generator, rule)
        ending = StoppingRules(StoppingCriteriaList([MaxLengthCriteria(3 + NEW)]), device())
        with without_numbers(*shown) as copies:
            decoder = Decoder(mine, drafter, verification, ending, False)
            decoding = Decoding(decoder, [Request(0, [], [1, 2, 3])])
            while decoding.step():
                pass
    assert (metrics := decoding.metrics).tokens == NEW
    assert len(copies.to_host) <= 2 * metrics.target_calls
    return copies.to_host


@pytest.mark.parametrize(("kind", "temperature"), [*((kind, 1.0) for kind in DRAFT_MODELS), ("a model", 0.0)])
def test_a_step_waits_for_its_drafts_and_for_what_is_accepted(kind: str, temperature: float) -> None:
    target, draft = pair(VOCAB, positions=128)
    with torch.no_grad():
        model = DRAFT_MODELS[kind](target, draft)
    found = waits(lambda own: MultiDraft(own, paths=1, depth=3), model, target, temperature)
    assert (1, 3) in found  # the tokens of a path


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_is_shown_what_it_needs_at_once(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(majorant, "ROUNDS", 2)  # more of them are the same again
    target, draft = pair(VOCAB, positions=128, layers=1)
    waits(lambda own: MultiDraft(own, **RULES[rule]), draft, target)


def test_a_router_chooses_on_the_device() -> None:
    """Among unequal clusters, at every slot for itself; the head was made where numbers are."""
    draft = pair(VOCAB)[1]
    head = random_router(draft, [0, 0, 0, 0, 1, 1, 2, 2], 2).head(draft, Sampling(LogitsProcessorList(), True), VOCAB)
    width = draft.config.hidden_size
    with torch.no_grad(), without_numbers() as copies:
        output = torch.rand(2, 3, width, dtype=torch.float64, device=device())
        head.network, head._vectors = head.network.like(output), there(draft.get_input_embeddings())
        head._rows = Head(head._rows.weight.to(device()))
        head._order, head._places = head._order.to(device()), head._places.to(device())
        tokens = torch.zeros(2, 3, dtype=torch.int64, device=device())
        law = head.laws(output, Level(0, lambda: History(tokens, output)))
    assert (law.shape, law.device) == ((2, 3, VOCAB), device())
    assert not copies.to_host
