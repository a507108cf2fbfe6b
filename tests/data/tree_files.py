"""Files of trees without a language model: those of a synthetic one, written as `otspec record` writes them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from otspec.data.recorded import SCHEMA, PositionFile, Tensor
from otspec.data.trees import TREES_FORMAT
from otspec.verification import Tree, synthetic

Arrays = dict[str, np.ndarray[Any, Any]]


def drawn_trees(count: int = 6, vocab: int = 5, paths: int = 2, depth: int = 2) -> list[Tree]:
    """Each of a model of its own."""
    rng = np.random.default_rng(0)
    models = [synthetic("tiny", vocab, seed) for seed in range(count)]
    return [model.tree(model.sample(paths, depth, rng)) for model in models]


def arrays_of(tree: Tree) -> Arrays:
    """What a file holds of a tree, laws in float32."""
    with np.errstate(divide="ignore"):
        target, draft = (np.log(laws).astype(np.float32) for laws in (tree.target, tree.draft))
    paths = tree.token[tree.node[:, 1:]].astype(np.int32)
    return {"paths": paths, "nodes": tree.node.astype(np.int32), "target_logits": target, "draft_logits": draft}


def write_trees(
    path: Path,
    trees: list[Tree],
    prompts: int = 3,
    spoil: Callable[[Arrays], None] = lambda arrays: None,
    about: Mapping[str, Any] | None = None,
    without: str = "",
) -> Path:
    """Write trees, the first one spoilt."""
    count, paths, depth, vocab = len(trees), trees[0].count, trees[0].length, trees[0].target.shape[1]
    slots = trees[0].shape.slots
    layout = {
        "paths": Tensor("I32", (count, paths, depth)),
        "nodes": Tensor("I32", (count, paths, depth + 1)),
        "target_logits": Tensor("F32", (count, slots, vocab)),
        "draft_logits": Tensor("F32", (count, slots - paths, vocab)),
    }
    layout = {name: tensor for name, tensor in layout.items() if name != without}
    header = {"format": TREES_FORMAT, "vocab": vocab, "paths": paths, "depth": depth, "prompts": {"count": prompts}}
    header |= {"schema": SCHEMA, "stored": "float32", "top_k": None, "positions": count}
    with PositionFile(path, layout, {**header, **(about or {})}) as file:
        for row, tree in enumerate(trees):
            arrays = arrays_of(tree)
            if row == 0:
                spoil(arrays)
            for name in layout:
                file.write(name, row, arrays[name].tobytes())
        file.finish({**header, **(about or {})})
    return path
