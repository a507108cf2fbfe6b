"""Wrong calls of the command, at random: each is a line on stderr and exit status 1 or 2, and none a traceback."""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from otspec.extras import installed
from tests.cli.running import otspec_command
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
PLACES = ("other.txt", "full", "/dev/null/x")
JSONS = ("nowhere.json", "binary.npz", "list.json", "deep.json", "number.json", "half.json", ".", "strange.json")
KINDS = ("", "laws", "LOGITS", "probs,logits")
NAMES = ("", "nope", "iid2", "IID", "-")
PERIODS = ("0", "-1", "nan", "inf", "long", "")
TEXTS = ("nowhere.txt", "binary.npz", ".", "blank.txt")
POSITIONS = ("0", "-3", "9", "all", HUGE)
RUNS = ("", "nowhere", ".", "full", "good.npz")

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
TAKEN: Mapping[str, str] = {
    "solve": "FILE --n --top-k --top-p --temperature --draft-temperature --solver --positions --seed --target-key "
    "--draft-key --kind --out --nope",
    "bench": "--k --n --solver --positions --data --target-key --draft-key --kind --scheme --top-p --temperature "
    "--jobs --seed --budget --remeasure --against --backend --address --nope --out",
    "bench decode": "--paths --depth --first --repeats --preset --reference --max-new-tokens --seed --temperature "
    "--top-k --top-p --draft-top-k --draft-top-p --draft-temperature --budget --prompts --tasks --assisted",
    "bench paths": "--data --solver --reference --first --seed --budget --beside --nope --out",
    "record": "--out --positions --paths --depth --top-k --max-new-tokens --batch --seed --temperature --prompts",
    "audit": "RULE --scheme --n --drafter --shown --form --max-seconds --seed --json --method",
    "claims": "--claim --trials --seed --json --markdown --replay --show",
    "decode": "--paths --depth --batch --max-new-tokens --seed --temperature --top-k --top-p --draft-temperature "
    "--draft-top-k --draft-top-p --json --nope --prompts --solver --method --law --settings",
    "tune": "--paths --depth --draft-top-k --max-new-tokens --seconds --seed --temperature --top-k --top-p --out "
    "--json --prompts",
    "router": "FILE --out --clusters --most --width --likeliest --epochs --tokens --seed",
    "affinity": "FILE --of --positions --kind --tokenizer --out --window --vocab --nearest --save-every --tau --tokens",
}
"""By command, the options that are made wrong; in capitals, the argument without a name."""
USUAL: Mapping[str, Sequence[str]] = {
    option: values
    for values, options in (
        (
            COUNTS,
            "--n --top-k --first --repeats --max-new-tokens --paths --depth --batch --positions --tokens --clusters",
        ),
        (COUNTS, "--most --width --likeliest --epochs --window --vocab --nearest --save-every"),
        (LISTS, "--k"),
        (SEEDS, "--seed"),
        (TEMPERATURES, "--temperature --draft-temperature"),
        (MASSES, "--top-p --draft-top-p"),
        (SOLVERS, "--solver"),
        (OUTS, "--out --json --markdown"),
        (
            NAMES,
            "--target-key --draft-key --scheme --backend --preset --reference --drafter --form --method --law --of",
        ),
        (KINDS, "--kind"),
        (TEXTS, "--prompts"),
        (PERIODS, "--budget --seconds"),
        (RUNS, "--against --beside"),
        (JSONS, "--replay"),
        (("1",), "--nope"),
        (("0", "-1", "many", HUGE), "--jobs"),
        (("nope", "kseq"), "--remeasure"),
        (("", "tcp://nowhere:1"), "--address"),
        ((*TEXTS, "other.txt", "list.json"), "--tasks"),
        (("", "5", "5/constant", "a/constant/0.4", "5/constant/much", "0/constant/0.4"), "--assisted"),
        (("", ":", "nope", "nope:x", "nowhere.py:f", "json:nope", "os:path", "a b:c", ".:x", "other.txt:f"), "RULE"),
        (("nope", "nope:x"), "--shown"),
        ((*PERIODS, HUGE), "--max-seconds"),
        (("", "nope", "[", "gr"), "--claim"),
        (("0", "-1", "many"), "--trials"),
        (("", "nope", "hit-*"), "--show"),
        (("nowhere.json", "list.json", "deep.json", "half.json", "."), "--settings"),
        (("", "nope", ".", "other.txt", "binary.npz"), "--tokenizer"),
        (("0", "-1", "nan", "inf", "hot", ""), "--tau"),
        (("", "nowhere.txt", "binary.npz", "."), "FILE"),
    )
    for option in options.split()
}
OWN: Mapping[tuple[str, str], Sequence[str]] = {
    ("solve", "FILE"): FILES,
    ("solve", "--positions"): POSITIONS,
    ("bench", "--positions"): POSITIONS,
    ("bench", "--n"): LISTS,
    # Not positions that are no laws: these are measured, refused one by one, and reported on.
    ("bench", "--data"): (*(name for name in FILES if name != "holes.npz"), "good.npz,nowhere.npz"),
    ("bench", "--scheme"): (*NAMES, "independent"),
    ("bench", "--out"): PLACES,
    ("bench decode", "--paths"): LISTS,
    ("bench decode", "--depth"): LISTS,
    ("bench decode", "--temperature"): (*TEMPERATURES, "1,hot", "1,-1", ","),
    ("bench decode", "--draft-top-k"): ("-1", "W", *(value for value in LISTS if value != "0")),
    ("bench decode", "--draft-top-p"): (*MASSES, "0.5,2"),
    ("bench decode", "--draft-temperature"): (*TEMPERATURES, "1,,2"),
    ("bench paths", "--data"): (*FILES, "good.npz", "llama3", "trees.safetensors,nowhere.npz"),
    ("bench paths", "--solver"): (*SOLVERS, "pick_by_plan", "nested/interval"),
    ("bench paths", "--out"): PLACES,
    ("record", "--out"): (*OUTS, "x.npz", "binary.safetensors"),
    ("decode", "--draft-top-k"): COUNTS[1:],
    ("decode", "--solver"): ("nope", "", "lp2"),
    ("tune", "--paths"): LISTS,
    ("tune", "--draft-top-k"): LISTS,
    ("affinity", "--kind"): NAMES,
    ("affinity", "--positions"): (*COUNTS, "1", "9999"),
    ("affinity", "--out"): (*OUTS, "x.npz", "binary.safetensors"),
    ("affinity", "--tokens"): ("nowhere.npy", "binary.npz", ".", "other.txt"),
}
"""Where a command takes an option in a way of its own.

Not values that only torch or a model can refuse, which take seconds to load: see test_refusals.
"""
WRONG = {
    command: {option: OWN.get((command, option)) or USUAL[option] for option in options.split()}
    for command, options in TAKEN.items()
}


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
    needed = {"bench": "pyarrow", "bench paths": "pyarrow", "affinity": "safetensors tokenizers"}
    models = ("bench decode", "decode", "tune", "router", "record")
    return all(map(installed, needed.get(command, "torch transformers" if command in models else "").split()))


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
