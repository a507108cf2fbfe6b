"""The shipped pair for other engines: tensors have llama.cpp's names and order."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("safetensors")
pytest.importorskip("torch")

from benchmarks.engine_pair import interleaved, name_of
from otspec.decode.shipped import FOLDER
from otspec.laws import FloatArray


def turned(vector: FloatArray, heads: int, angle: float, *, neighbours: bool) -> FloatArray:
    """Rotary positions: each pair of coordinates of a head is turned by an angle of its own."""
    pairs = vector.reshape(heads, -1, 2) if neighbours else vector.reshape(heads, 2, -1).swapaxes(1, 2)
    angles = angle * np.arange(1, pairs.shape[1] + 1)
    return np.stack(
        (
            pairs[..., 0] * np.cos(angles) - pairs[..., 1] * np.sin(angles),
            pairs[..., 0] * np.sin(angles) + pairs[..., 1] * np.cos(angles),
        ),
        axis=-1,
    )


def test_attention_is_the_same_in_both_orders() -> None:
    rng = np.random.default_rng(0)
    query, key, x, y = rng.normal(size=(12, 5)), rng.normal(size=(12, 5)), rng.normal(size=5), rng.normal(size=5)
    scores = [
        (turned(a @ x, 2, 0.3, neighbours=near) * turned(b @ y, 2, 1.1, neighbours=near)).sum(axis=(1, 2))
        for near, a, b in ((False, query, key), (True, interleaved(query, 2), interleaved(key, 2)))
    ]
    np.testing.assert_allclose(scores[0], scores[1])
    assert not np.allclose(interleaved(query, 2), query)


@pytest.mark.parametrize("model", ["target", "draft"])
def test_every_tensor_has_a_name(model: str) -> None:
    from safetensors.numpy import load_file

    layers = json.loads((FOLDER / model / "config.json").read_text())["num_hidden_layers"]
    names = {name_of(name) for name in load_file(FOLDER / model / "model.safetensors")}
    assert len(names) == 2 + 9 * layers
    assert {"token_embd.weight", "output_norm.weight", f"blk.{layers - 1}.ffn_down.weight"} <= names
