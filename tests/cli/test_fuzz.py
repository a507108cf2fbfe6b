"""Wrong calls of the command, at random: each is a line on stderr and exit status 1 or 2, and none a traceback."""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from otspec.extras import installed
from tests.cli.test_commands import otspec_command
from tests.data.tree_files import drawn_trees, write_trees

CALLS = 100
HUGE = "9" * 25

COUNTS = ("0", "-1", "1.5", "ten", "", "nan", "1e3", HUGE, "0x10")
LISTS = ("", ",", "0", "10,,20", "ten", "-5", "10;20", HUGE, "9" * 5000, "2.5")
SEEDS = ("-1", "ten", "1.5", HUGE, "")
TEMPERATURES = ("-1", "nan", "inf", "hot", "", "-0.5")
MASSES = ("0", "2", "-0.1", "nan", "most", "", "inf")
SOLVERS = (
    *("", ",", ":", "::", "nope", "lp2", "interval,nope", "nope:x", "json:loads", "os:path", "..a:B", ".:X", "a b:C"),
    *("interval:", "interval:tol", "interval:tol=", "interval:tol=small", "interval:tol=-1", "interval:tol=nan"),
    *("max_flow:engine=", "max_flow:engine=scipy", "kseq:gamma=half", "interval:speed=9"),
)
FILES = (
    *("", "nowhere.npz", ".", "empty.npz", "text.npz", "binary.npz", "pickled.npz", "cube.npz", "whole.npz", "one.npz"),
    *("holes.npz", "apart.npz", "other.txt", "binary.safetensors"),
)
OUTS = ("nowhere/x", ".", "/dev/null/x", "other.txt/x")
JSONS = ("nowhere.json", "binary.npz", "list.json", "deep.json", "number.json", "half.json", ".", "strange.json")
KINDS = ("", "laws", "LOGITS", "probs,logits")
NAMES = ("", "nope", "iid2", "IID", "-")

GOOD: Mapping[str, Sequence[str]] = {
    "solve": ("good.npz", "--n", "2", "--top-k", "4"),
    "bench": ("--data", "good.npz", "--k", "4", "--n", "2", "--positions", "1", "--solver", "interval"),
    "bench decode": ("--first", "1"),
    "bench paths": ("--data", "trees.safetensors", "--first", "1", "--solver", "interval"),
    "record": ("--out", "x.safetensors"),
    "audit": ("kseq", "--n", "1"),
    "claims": ("--claim", "hit-submodular", "--trials", "1"),
    "decode": ("--prompt", "a"),
    "tune": ("--out", "settings.json"),
    "router": ("other.txt", "--out", "a.safetensors"),
    "affinity": ("other.txt", "--out", "a.safetensors"),
}
"""Calls that would do, but for what is then made wrong in them."""

