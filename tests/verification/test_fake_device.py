"""The functions of `otspec.verification.device` wait for nothing and mix no devices: there is no number to look at.

Kernels are Triton's own matter; here are the ways that torch goes.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from otspec.engines.chains import verify_chains  # noqa: E402
from otspec.verification.device import Links, verify_logits, verify_rows, verify_trees, verify_truncated  # noqa: E402
from otspec.verification.device.trees import RULES  # noqa: E402
from otspec.verification.tensors import majorant  # noqa: E402
from tests.each import each  # noqa: E402
from tests.fake_device import device, without_numbers  # noqa: E402

ROWS, VOCAB, DRAFTS = 3, 40, 2
BRANCHING, SLOTS, INNER, LEVELS = (2, 1), 5, 3, 2


def laws(*shape: int, vocab: int = VOCAB) -> Any:
    return torch.rand(*shape, vocab, device=device())


def tokens(*shape: int) -> Any:
    return torch.zeros(shape, dtype=torch.int64, device=device())


def uniforms(*shape: int) -> Any:
    return torch.rand(*shape, dtype=torch.float64, device=device())


def rows(verify: Callable[..., Any], **settings: Any) -> Any:
    return verify(laws(ROWS), laws(ROWS), tokens(ROWS, DRAFTS), uniforms(ROWS, DRAFTS + 1, 3), **settings)


def trees(topology: Any, vocab: int = VOCAB, **settings: Any) -> Any:
    target, draft = laws(ROWS, SLOTS, vocab=vocab), laws(ROWS, INNER, vocab=vocab)
    inputs = target, draft, tokens(ROWS, SLOTS), topology, uniforms(ROWS, SLOTS + LEVELS, 3)
    return verify_trees(*inputs, logprobs=True, **settings)


def linked(rule: str, **settings: Any) -> Any:
    links = tokens(ROWS, SLOTS) - 1
    return trees(Links(links, links, depth=LEVELS, width=2), rule=rule, **settings)


CALLS: dict[str, Callable[[], Any]] = {
    **{f"rows by {by}": partial(rows, verify_rows, by=by, logprobs=True) for by in ("sorting", "buckets")},
    **{
        f"logits by {by} at {heat}": partial(rows, verify_logits, by=by, temperature=heat)
        for by in ("sorting", "buckets")
        for heat in (1.0, 0.0)
    },
    "truncated": lambda: verify_truncated(
        laws(ROWS), tokens(ROWS, 4), uniforms(ROWS, 4), tokens(ROWS, DRAFTS), uniforms(ROWS, DRAFTS + 1, 3)
    ),
    "chains": lambda: verify_chains(laws(ROWS, 4), laws(ROWS, 3), tokens(ROWS, 3), uniforms(ROWS, 4), kernels=False),
    **{
        f"trees of {vocab} tokens by {rule}": partial(trees, BRANCHING, vocab, rule=rule)
        for rule in RULES
        for vocab in (VOCAB, 5000)
    },
    "trees without look-ahead": partial(trees, BRANCHING, rule="nested", sigma=0.0),
    "trees by buckets": partial(trees, BRANCHING, rule="interval", by="buckets"),
    **{f"linked trees by {rule}": partial(linked, rule) for rule in RULES},
    "linked trees by buckets": partial(linked, "interval", by="buckets"),
}


@each(call=CALLS)
def test_nothing_is_waited_for_and_all_stays_there(call: Callable[[], Any]) -> None:
    """Of few rounds of the same kind, which take long."""
    with without_numbers() as copies, pytest.MonkeyPatch.context() as patch:
        patch.setattr(majorant, "HALVINGS", 2)
        patch.setattr(majorant, "ROUNDS", 2)
        found = [part for part in call() if part is not None]
        assert {part.device for part in found} == {device()}
    assert not copies.to_host


def test_what_waits_and_what_mixes_devices_is_seen() -> None:
    """Else the tests above could not fail."""
    with without_numbers() as copies:
        law = laws(ROWS)
        for waits in (law.tolist, law.sum().item, lambda: bool(law.any()), lambda: law[law > 0]):
            with pytest.raises(Exception, match="aten"):
                waits()
        with pytest.raises(Exception, match="same device"):
            law + torch.zeros(VOCAB)
        law.cpu().numpy()
    assert copies.to_host == [(ROWS, VOCAB)]
