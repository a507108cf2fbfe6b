"""Losses by name: values by other means, gradients by differences, laws that are 0 somewhere, and what is no name."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon
from scipy.special import rel_entr, softmax

from otspec.certificate import upper_bound
from otspec.decode.distillation import losses
from otspec.decode.distillation.losses import Prediction, TeacherTargets, loss_named
from otspec.errors import ProblemError
from otspec.problem import Problem
from otspec.schemes import IID
from tests import laws
from tests.each import each

OF_LAWS = (*(name for name in losses.LOSSES if name not in losses.OF_FEATURES), "alpha:2", "topk:3", "jsd+0.5*topk:2")

POINT, OTHER, HALF, EVEN = np.eye(6)[0], np.eye(6)[1], np.eye(6)[:2].mean(0), np.full(6, 1 / 6)


def _compared(p: Any, q: Any) -> tuple[TeacherTargets, Prediction]:
    """What both say, with logits of the draft model that are not normalised."""
    with np.errstate(divide="ignore"):
        return TeacherTargets(torch.from_numpy(np.log(p))), Prediction(torch.from_numpy(np.log(q) + 3.0))


def _laws(positions: int = 5) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return tuple(softmax(2 * rng.normal(size=(2, positions, 6)), axis=-1))


def test_values_are_those_of_scipy() -> None:
    p, q = _laws()
    best = np.sort(p)[:, -2:]
    chosen = np.take_along_axis(q, np.argsort(p)[:, -2:], axis=-1)
    wanted = {
        "kl": rel_entr(p, q).sum(-1),
        "reverse-kl": rel_entr(q, p).sum(-1),
        "jsd": jensenshannon(p, q, axis=-1) ** 2,
        "tvd": np.abs(p - q).sum(-1) / 2,
        "topk:2": -(best * np.log(chosen)).sum(-1),
        "topk:99": -(p * np.log(q)).sum(-1),
    }
    for name, values in wanted.items():
        assert loss_named(name)(*_compared(p, q)).item() == pytest.approx(values.mean(), rel=1e-12)
    both = loss_named("kl+0.5*topk:2")(*_compared(p, q)).item()
    assert both == pytest.approx((wanted["kl"] + wanted["topk:2"] / 2).mean(), rel=1e-12)
    # Of hidden states as well: smoothly in what is near, and a tenth of the law's.
    states = 2 * np.random.default_rng(1).normal(size=(2, 5, 4))
    (target, draft), (one, other), off = _compared(p, q), torch.from_numpy(states), np.abs(states[0] - states[1])
    assert off.min() < 1 < off.max()
    smooth = np.where(off < 1, off**2 / 2, off - 0.5).mean()
    found = loss_named("eagle")(target._replace(features=one), draft._replace(features=other)).item()
    assert found == pytest.approx(smooth + 0.1 * wanted["topk:99"].mean(), rel=1e-5)


@pytest.mark.parametrize("name", OF_LAWS)
def test_gradients_are_those_of_differences(name: str) -> None:
    wanted, said = _compared(*_laws())
    logits = said.logits.requires_grad_()
    assert torch.autograd.gradcheck(lambda inputs: loss_named(name)(wanted, Prediction(inputs)), logits)
    more, fewer = torch.cat((logits, logits + 9), dim=-1), logits[..., :-1]  # rows of a head that the other has not
    cut = torch.cat((fewer, torch.full_like(logits[..., :1], -torch.inf)), dim=-1)
    for one, same in ((more, logits), (fewer, cut)):
        assert loss_named(name)(wanted, Prediction(one)) == loss_named(name)(wanted, Prediction(same))


@pytest.mark.parametrize("name", OF_LAWS)
def test_laws_that_are_0_somewhere_have_finite_losses_and_gradients(name: str) -> None:
    for p in (POINT, OTHER, HALF, EVEN):
        for q in (POINT, OTHER, HALF, EVEN):
            wanted, said = _compared(p[None], q[None])
            logits = said.logits.requires_grad_()
            loss = loss_named(name)(wanted, Prediction(logits))
            loss.backward()
            assert torch.isfinite(loss)
            assert logits.grad is not None
            assert torch.isfinite(logits.grad).all()
            if p is q and "topk" not in name:
                assert loss.item() == pytest.approx(0, abs=1e-12)
                assert logits.grad.abs().max() < 1e-12


def test_what_is_infinite_elsewhere_is_far_and_not_forgotten() -> None:
    assert loss_named("kl")(*_compared(OTHER[None], POINT[None])).item() == pytest.approx(-losses.LEAST)
    assert loss_named("reverse-kl")(*_compared(POINT[None], OTHER[None])).item() == pytest.approx(-losses.LEAST)
    assert loss_named("jsd")(*_compared(POINT[None], OTHER[None])).item() == pytest.approx(np.log(2))
    logits = torch.tensor([[500.0, 0.0, 0.0]], requires_grad=True)  # as sure as can be, and wrong
    loss_named("kl")(TeacherTargets(torch.tensor([[-500.0, 0.0, -500.0]])), Prediction(logits)).backward()
    torch.testing.assert_close(logits.grad, torch.tensor([[1.0, -1.0, 0.0]]))
    broken = Prediction(torch.tensor([[0.0, float("nan")]]))
    assert all(
        torch.isnan(loss_named(name)(TeacherTargets(torch.zeros(1, 2)), broken)) for name in ("kl", "reverse-kl", "jsd")
    )


NUMBERS = r"known: kl, .* alpha:n for n of 1 to 64 drafts, topk:K for K of 1 to 1048576 tokens, and"
UNKNOWN = r"no loss .*; known: kl, reverse-kl, jsd, tvd, eagle"
REFUSED = {
    **dict.fromkeys(("alpha", "alpha:0", "alpha:x", "alpha:65", "topk", "topk:0", "topk:" + "9" * 5000), NUMBERS),
    **dict.fromkeys(("l2", "kl+", "", "KL", "2*", "reverse_kl"), UNKNOWN),
    **{f"kl+{weight}*tvd": f"the weight of 'tvd' is '{weight}'; pass a n" for weight in ("0", "-1", "nan", "x", "")},
}


@each(name=REFUSED.items())
def test_names_that_nothing_has_are_refused(name: tuple[str, str]) -> None:
    with pytest.raises(ProblemError, match=name[1]):
        loss_named(name[0])


# --- alpha:n: 1 - alpha*(n) as the certificate has it, its gradient by differences, ties among the laws

GRID = 2 ** (1 / losses.STEPS) - 1
"""By how much p / q differs within what the loss takes for one."""


def _refused(p: Any, q: Any, n: int) -> float:
    return 1 - upper_bound(Problem(p, IID(q, n)))


@each(seed=range(6), kind=(laws.dirichlet(0.5), laws.zeros(laws.tied_ratios, 0.2)), n=(1, 2, 64))
def test_the_value_is_what_the_best_rule_refuses(seed: int, kind: laws.Kind, n: int) -> None:
    """Never more, and less by no more than p of one step of the grid times its width."""
    p, q = kind(np.random.default_rng(seed), 40)
    found = loss_named(f"alpha:{n}")(*_compared(p[None], q[None])).item()
    exact = _refused(p, q, n)
    assert exact - GRID * p.max() - 1e-6 <= found <= exact + 1e-6
    if n == 1:
        assert found == pytest.approx(losses.tvd(*_compared(p[None], q[None])).item(), abs=2e-6)


def test_tokens_that_are_never_drafted_are_always_refused() -> None:
    p, q = laws.uniform(np.random.default_rng(7), 40)
    kept = np.arange(0, 40, 2)
    own = q[kept] / q[kept].sum()
    whole = np.zeros(40)
    whole[kept] = own
    found = losses.Refusal(3)(*_compared(p[None, kept], own[None])).item()
    assert found == pytest.approx(_refused(p, whole, 3), abs=GRID * p.max() + 1e-6)