WRONG: Mapping[str, Mapping[str, Sequence[str]]] = {
    "solve": {
        "FILE": FILES,
        "--n": COUNTS,
        "--top-k": COUNTS,
        "--top-p": MASSES,
        "--temperature": TEMPERATURES,
        "--draft-temperature": TEMPERATURES,
        "--solver": SOLVERS,
        "--positions": ("0", "-3", "9", "all", HUGE),
        "--seed": SEEDS,
        "--target-key": NAMES,
        "--draft-key": NAMES,
        "--kind": KINDS,
        "--out": OUTS,
        "--nope": ("1",),
    },
    "bench": {
        "--k": LISTS,
        "--n": LISTS,
        "--solver": SOLVERS,
        "--positions": ("0", "-3", "9", "all", HUGE),
        # Not positions that are no laws: these are measured, refused one by one, and reported on.
        "--data": (*(name for name in FILES if name != "holes.npz"), "good.npz,nowhere.npz"),
        "--target-key": NAMES,
        "--draft-key": NAMES,
        "--kind": KINDS,
        "--scheme": (*NAMES, "independent"),
        "--top-p": MASSES,
        "--temperature": TEMPERATURES,
        "--jobs": ("0", "-1", "many", HUGE),
        "--seed": SEEDS,
        "--budget": ("0", "-1", "nan", "inf", "long", ""),
        "--remeasure": ("nope", "kseq"),
        "--against": ("", "nowhere", ".", "full", "good.npz"),
        "--backend": NAMES,
        "--address": ("", "tcp://nowhere:1"),
        "--nope": ("1",),
        "--out": ("other.txt", "full", "/dev/null/x"),
    },
    "bench decode": {
        "--paths": LISTS,
        "--depth": LISTS,
        "--first": COUNTS,
        "--repeats": COUNTS,
        "--preset": NAMES,
        "--reference": NAMES,
        "--max-new-tokens": COUNTS,
        "--seed": SEEDS,
        "--temperature": (*TEMPERATURES, "1,hot", "1,-1", ","),
        "--top-k": COUNTS,
        "--top-p": MASSES,
        "--draft-top-k": ("-1", "W", *(value for value in LISTS if value != "0")),
        "--draft-top-p": (*MASSES, "0.5,2"),
        "--draft-temperature": (*TEMPERATURES, "1,,2"),
        "--budget": ("0", "nan", "inf", ""),
        "--prompts": ("nowhere.txt", "binary.npz", ".", "blank.txt"),
        "--tasks": ("nowhere.txt", "binary.npz", ".", "blank.txt", "other.txt", "list.json"),
        "--assisted": ("", "5", "5/constant", "a/constant/0.4", "5/constant/much", "0/constant/0.4"),
    },
    "bench paths": {
        "--data": (*FILES, "good.npz", "llama3", "trees.safetensors,nowhere.npz"),
        "--solver": (*SOLVERS, "pick_by_plan", "nested/interval"),
        "--reference": NAMES,
        "--first": COUNTS,
        "--seed": SEEDS,
        "--budget": ("0", "-1", "nan", "inf", "long", ""),
        "--beside": ("", "nowhere", ".", "full", "good.npz"),
        "--nope": ("1",),
        "--out": ("other.txt", "full", "/dev/null/x"),
    },
    "record": {
        "--out": (*OUTS, "x.npz", "binary.safetensors"),
        "--positions": COUNTS,
        "--paths": COUNTS,
        "--depth": COUNTS,
        "--top-k": COUNTS,
        "--max-new-tokens": COUNTS,
        "--batch": COUNTS,
        "--seed": SEEDS,
        "--temperature": TEMPERATURES,
        "--prompts": ("nowhere.txt", "binary.npz", ".", "blank.txt"),
    },
    "audit": {
        "RULE": ("", ":", "nope", "nope:x", "nowhere.py:f", "json:nope", "os:path", "a b:c", ".:x", "other.txt:f"),
        "--scheme": NAMES,
        "--n": COUNTS,
        "--drafter": NAMES,
        "--shown": ("nope", "nope:x"),
        "--form": NAMES,
        "--max-seconds": ("0", "-1", "nan", "inf", "long", "", HUGE),
        "--seed": SEEDS,
        "--json": OUTS,
        "--method": NAMES,
    },
    "claims": {
        "--claim": ("", "nope", "[", "gr"),
        "--trials": ("0", "-1", "many"),
        "--seed": SEEDS,
        "--json": OUTS,
        "--markdown": OUTS,
        "--replay": JSONS,
        "--show": ("", "nope", "hit-*"),
    },
    "decode": {
        "--paths": COUNTS,
        "--depth": COUNTS,
        "--batch": COUNTS,
        "--max-new-tokens": COUNTS,
        "--seed": SEEDS,
        "--temperature": TEMPERATURES,
        "--top-k": COUNTS,
        "--top-p": MASSES,
        "--draft-temperature": TEMPERATURES,
        "--draft-top-k": COUNTS[1:],
        "--draft-top-p": MASSES,
        "--json": OUTS,
        "--nope": ("1",),
        "--prompts": ("nowhere.txt", "binary.npz", ".", "blank.txt"),
        "--solver": ("nope", "", "lp2"),
        "--method": NAMES,
        "--law": NAMES,
        "--settings": ("nowhere.json", "list.json", "deep.json", "half.json", "."),
    },
    "tune": {
        "--paths": LISTS,
        "--depth": COUNTS,
        "--draft-top-k": LISTS,
        "--max-new-tokens": COUNTS,
        "--seconds": ("0", "-1", "nan", "inf", "long", ""),
        "--seed": SEEDS,
        "--temperature": TEMPERATURES,
        "--top-k": COUNTS,
        "--top-p": MASSES,
        "--out": OUTS,
        "--json": OUTS,
        "--prompts": ("nowhere.txt", "binary.npz", ".", "blank.txt"),
    },
    "router": {
        "FILE": ("", "nowhere.txt", "binary.npz", "."),
        "--out": OUTS,
        "--clusters": COUNTS,
        "--most": COUNTS,
        "--width": COUNTS,
        "--likeliest": COUNTS,
        "--epochs": COUNTS,
        "--tokens": COUNTS,
        "--seed": SEEDS,
    },
    "affinity": {
        "FILE": ("", "nowhere.txt", "binary.npz", "."),
        "--of": NAMES,
        "--positions": (*COUNTS, "1", "9999"),
        "--kind": NAMES,
        "--tokenizer": ("", "nope", ".", "other.txt", "binary.npz"),
        "--out": (*OUTS, "x.npz", "binary.safetensors"),
        "--window": COUNTS,
        "--vocab": COUNTS,
        "--nearest": COUNTS,
        "--save-every": COUNTS,
        "--tau": ("0", "-1", "nan", "inf", "hot", ""),
        "--tokens": ("nowhere.npy", "binary.npz", ".", "other.txt"),
    },
}
"""By command and option, values that none of them takes; in capitals, the argument without a name.

Not those that only torch or a model can refuse, which take seconds to load: see test_decode.
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with one good file, and many that are not."""
    monkeypatch.chdir(tmp_path)
    logits = np.random.default_rng(0).normal(size=(2, 1, 6))
    np.savez("good.npz", target_logits=logits[0], draft_logits=logits[1])
    np.savez("empty.npz")
    np.savez("pickled.npz", target_logits=np.array([{}]), draft_logits=np.array([{}]))
    np.savez("cube.npz", target_logits=logits, draft_logits=logits)
    np.savez("whole.npz", target_logits=np.ones((1, 6), dtype=int), draft_logits=np.ones((1, 6), dtype=int))
    np.savez("one.npz", target_logits=logits[0])
    np.savez("holes.npz", target_probs=np.full((1, 6), np.nan), draft_probs=np.full((1, 6), 1 / 6))
    np.savez("apart.npz", target_logits=logits[0], draft_logits=logits[1, :, :5])
    write_trees(Path("trees.safetensors"), drawn_trees(2))
    for name in ("text.npz", "other.txt"):
        Path(name).write_text("no positions")
    for name in ("binary.npz", "binary.safetensors"):
        Path(name).write_bytes(bytes(range(256)) * 4)
    contents = {
        "list": "[1]",
        "deep": "[" * 100_000,
        "number": "3",
        "half": '{"sources": [',
        "strange": '{"sources": 3}',
    }
    for name, text in contents.items():
        Path(f"{name}.json").write_text(text)
    Path("blank.txt").write_text("\n")
    Path("full").mkdir()
    Path("full", "thesis.tex").write_text("keep me")
    return tmp_path


