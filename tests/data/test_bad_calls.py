"""Whatever is passed: positions, or an error that says what is wrong."""

from pathlib import Path
from typing import Any

import numpy as np

from otspec import data
from tests.bad_calls import LAW, check_bad_calls


def test_bad_calls(tmp_path: Path) -> None:
    path = tmp_path / "positions.npz"
    np.savez(path, a=[LAW], b=[LAW], target_logits=[LAW], draft_logits=[LAW])
    names: dict[str, list[Any]] = {"target_key": [None], "draft_key": [None], "kind": [None, "logits"]}

    def position(**arguments: Any) -> Any:
        index = arguments.pop("index")
        return data.open_source(**arguments).position(index).target_logits

    check_bad_calls(position, {"name": [path, str(path)], "seed": [0], **names, "index": [0]}, 60, seed=0)
    check_bad_calls(position, {"name": ["shipped"], "seed": [0], **names, "index": [0, 255]}, 20, seed=1)
    check_bad_calls(data.FileSource.open, {"path": [path], **names}, 20, seed=2)
    source = data.open_source(path)
    check_bad_calls(lambda positions: data.check_positions(source, positions), {"positions": [1]}, 20, seed=3)
