"""Block verification of chains by Triton's kernels: what torch puts out for the same uniforms."""

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from otspec.engines.chains import ChainLaws, Chains, verify_chains, verify_chains_in_rows  # noqa: E402
from tests import laws  # noqa: E402
from tests.each import each  # noqa: E402
from tests.verification.kernels.setting import interpreted  # noqa: E402
from tests.verification.row_batches import points, tensors, tiny_tails  # noqa: E402

pytestmark = interpreted

KINDS: dict[str, laws.Kind] = {
    "model": laws.model,
    "zeros": laws.zeros(laws.model, 0.3),
    "same": laws.same(laws.model),
    "ties": laws.tied_ratios,
    "tiny tails": tiny_tails,
    "points": points,
}


def chains(name: str, rows: int, length: int, vocab: int) -> tuple[Any, ...]:
    """Laws of chains, tokens drawn from them, and uniforms."""
    rng = np.random.default_rng([rows, length, vocab])
    pairs = [[KINDS[name](rng, vocab) for _ in range(length + 1)] for _ in range(rows)]
    p, q = (np.array([[pair[which] for pair in row] for row in pairs]) for which in (0, 1))
    tokens = np.array([[rng.choice(vocab, p=law / law.sum()) for law in row[:-1]] for row in q], dtype=np.int64)
    return tensors(p, q[:, :-1], tokens, rng.random((rows, length + 1)))


def triples(found: Chains) -> list[tuple[int, int, bool]]:
    return list(zip(*(part.tolist() for part in found), strict=True))


CASES: list[tuple[str, tuple[int, int, int], Any]] = [
    *((name, (6, 3, 5), torch.float64) for name in KINDS),
    ("model", (6, 1, 5), torch.float32),
    ("tiny tails", (2, 2, 1500), torch.float32),
    ("points", (2, 2, 1500), torch.float64),
]


@each(case=CASES)
def test_chains_are_verified_as_by_torch(case: tuple[str, tuple[int, int, int], Any]) -> None:
    name, shape, dtype = case
    p, q, tokens, uniforms = chains(name, *shape)
    given = p.to(dtype), q.to(dtype), tokens, uniforms
    assert triples(verify_chains(*given, kernels=True)) == triples(verify_chains(*given, kernels=False))


@each(length=(15, 18))
def test_long_chains_are_verified_as_by_torch(length: int) -> None:
    """More levels than are finished at once, or as many; after a token that is none nothing is left of equal laws."""
    p, q, tokens, uniforms = chains("same", 4, length, 5)
    for row, end in enumerate((length - 1, 3, 0)):
        tokens[row, end] = -1
    found, expected = (triples(verify_chains(p, q, tokens, uniforms, kernels=way)) for way in (True, False))
    assert found == expected
    assert [accepted for accepted, _, _ in found] == [length - 1, 3, 0, length]


def test_laws_of_many_chunks_are_verified_as_by_torch() -> None:
    """More chunks than are added up at once."""
    given = chains("model", 3, 2, 9000)
    found, expected = (triples(verify_chains(*given, kernels=way)) for way in (True, False))
    assert found == expected
    assert {accepted for accepted, _, _ in found} == {0, 2}


def test_rows_that_are_not_valid_and_tokens_that_are_none() -> None:
    p, q, tokens, uniforms = chains("model", 6, 3, 7)
    p[1, 2, 0], tokens[2, 1], q[3, 0, 0], p[4, 0] = torch.nan, -1, -0.1, 0.0
    given = p, q, tokens, uniforms
    found, expected = (verify_chains(*given, kernels=way) for way in (True, False))
    assert triples(found) == triples(expected)
    assert found.valid.tolist() == [True, False, True, False, False, True]


@each(drawn=(True, False), vocab=(6, 1100))
def test_logits_in_rows_and_chains_of_several_lengths(drawn: bool, vocab: int) -> None:
    """As vLLM has them: rows of all chains one after the other, and tokens that nobody drew."""
    rng = np.random.default_rng(vocab)
    lengths = torch.tensor([3, 0, 1, 2, 3])
    starts = torch.tensor([0, 3, 3, 4, 6])
    logits = torch.from_numpy(8 * rng.standard_normal((9, vocab)))
    logits[:, 1] = -torch.inf
    draft = (logits + 0.3 * torch.from_numpy(rng.standard_normal((9, vocab)))).softmax(dim=1)
    places = torch.arange(4)
    rows = (starts[:, None] + places).clamp(max=8)
    likely = logits.argmax(dim=1) if not drawn else torch.multinomial(draft, 1)[:, 0]
    tokens = torch.where(places[:3] < lengths[:, None], likely[rows[:, :3]], -1)
    uniforms = torch.from_numpy(rng.random((5, 4)))
    given = ChainLaws(logits, rows, draft if drawn else None, rows[:, :3], logits=True)
    found, expected = (verify_chains_in_rows(given, tokens, lengths, uniforms, kernels=way) for way in (True, False))
    assert triples(found) == triples(expected)
    assert found.accepted.sum() > 1