def wrong_call(rng: random.Random) -> tuple[str, ...]:
    """A command with one to three of its values made wrong."""
    commands = [name for name in WRONG if _possible(name)]
    command = rng.choice(commands)
    words = list(GOOD[command])
    for option in rng.sample(sorted(WRONG[command]), rng.randint(1, min(3, len(WRONG[command])))):
        value = rng.choice(WRONG[command][option])
        if option.isupper():
            words[0] = value
        elif option in words:
            words[words.index(option) + 1] = value
        else:
            words += [option, value]
    return (*command.split(), *words)


def _possible(command: str) -> bool:
    needed = {"bench": ("pyarrow",), "bench decode": ("torch", "transformers")}
    needed["bench paths"] = needed["bench"]
    for decoding in ("decode", "tune", "router", "record", "train"):
        needed[decoding] = ("torch", "transformers", "tokenizers")
    needed["affinity"] = ("safetensors", "tokenizers")
    return all(installed(package) for package in needed.get(command, ()))


def test_wrong_calls_end_in_a_line(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(0)
    files = sorted(here.iterdir())
    for _ in range(CALLS):
        words = wrong_call(rng)
        try:
            status = otspec_command(monkeypatch, *words)
        except BaseException as error:
            raise AssertionError(f"otspec {' '.join(words)}: {type(error).__name__}: {error}") from error
        told = capsys.readouterr().err
        assert status in (1, 2), words
        assert told.strip(), words
        assert "Traceback" not in told, words
        assert sorted(here.iterdir()) == files, words
