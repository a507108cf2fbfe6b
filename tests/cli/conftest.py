"""Commands in an empty folder, and tiny random pairs that they are told of."""

import json
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest

from tests.cli.running import Otspec, Pair, runner


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
TEXTS = {"text.txt": "import os\n", "blank.txt": "\n  \n", "empty": "", "there.safetensors": "a result of hours"}
TEXTS["q.jsonl"] = '{"turns": ["a", "b"]}\n'


@pytest.fixture
def files(otspec: Otspec) -> list[Path]:
    """A working directory with a good file, p.npz, and many not what they should be."""
    logits = np.random.default_rng(0).normal(size=(2, 4, 50))
    np.savez("p.npz", target_logits=logits[0], draft_logits=logits[1])
    np.save("few.npy", [3, 1, 2, 5])
    Path("deep.safetensors").write_bytes(struct.pack("<Q", len(NESTED)) + NESTED.encode())
    Path("binary.txt").write_bytes(bytes(range(256)))
    for name, text in TEXTS.items():
        Path(name).write_text(text)
    return sorted(Path().iterdir())
