"""Decoding whose trees are verified on the device, here a CPU that is told to: texts have the target's law."""

from collections.abc import Sequence
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch

from otspec import ProblemError
from otspec.decode.base import graphs
from otspec.decode.base.drafts import AcceptedSlots, Drafts, Launched
from otspec.decode.verify import on_device
from otspec.decode.verify.captured import DeviceRule, GraphedVerifier, Inputs, verify_in_one
from otspec.decode.verify.on_device import (
    can_be_stacked,
    device_rule,
    followed_slots,
    verify_launched,
    verify_on_device,
)
from otspec.decode.verify.step import _matched
from otspec.decode.verify.verifiers import AcceptedTokens
from otspec.verification import Block, Nested, TokenWise, Tree
from otspec.verification.trees.shape import Shape
from otspec.verification.trees.topology import Topology
from tests.decode.graph_stand_in import called_again
from tests.each import each
from tests.verification.grid_nested import slots_of
from tests.verification.tree_batches import drawn, first_path, token_by_token

ON_THE_HOST = {"interval": token_by_token, "block": first_path}


def together(trees: list[Tree]) -> tuple[Drafts, Any]:
    """What a step has of these trees: their drafts, and the target's laws at all nodes."""
    laws = torch.from_numpy(np.concatenate([tree.draft for tree in trees]))
    return Drafts(trees, laws), torch.from_numpy(np.concatenate([tree.target for tree in trees]))


@each(rule=tuple(ON_THE_HOST), branching=((3, 1), (2, 2), (1, 1, 1), (1, 2, 1)), family=("tiny", "zeros"))
def test_a_step_gets_what_the_host_says_for_the_same_uniforms(rule: str, branching: Any, family: str) -> None:
    """Equal prefixes share a node in decoding, and are slots of their own on the device."""
    trees = drawn(family, 3, branching, 20)
    assert len({tree.size for tree in trees}) > (max(branching) > 1)
    shape = Shape.of(branching)
    dealt = torch.rand(
        (20, shape.slots + shape.depth, 3), dtype=torch.float64, generator=torch.Generator().manual_seed(5)
    )
    found = verify_on_device(DeviceRule(rule), *together(trees), torch.Generator().manual_seed(5))
    for tree, uniforms, extension in zip(trees, dealt.numpy(), found, strict=True):
        tokens, token = ON_THE_HOST[rule](tree, uniforms)
        assert tuple(tree.token[extension.nodes].tolist()) == tokens
        assert extension.token == token
        assert extension.nodes == tree.line(extension.last)


@each(rule=("nested", "interval", "block"), branching=((2,), (3, 1), (2, 2), (1, 1, 1), (4, 1, 1), (2, 3, 2)))
def test_slots_that_the_host_has_not_seen_are_verified_by_the_laws_of_the_first(rule: str, branching: Any) -> None:
    """Those of other slots of a prefix, and of rows behind the slots, may be anything."""
    trees, shape = drawn("tiny", 3, branching, 20), Shape.of(branching)
    drafts, laws = together(trees)
    target, drawn_from, tokens = np.full((len(trees), shape.slots + 2, 3), np.nan), [], []
    for own, tree in zip(target, trees, strict=True):
        node, token = slots_of(tree)
        own[tree.slot] = tree.target
        drawn_from.append(torch.from_numpy(tree.draft)[node[: shape.offsets[-2]]])
        tokens.append(token[1:])
    launched = Launched(shape, torch.stack(tokens), torch.stack(drawn_from), None, lambda: drafts)
    generators = [torch.Generator().manual_seed(5) for _ in range(2)]
    see, outcome = verify_launched(DeviceRule(rule), launched, torch.from_numpy(target), generators[0])
    found = see(trees)
    assert found == verify_on_device(DeviceRule(rule), drafts, laws, generators[1])
    check_accepted(outcome.read(shape, launched.tokens, outcome.came), trees, found)


def check_accepted(accepted: AcceptedSlots, trees: Sequence[Tree], found: Sequence[AcceptedTokens]) -> None:
    """The device has what the host has, of slots of equal prefixes any."""
    for slots, token, tree, one in zip(*accepted, trees, found, strict=True):
        node, depth = slots_of(tree)[0], len(one.nodes)
        assert node[slots[:depth]].tolist() == one.nodes
        assert (slots[depth:] == -1).all()
        assert token == one.token


