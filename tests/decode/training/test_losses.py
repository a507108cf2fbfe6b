"""Losses by name: values by other means, gradients by differences, laws that are 0 somewhere."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon
from scipy.special import rel_entr, softmax

from otspec.decode.lessons.losses import LEAST, LOSSES, OF_FEATURES, Prediction, Wanted, loss_named
from otspec.errors import ProblemError

OF_LAWS = (*(name for name in LOSSES if name not in OF_FEATURES), "alpha:2", "topk:3", "jsd+0.5*topk:2")

POINT, OTHER, HALF, EVEN = np.eye(6)[0], np.eye(6)[1], np.eye(6)[:2].mean(0), np.full(6, 1 / 6)


def _told(p: Any, q: Any) -> tuple[Wanted, Prediction]:
    """What both say, with logits of the draft model that are not normalised."""
    with np.errstate(divide="ignore"):
        return Wanted(torch.from_numpy(np.log(p))), Prediction(torch.from_numpy(np.log(q) + 3.0))


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
    for name, each in wanted.items():
        assert loss_named(name)(*_told(p, q)).item() == pytest.approx(each.mean(), rel=1e-12)
    both = loss_named("kl+0.5*topk:2")(*_told(p, q)).item()
    assert both == pytest.approx((wanted["kl"] + wanted["topk:2"] / 2).mean(), rel=1e-12)


@pytest.mark.parametrize("name", OF_LAWS)
def test_gradients_are_those_of_differences(name: str) -> None:
    wanted, said = _told(*_laws())
    logits = said.logits.requires_grad_()
    assert torch.autograd.gradcheck(lambda given: loss_named(name)(wanted, Prediction(given)), logits)


@pytest.mark.parametrize("name", OF_LAWS)
def test_laws_that_are_0_somewhere_have_finite_losses_and_gradients(name: str) -> None:
    for p in (POINT, OTHER, HALF, EVEN):
        for q in (POINT, OTHER, HALF, EVEN):
            wanted, said = _told(p[None], q[None])
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
    assert loss_named("kl")(*_told(OTHER[None], POINT[None])).item() == pytest.approx(-LEAST)
    assert loss_named("reverse-kl")(*_told(POINT[None], OTHER[None])).item() == pytest.approx(-LEAST)
    assert loss_named("jsd")(*_told(POINT[None], OTHER[None])).item() == pytest.approx(np.log(2))
    logits = torch.tensor([[500.0, 0.0, 0.0]], requires_grad=True)  # as sure as can be, and wrong
    loss_named("kl")(Wanted(torch.tensor([[-500.0, 0.0, -500.0]])), Prediction(logits)).backward()
    torch.testing.assert_close(logits.grad, torch.tensor([[1.0, -1.0, 0.0]]))
    broken = Prediction(torch.tensor([[0.0, float("nan")]]))
    assert all(torch.isnan(loss_named(name)(Wanted(torch.zeros(1, 2)), broken)) for name in ("kl", "reverse-kl", "jsd"))


@pytest.mark.parametrize("name", ["alpha", "alpha:0", "alpha:x", "alpha:65", "topk", "topk:0", "topk:" + "9" * 5000])
def test_numbers_are_counts_of_a_sensible_size(name: str) -> None:
    with pytest.raises(
        ProblemError, match=r"known: kl, .* alpha:n for n of 1 to 64 drafts, topk:K for K of 1 to 1048576 tokens, and"
    ):
        loss_named(name)


@pytest.mark.parametrize("name", ["l2", "kl+", "", "KL", "2*", "reverse_kl"])
def test_names_that_nothing_has(name: str) -> None:
    with pytest.raises(ProblemError, match=r"no loss .*; known: kl, reverse-kl, jsd, tvd, eagle"):
        loss_named(name)


@pytest.mark.parametrize("weight", ["0", "-1", "nan", "inf", "x", ""])
def test_weights_that_are_none(weight: str) -> None:
    with pytest.raises(ProblemError, match=f"the weight of 'tvd' is '{weight}'; pass a number above 0"):
        loss_named(f"kl+{weight}*tvd")
