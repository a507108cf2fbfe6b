"""Draft layers of a packed target read few rows by weights of 8 bits, and draft all levels of a text by one kernel."""

import copy
from itertools import combinations
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from transformers import AutoModelForCausalLM

import otspec
from otspec.decode import run
from otspec.decode.drafters.eagle.drafter import EagleDrafter
from otspec.decode.drafters.eagle.in_bytes import ByteLevels
from otspec.decode.drafters.grow_tree import GrowTree
from otspec.decode.drafters.levels import Levels
from otspec.decode.methods import DynamicTree
from otspec.decode.models.passes import llama_reader, packed
from otspec.decode.models.passes.byte_rows import ByteRows
from otspec.decode.models.passes.packed import pack
from otspec.decode.models.passes.reader import reader_of
from tests.contracts.draft_models import shared
from tests.decode.models import calls_of, tiny

PROMPT = torch.tensor([[1, 2, 3]])
DRAFTED = (0, 2, 5, 6, 7)

pytestmark = pytest.mark.skipif(
    not (torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported()),
    reason="oneDNN multiplies bfloat16 with AVX-512 alone",
)


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A packed target in bfloat16."""
    monkeypatch.setattr(packed, "LARGE", 0)
    model = copy.deepcopy(tiny(8)).bfloat16()
    pack(model)
    return model


@pytest.fixture
def drafted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Levels]]:
    """Every draft from now on."""
    return calls_of(monkeypatch, EagleDrafter, "_drafted")


def _loaded(target: Any, folder: Path) -> Any:
    """A drafter whose layers are packed with the target's when it borrows from it: one that does not learn."""
    shared(target, draft_tokens=DRAFTED).save_pretrained(folder)
    return AutoModelForCausalLM.from_pretrained(folder)


def _text(target: Any, draft: Any, **settings: Any) -> list[int]:
    settings = {"max_new_tokens": 30, "seed": 3} | settings
    return otspec.generate(target, draft, PROMPT, **settings).new_tokens[0]


@pytest.mark.parametrize(
    "settings",
    [
        {"paths": 1, "depth": 3, "solver": "block"},
        {"paths": 3, "depth": 4, "solver": "nested"},
        {"branching": (2, 2, 1), "temperature": 1.5},
        {"branching": (1, 3, 1)},
        {"paths": 1, "depth": 3, "temperature": 0},
        {"paths": 2, "depth": 1},
        {"paths": 2, "depth": 3, "top_k": 3},
        {"paths": 1, "depth": 3, "temperature": 0.7, "top_p": 0.6, "min_p": 0.2},
        {"branching": (4, 1, 1), "law": "top_k", "draft_temperature": 1.0, "temperature": 0},
        {"branching": (2, 2, 1), "law": "top_k"},
        {"branching": (3, 1), "law": "top_k", "draft_temperature": 1e-4, "temperature": 0},  # one possible token
    ],
    ids=str,
)
def test_one_kernel_drafts_what_levels_do(
    target: Any, drafted: list[Any], settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The same draws from the same laws, up to rounding, and the same text; slots of one prefix have one law."""
    draft, request = _loaded(target, tmp_path), calls_of(monkeypatch, ByteLevels, "draft")
    text, by_kernel = _text(target, draft, **settings), drafted.copy()
    drafted.clear()
    assert len(request) == len(by_kernel) > 3
    monkeypatch.setattr(ByteLevels, "of", lambda *args: None)
    assert _text(target, draft, **settings) == text
    assert len(drafted) == len(by_kernel) == len(request)
    for (_, found), (_, wanted) in zip(by_kernel, drafted, strict=True):
        tokens, laws = found.tokens[0], found.laws[0]
        assert torch.equal(tokens, wanted.tokens[0])
        torch.testing.assert_close(laws, wanted.laws[0], rtol=1e-5, atol=1e-7)
        first_level = range(min(settings.get("paths", 1), len(laws) - 1))
        for one, other in combinations(first_level, 2):
            assert torch.equal(laws[1 + one], laws[1 + other]) == (tokens[one] == tokens[other])


@pytest.mark.parametrize(("paths", "depth", "size"), [(4, 4, 9), (2, 5, 30), (1, 3, 3), (4, 1, 4)])
def test_one_kernel_grows_what_levels_do(
    target: Any, paths: int, depth: int, size: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The same trees of fixed drafts, step by step."""
    draft = _loaded(target, tmp_path)
    grown, drafted = calls_of(monkeypatch, ByteLevels, "grow"), calls_of(monkeypatch, GrowTree, "draft")

    def text() -> tuple[list[int], list[Any]]:
        drafted.clear()
        strategy = DynamicTree(draft, paths, depth, size)
        found = run(target, strategy, PROMPT, max_new_tokens=30, seed=3).new_tokens[0]
        return found, [[tree.token.tolist(), tree.parent.tolist()] for _, drafts in drafted for tree in drafts.trees]

    by_kernel = text()
    assert len(grown) == len(by_kernel[1]) > 3
    monkeypatch.setattr(ByteLevels, "of", lambda *args: None)
    assert text() == by_kernel


@pytest.mark.parametrize(
    "settings",
    [
        {"typical_p": 0.9},
        {"law": "without_replacement"},
        {"draft_confidence": 0.5, "paths": 1},
        {"paths": packed.BYTE_ROWS + 1},
        {"suppress_tokens": [5]},
    ],
    ids=str,
)
def test_what_the_kernel_does_not_do_goes_level_by_level(
    target: Any, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """They are drawn otherwise, or read in wider levels."""
    request = calls_of(monkeypatch, ByteLevels, "draft")
    assert len(_text(target, _loaded(target, tmp_path), **({"paths": 2, "depth": 3} | settings))) == 30
    assert all(shape.depth == 1 for (*_, shape, _), _ in request)  # before the end of a text, which reads nothing


def test_a_text_of_one_token_has_nothing_to_read_first(target: Any, tmp_path: Path) -> None:
    """It once ended in a product of no rows."""
    draft = _loaded(target, tmp_path)
    found = otspec.generate(target, draft, PROMPT[:, :1], paths=2, depth=3, max_new_tokens=9, seed=1)
    assert len(found.new_tokens[0]) == 9


def test_other_hidden_states_than_the_last_are_read_by_other_passes(target: Any, tmp_path: Path) -> None:
    draft = _loaded(target, tmp_path)
    draft.borrow(target)
    for layers in ((), (1,), (0,), (0, 1)):
        assert (cast(Any, reader_of(draft, layers)).in_bytes is None) == (0 in layers), layers


def test_laws_by_weights_of_8_bits_are_near(
    target: Any, drafted: list[Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Every law of a draft: those of weights of bfloat16 are 2 % away at most, where one draft is one token."""
    draft, settings = _loaded(target, tmp_path), {"paths": 1, "depth": 1}
    text = _text(target, draft, **settings)
    by_bytes = drafted.copy()
    drafted.clear()
    monkeypatch.setattr(llama_reader, "BYTE_ROWS", 0)
    monkeypatch.setattr(packed, "BYTE_ROWS", 0)
    reads = calls_of(monkeypatch, ByteRows, "read")
    assert len(_text(target, draft, **settings)) == len(text)
    assert not reads
    (_, found), (_, wanted) = by_bytes[0], drafted[0]
    torch.testing.assert_close(found.laws[0], wanted.laws[0], rtol=0, atol=0.02)
    assert not torch.equal(found.laws[0], wanted.laws[0])