@each(branching=((2,), (3, 1), (2, 2), (4, 1, 1), (2, 3, 2)))
def test_the_device_follows_the_target_as_the_host_does(branching: Any) -> None:
    trees, shape = drawn("tiny", 3, branching, 40), Shape.of(branching)
    drafted = torch.stack([slots_of(tree)[1][1:] for tree in trees])
    wanted = torch.randint(3, (len(trees), shape.slots + 2), generator=torch.Generator().manual_seed(3))
    for own, tree in zip(wanted, trees, strict=True):  # equal prefixes have one law
        own[: shape.slots] = own[tree.slot][slots_of(tree)[0]]
    at_nodes = np.concatenate([own[tree.slot] for own, tree in zip(wanted.numpy(), trees, strict=True)])
    found = _matched(trees, at_nodes).extensions
    assert len({len(one.nodes) for one in found}) > 1
    check_accepted(followed_slots(shape, drafted, wanted), trees, found)
    nothing = followed_slots(shape, torch.full_like(drafted, -1), torch.full_like(wanted, -1))
    assert (nothing.slots == -1).all()


def test_drafts_that_cannot_be_stacked_go_to_the_host() -> None:
    """Texts of which one has drafts and another has none, and paths that end early."""
    laws = torch.full((1, 4), 0.25, dtype=torch.float64)
    root = Topology.merge(Shape(()), np.empty(0, dtype=np.int64))
    one = Topology.merge(Shape((2,)), np.array([0, 1]))
    short = Topology.merge(Shape((2,)), np.array([0, -1]))
    assert can_be_stacked(Drafts([one, one], laws))
    assert not can_be_stacked(Drafts([root], laws))
    assert not can_be_stacked(Drafts([one, root], laws))
    assert not can_be_stacked(Drafts([one, short], laws))
    assert not can_be_stacked(Drafts([one], laws, rows=[np.zeros((2, 1), dtype=np.int64)]))


def test_which_rules_the_device_has() -> None:
    gpu, cpu = torch.device("cuda"), torch.device("cpu")
    assert device_rule(Nested(), gpu, None) == DeviceRule("nested", 0.5)
    assert device_rule(Nested(sigma=0, parts=7), gpu, None) == DeviceRule("nested", 0.0)
    assert device_rule(Nested(sigma=0.7, parts=7), gpu, None) == DeviceRule("nested", 0.7)
    assert device_rule(Block(), gpu, None) == DeviceRule("block")
    assert device_rule(TokenWise("interval"), gpu, None) == DeviceRule("interval")
    assert device_rule(TokenWise("max_flow"), gpu, None) is None
    assert device_rule(Nested(), cpu, None) is None
    assert device_rule(Nested(), gpu, "host") is None
    assert device_rule(Block(), cpu, "device") == DeviceRule("block")


def test_laws_that_are_none_are_named() -> None:
    drafts, laws = together(drawn("tiny", 3, (2, 1), 3))
    laws[drafts.trees[0].size, 1] = torch.nan
    with pytest.raises(ProblemError, match=r"target at slot 0 of tree 1\[1\] is nan"):
        verify_on_device(DeviceRule("nested"), drafts, laws, torch.Generator())


@each(rule=("nested", "block"))
def test_what_a_graph_reads_is_filled_anew_at_every_step(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    capture = mock.Mock(side_effect=called_again)
    monkeypatch.setattr(graphs, "capture", capture)
    inputs = {seed: stacked(drawn("tiny", 3, (3, 1), 4, seed=seed)) for seed in range(5)}
    captured = GraphedVerifier(DeviceRule(rule), inputs[0], (3, 1), object())
    outputs = {seed: captured.verify(trees) for seed, trees in inputs.items()}
    capture.assert_called_once()
    assert captured._replayed.captured
    assert len({len(trees.target) for trees in inputs.values()}) > 1
    for seed, trees in inputs.items():
        assert torch.equal(outputs[seed], trees.verify(DeviceRule(rule), (3, 1)))


def stacked(trees: list[Tree]) -> Inputs:
    """What a step verifies of these."""
    with mock.patch.object(on_device, "verify_in_one", side_effect=verify_in_one) as request:
        verify_on_device(
            DeviceRule("block"), *together(trees), torch.Generator().manual_seed(sum(tree.size for tree in trees))
        )
    found: Inputs = request.call_args.args[1]
    return found
