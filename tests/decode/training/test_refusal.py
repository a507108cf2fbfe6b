"""alpha:n, the loss: 1 - alpha*(n) as the certificate has it, its gradient by differences, ties among the laws."""

from typing import Any

import numpy as np
import pytest
import torch

from otspec.certificate import upper_bound
from otspec.decode.lessons.losses import STEPS, Prediction, Refusal, Wanted, kl, loss_named, tvd
from otspec.problem import Problem
from otspec.schemes import IID
from tests.laws import softmax

GRID = 2 ** (1 / STEPS) - 1
"""By how much p / q differs within what the loss takes for one."""


def _laws(seed: int, size: int = 40, ties: bool = False) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    p, q = (softmax(2 * rng.normal(size=size)) for _ in range(2))
    if ties:  # several tokens of one ratio, some of probability 0
        p = np.repeat(p[: size // 4], 4) / 4
        q = np.repeat(q[: size // 4], 4) / 4
        p[:3], q[5:9] = 0.0, 0.0
        p, q = p / p.sum(), q / q.sum()
    return p, q


def _told(p: Any, q: Any) -> tuple[Wanted, Prediction]:
    """What both say at one position."""
    with np.errstate(divide="ignore"):
        p, q = (torch.from_numpy(np.log(law))[None] for law in (p, q))
    return Wanted(p), Prediction(q)


def _refused(p: Any, q: Any, n: int) -> float:
    return 1 - upper_bound(Problem(p, IID(q, n)))


@pytest.mark.parametrize("n", [1, 2, 4, 16])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_the_value_is_what_the_best_rule_refuses(seed: int, ties: bool, n: int) -> None:
    """Never more, and less by no more than p of one step of the grid times its width."""
    p, q = _laws(seed, ties=ties)
    found = Refusal(n)(*_told(p, q)).item()
    exact = _refused(p, q, n)
    assert exact - GRID * p.max() - 1e-6 <= found <= exact + 1e-6
    if n == 1:
        assert found == pytest.approx(tvd(*_told(p, q)).item(), abs=2e-6)


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("seed", range(4))
def test_the_gradient_is_that_of_the_optimum(seed: int, n: int) -> None:
    """The envelope theorem: the best set stays, and the exact optimum changes by as much, to first order."""
    p, q = _laws(seed)
    logits = torch.tensor(np.log(q), requires_grad=True)
    Refusal(n)(Wanted(torch.from_numpy(np.log(p))), Prediction(logits)).backward()
    assert logits.grad is not None
    rng = np.random.default_rng(seed)
    for _ in range(3):
        way = rng.normal(size=q.size)
        ahead, behind = (_refused(p, softmax(np.log(q) + step * way), n) for step in (1e-4, -1e-4))
        assert float(logits.grad.numpy() @ way) == pytest.approx((ahead - behind) / 2e-4, abs=0.02)


def test_tokens_that_are_never_drafted_are_always_refused() -> None:
    p, q = _laws(7)
    kept = np.arange(0, 40, 2)
    own = q[kept] / q[kept].sum()
    whole = np.zeros(40)
    whole[kept] = own
    found = Refusal(3)(*_told(p[kept], own)).item()
    assert found == pytest.approx(_refused(p, whole, 3), abs=GRID * p.max() + 1e-6)


def test_a_sum_has_it_beside_others() -> None:
    both = _told(*_laws(1))
    torch.testing.assert_close(loss_named("kl+alpha:4")(*both), kl(*both) + Refusal(4)(*both))
