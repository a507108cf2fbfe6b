"""Commands in an empty folder, tiny random pairs that they are told of, and a module of somebody's."""

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.running import Otspec, Pair, runner
from tests.data.tree_files import drawn_trees, write_trees


@pytest.fixture
def otspec(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Otspec:
    """The command, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return runner(monkeypatch, capsys)


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """A tiny random pair, which nobody changes."""
    from tests.saved_pair import save  # needs torch, and the tests of most commands do not

    return Pair(*map(str, save(tmp_path_factory.mktemp("pair"))))


@pytest.fixture(scope="session")
def chatty(saved: Pair, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """The same pair, whose tokenizer has a chat template."""
    from tests.decode.test_conversations import TEMPLATE

    folder = tmp_path_factory.mktemp("chatty")
    for name, place in saved._asdict().items():
        shutil.copytree(place, folder / name)
        (folder / name / "chat_template.jinja").write_text(TEMPLATE)
    return Pair(str(folder / "target"), str(folder / "draft"))


@pytest.fixture
def prompts(tmp_path: Path) -> str:
    """A file of three, in the working directory."""
    (tmp_path / "prompts.txt").write_text("def f(x):\n\nimport os\nclass A:\n")
    return "--prompts prompts.txt"


@pytest.fixture
def importable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """Put a module of somebody's into the working directory."""

    def write(name: str, source: str) -> Path:
        (tmp_path / name).write_text(source)
        monkeypatch.syspath_prepend(tmp_path)
        return tmp_path

    return write


@pytest.fixture
def tasks(tmp_path: Path) -> str:
    """A file of three conversations, in the working directory."""
    lines = [
        {"question_id": 1, "category": "writing", "turns": ["ab", "c"]},
        {"question_id": 2, "category": "math", "turns": ["d"]},
        {"question_id": 3, "category": "writing", "turns": ["e", "f"]},
    ]
    (tmp_path / "question.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return "question.jsonl"


NESTED = "[" * 100_000
TEXTS = {
    "text.txt": "import os\n",
    "blank.txt": "\n  \n",
    "empty": "",
    "text.npz": "no positions",
    "there.safetensors": "a result of hours",
    "full/thesis.tex": "keep me",
    "strange.json": '{"sources": 3}',
    "list.json": "[1]",
    "deep.json": NESTED,
    "number.json": "3",
    "half.json": '{"sources": [',
    "half.jsonl": '{"prompt": "a"}\n{"prompt": "\\ud800b"}\n',
    "no.jsonl": '{"prompt": "a"}\nb\n',
    "other.jsonl": '{"texts": "a"}\n',
    "q.jsonl": '{"turns": ["a", "b"]}\n',
}


@pytest.fixture
def files(otspec: Otspec) -> list[Path]:
    """A working directory with two good files, p.npz and trees.safetensors, and many not what they should be."""
    logits = np.random.default_rng(0).normal(size=(2, 4, 50))
    masked, holes = np.where(np.eye(2, 5) > 0, -np.inf, 0.0), np.full((1, 6), np.nan)
    objects, ones = np.array([{}]), np.ones((1, 6), dtype=int)
    positions: dict[str, tuple[Any, ...]] = {
        "p": tuple(logits),
        "masked": (masked, masked),
        "pickled": (objects, objects),
        "whole": (ones, ones),
        "cube": (logits, logits),
        "one": (logits[0],),
        "apart": (logits[0], logits[1, :, :5]),
        "empty": (),
    }
    for name, both in positions.items():
        np.savez(f"{name}.npz", **dict(zip(("target_logits", "draft_logits"), both, strict=False)))
    np.savez("holes.npz", target_probs=holes, draft_probs=np.full((1, 6), 1 / 6))
    for name, array in {"high": [3, 5000], "few": [3, 1, 2, 5]}.items():
        np.save(f"{name}.npy", array)
    write_trees(Path("trees.safetensors"), drawn_trees(2))
    Path("deep.safetensors").write_bytes(struct.pack("<Q", len(NESTED)) + NESTED.encode())
    for name in ("binary.txt", "binary.npz", "binary.safetensors"):
        Path(name).write_bytes(bytes(range(256)))
    Path("full").mkdir()
    for name, text in TEXTS.items():
        Path(name).write_text(text)
    return sorted(Path().iterdir())
