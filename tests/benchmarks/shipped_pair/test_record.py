from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
from benchmarks.shipped_pair import record as command
from otspec.data import FileSource, open_source
from otspec.decode.shipped import FOLDER, TRAINING


def test_recording_anew_gives_what_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(FOLDER, tmp_path / "pair")
    monkeypatch.setattr(command, "PROMPTS", command.PROMPTS[:1])
    command.main(out=tmp_path / "anew.npz", folder=tmp_path / "pair")
    anew, recorded = FileSource.open(tmp_path / "anew.npz"), open_source("shipped")
    # The first prompts come first, so their positions are the recorded ones, as far as another machine samples alike:
    # it may round a draw differently, and then goes on differently.
    same = [
        np.allclose(anew.position(index).target_logits, recorded.position(index).target_logits, atol=0.05)
        for index in range(len(anew))
    ]
    assert np.mean(same) > 0.8
    profile = json.loads((tmp_path / "pair" / TRAINING).read_text())["profile"]
    assert profile["positions"] == len(anew) == 64
