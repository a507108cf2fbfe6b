"""What is promised of trees of tensors: types, flags, errors, no waiting, one graph; and the audit."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from torch import Tensor

from otspec import ProblemError
from otspec.verification import device
from otspec.verification.device import Links, trees, verify_trees
from otspec.verification.tensors import majorant
from otspec.verification.trees.layout import linked_layout
from otspec.verification.trees.shape import Shape
from tests import laws
from tests.each import each
from tests.refusals import Refused, check_refused
from tests.verification.row_batches import batch as row_batch
from tests.verification.row_batches import pairs_of, tensors
from tests.verification.tree_batches import SEVERAL, WAYS, batch, drawn, links_of, outputs


@each(
    links=(
        Links(torch.tensor([[1, 0, -1]]), torch.tensor([[-1, 2, -1]])),  # back to the root
        Links(torch.tensor([[1, 2, -1]]), torch.tensor([[-1, 2, -1]])),  # two ways to one slot
        Links(torch.tensor([[1, -1, -1]]), torch.tensor([[-1, 3, -1]])),  # beyond the last
        Links(torch.tensor([[1, 2, -1]]), torch.tensor([[-1, -1, -1]]), depth=1),  # deeper than said
        Links(torch.tensor([[1, -1, -1]]), torch.tensor([[-1, 2, -1]]), width=1),  # wider than said
        Links(torch.tensor([[-1, -1, -1]]), torch.tensor([[1, 2, -1]])),  # a brother of the root
    )
)
def test_links_that_are_no_tree_are_flagged(links: Links) -> None:
    even, tokens = torch.full((1, 3, 2), 0.5, dtype=torch.float64), torch.zeros((1, 3), dtype=torch.long)
    for rule in trees.RULES:
        found = verify_trees(even, even, tokens, links, torch.Generator(), rule=rule)
        assert (found.valid.item(), found.accepted.item(), found.token.item()) == (False, 0, 0)
    with pytest.raises(ProblemError, match="the links of tree 0 are none of a tree"):
        verify_trees(even, even, tokens, links, torch.Generator(), check=True)


def test_a_slot_that_hangs_below_nothing_is_not_in_the_tree() -> None:
    links = Links(torch.tensor([[1, -1, 3, -1]]), torch.tensor([[-1, -1, -1, -1]]))
    layout = linked_layout(links)
    assert layout.valid.all()
    assert layout.depth.tolist() == [[0, 1, -1, -1]]


PATHS = (3, 1, 1)


@each(dtype=(torch.float32, torch.bfloat16, torch.float16), rule=trees.RULES)
def test_laws_are_read_in_the_type_of_a_model(dtype: torch.dtype, rule: str) -> None:
    target, draft, tokens, uniforms = batch(drawn("tiny", 6, PATHS, SEVERAL))
    inputs = target.to(dtype), draft.to(dtype)
    wide = [law.double() / law.double().sum(dim=-1, keepdim=True) for law in inputs]
    expected = outputs(verify_trees(wide[0], wide[1], tokens, PATHS, uniforms, rule=rule))
    assert outputs(verify_trees(*inputs, tokens.int(), PATHS, uniforms, rule=rule)) == expected


@each(rule=trees.RULES)
def test_a_tree_does_not_depend_on_those_beside_it(rule: str) -> None:
    inputs = batch(drawn("tiny", 5, PATHS, 5))
    together = outputs(verify_trees(*inputs[:3], PATHS, inputs[3], rule=rule))
    for b, output in enumerate(together):
        target, draft, tokens, uniforms = (part[b : b + 1] for part in inputs)
        assert outputs(verify_trees(target, draft, tokens, PATHS, uniforms, rule=rule)) == [output]
    links = links_of(Shape.of(PATHS), 5)
    links = Links(links.first_child[:, :-2], links.next_sibling[:, :-2], links.depth, links.width)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trees, "GROUP", 2)
        assert outputs(verify_trees(*inputs[:3], PATHS, inputs[3], rule=rule)) == together
        assert outputs(verify_trees(*inputs[:3], links, inputs[3], rule=rule)) == together


def spoil(what: str, target: Tensor, draft: Tensor, tokens: Tensor) -> None:
    """Make tree 2 of a batch no problem."""
    if what == "nan":
        target[2, 4, 1] = torch.nan
    elif what == "negative":
        draft[2, 1, 0] -= 1.0
    elif what == "total":
        target[2, 9] *= 0.9
    elif what == "token":
        tokens[2, 5] = 6
    elif what == "undrafted":
        token = tokens[2, 3]
        draft[2, 0, token] = 0
        draft[2, 0] /= draft[2, 0].sum()


MESSAGES = {
    "nan": r"target at slot 4 of tree 2\[1\] is nan",
    "negative": r"draft at slot 1 of tree 2\[0\] is -",
    "total": "target at slot 9 of tree 2 sums to 0.9",
    "token": "tree 2 has token 6 at slot 5",
    "undrafted": "tree 2 has token . at slot [123], which the draft law of its parent, over 6 tokens, cannot draw",
}


@each(what=tuple(MESSAGES), rule=trees.RULES)
def test_a_tree_that_is_not_valid_is_flagged_and_leaves_the_others_alone(what: str, rule: str) -> None:
    inputs = batch(drawn("tiny", 6, PATHS, 4))
    right = verify_trees(*inputs[:3], PATHS, inputs[3], rule=rule)
    spoil(what, *inputs[:3])
    found = verify_trees(*inputs[:3], PATHS, inputs[3], rule=rule)
    assert found.valid.tolist() == [True, True, False, True]
    assert (found.accepted[2].item(), found.token[2].item()) == (0, 0)
    assert (found.slots[2] == -1).all()
    for b in (0, 1, 3):
        assert found.tokens[b].tolist() == right.tokens[b].tolist()
        assert found.token[b] == right.token[b]
    with pytest.raises(ProblemError, match=MESSAGES[what]):
        verify_trees(*inputs[:3], PATHS, inputs[3], rule=rule, check=True)


TARGET, DRAFT, TOKENS, UNIFORMS = batch(drawn("tiny", 6, PATHS, 4))
ROWS = torch.zeros_like(TOKENS), torch.zeros_like(TOKENS[:, :7])
ROWS[1][1, 2] = 99


def call(**changes: Any) -> Callable[[], object]:
    """`verify_trees` on valid trees, one argument replaced."""
    inputs = {"target": TARGET, "draft": DRAFT, "tokens": TOKENS, "topology": PATHS, "rng": UNIFORMS, **changes}
    return lambda: verify_trees(**inputs)


REFUSED: list[Refused] = [
    (call(rule="traversal"), "rule is 'traversal'; known: nested, block, interval"),
    (call(by="sorting"), "by is 'sorting', and the rule 'nested'; only 'interval' has several ways"),
    (call(rule="interval", by="cuda"), "by is 'cuda'; known: sorting, buckets, triton"),
    (call(rule="interval", by="buckets", kernels=True), "by is 'buckets', and kernels is True"),
    (call(rule="interval", by="triton", kernels=False), "by is 'triton', and kernels is False"),
    (call(sigma=-1), "sigma is -1; it is between 0"),
    (call(topology=(2, 1, 1)), r"tokens are for 10 slots, and branching \(2, 1, 1\) has 7"),
    (call(topology=()), r"the topology is \(\); pass the number of children"),
    (call(topology=(3, 0, 1)), "branching is 0; pass an integer >= 1"),
    (call(draft=DRAFT[:, :, 1:]), "they need laws over the same tokens"),
    (call(draft=DRAFT[:, :6]), r"draft has laws for 6 slots, and 7 of branching \(3, 1, 1\) have children"),
    (call(target=TARGET[:, 1:]), r"they need \(B, S, V\) and \(B, I, V\)"),
    (call(target=TARGET.numpy()), "target is ndarray; pass a tensor of floats"),
    (call(tokens=TOKENS.double()), "token ids are integers"),
    (call(tokens=TOKENS[:, :1]), "S >= 2"),
    (call(rng=UNIFORMS[:, 1:]), r"need torch.float64 of shape \(4, 13, 3\)"),
    (call(rng=np.random.default_rng(0)), "take a torch.Generator"),
    (call(topology=Links(TOKENS[:, 1:], TOKENS)), r"first_child is .* \(4, 9\); pass integers of the shape"),
    (call(topology=Links(TOKENS, TOKENS, depth=0)), "depth is 0; pass an integer >= 1"),
    (
        call(target=TARGET[0], draft=DRAFT[0], rows=(TOKENS[:, 1:], TOKENS)),
        r"the rows of target are torch.int64 of shape \(4, 9\)",
    ),
    (
        call(target=TARGET[0, :1], draft=DRAFT[0, :1], rows=ROWS, check=True),
        "slot 2 of tree 1 has row 99 of 1 of draft",
    ),
    (call(target=TARGET.to("meta")), "target is on meta, and tokens on cpu; move them to one"),
]


def test_what_is_wrong_is_named() -> None:
    check_refused(REFUSED)


ROW_CALLS: dict[str, Callable[..., device.RowVerification]] = {
    "logits": lambda p, q, drafts, uniforms: device.verify_logits(p, q, drafts, uniforms, temperature=0.7),
    "truncated": lambda p, q, drafts, uniforms: device.verify_truncated(
        p, torch.arange(q.shape[1], device=q.device).expand_as(q), q, drafts, uniforms
    ),
    "buckets": lambda *inputs: device.verify_rows(*inputs, by="buckets"),
}


@pytest.mark.parametrize("way", [*WAYS, *ROW_CALLS])
def test_one_graph_without_breaks(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one round of each kind: all of them take minutes to trace.  Rows by sorting are a part of the first two."""
    monkeypatch.setattr(majorant, "HALVINGS", 1)
    monkeypatch.setattr(majorant, "ROUNDS", 1)
    rows: Any = tensors(*row_batch(laws.model, np.random.default_rng(2), 20, 2, 3))
    in_trees: Any = batch(drawn("tiny", 4, (2, 1), 2))

    def verified(target: Tensor, draft: Tensor, tokens: Tensor, uniforms: Tensor) -> device.TreeVerification:
        return verify_trees(target, draft, tokens, (2, 1), uniforms, **WAYS[way])

    of_trees: Any = (verified, in_trees, outputs)
    call, inputs, read = of_trees if way in WAYS else (ROW_CALLS[way], rows, pairs_of)
    assert read(torch.compile(call, fullgraph=True, backend="eager")(*inputs)) == read(call(*inputs))
