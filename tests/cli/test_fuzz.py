"""Wrong calls of the command, at random: each is a line on stderr and exit status 1 or 2, and none a traceback."""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest
from typer.models import ArgumentInfo

from otspec.cli import app
from otspec.extras import installed
from tests.cli.running import otspec_command

CALLS = 100
HUGE = "9" * 25

LISTS = ("", ",", "0", "10,,20", "ten", "-5", "10;20", HUGE, "9" * 5000, "2.5")
NUMBERS = ("-1", "nan", "inf", "hot", "")
SOLVERS = (
    *("", ",", ":", "::", "nope", "lp2", "interval,nope", "nope:x", "json:loads", "os:path", "..a:B", ".:X", "a b:C"),
    *("interval:", "interval:tol", "interval:tol=", "interval:tol=small", "interval:tol=-1", "interval:tol=nan"),
    *("max_flow:engine=", "max_flow:engine=scipy", "kseq:gamma=half", "interval:speed=9"),
)
FILES = (
    *("", "nowhere.npz", ".", "empty.npz", "text.npz", "binary.npz", "pickled.npz", "cube.npz", "whole.npz", "one.npz"),
    *("holes.npz", "apart.npz", "text.txt", "binary.safetensors"),
)
OUTS = ("nowhere/x", ".", "/dev/null/x", "text.txt/x")
PLACES = ("text.txt", "full", "/dev/null/x")
JSONS = ("nowhere.json", "binary.npz", "list.json", "deep.json", "number.json", "half.json", ".", "strange.json")
NAMES = ("", "nope", "iid2", "IID", "-")
TEXTS = ("nowhere.txt", "binary.npz", ".", "blank.txt")
RUNS = ("", "nowhere", ".", "full", "p.npz")

GOOD: Mapping[str, Sequence[str]] = {
    "solve": ("p.npz", "--n", "2", "--top-k", "4"),
    "bench": ("--data", "p.npz", "--k", "4", "--n", "2", "--positions", "1", "--solver", "interval"),
    "bench decode": ("--first", "1"),
    "bench paths": ("--data", "trees.safetensors", "--first", "1", "--solver", "interval"),
    "record": ("--out", "x.safetensors"),
    "audit": ("kseq", "--n", "1"),
    "claims": ("--claim", "hit-submodular", "--trials", "1"),
    "decode": ("--prompt", "a"),
    "tune": ("--out", "settings.json"),
    "router": ("text.txt", "--out", "a.safetensors"),
    "affinity": ("text.txt", "--out", "a.safetensors"),
}
"""Calls that would do, but for what is then made wrong in them."""
WORDS: Mapping[str, Sequence[str]] = {
    option: values
    for values, options in (
        (SOLVERS, "--solver"),
        (NAMES, "--target-key --draft-key --scheme --preset --reference --drafter --form --method --law --of"),
        (("", "laws", "LOGITS", "probs,logits"), "--kind"),
        (TEXTS, "--prompts"),
        (("0", *NUMBERS), "--budget --seconds --max-seconds --tau"),
        (RUNS, "--against --beside"),
        (JSONS, "--replay"),
        (("nope", "kseq"), "--remeasure"),
        ((*TEXTS, "text.txt", "list.json"), "--tasks"),
        (("", "5", "5/constant", "a/constant/0.4", "5/constant/much", "0/constant/0.4"), "--assisted"),
        (("", ":", "nope", "nope:x", "nowhere.py:f", "json:nope", "os:path", "a b:c", ".:x", "text.txt:f"), "RULE"),
        (("nope", "nope:x"), "--shown"),
        (("", "nope", "[", "gr"), "--claim"),
        (("", "nope", "hit-*"), "--show"),
        (("nowhere.json", "list.json", "deep.json", "half.json", "."), "--settings"),
        (("", "nope", ".", "text.txt", "binary.npz"), "--tokenizer"),
        (("nowhere.npy", "binary.npz", ".", "text.txt"), "--tokens"),
        (("", "nowhere.txt", "binary.npz", "."), "FILES SOURCES"),
        (FILES, "FILE"),
        (("1",), "--nope"),
    )
    for option in options.split()
}
"""What is wrong for options that take words, by name."""
OWN: Mapping[tuple[str, str], Sequence[str]] = {
    ("bench", "--k"): LISTS,
    ("bench", "--n"): LISTS,
    # Not positions that are no laws: these are measured, refused one by one, and reported on.
    ("bench", "--data"): (*(name for name in FILES if name != "holes.npz"), "p.npz,nowhere.npz"),
    ("bench", "--scheme"): (*NAMES, "independent"),
    ("bench", "--out"): PLACES,
    ("bench decode", "--paths"): LISTS,
    ("bench decode", "--depth"): LISTS,
    ("bench decode", "--temperature"): (*NUMBERS, "1,hot", "1,-1", ","),
    ("bench decode", "--draft-top-k"): ("-1", "W", *(value for value in LISTS if value != "0")),
    ("bench decode", "--draft-top-p"): (*NUMBERS, "0.5,2"),
    ("bench paths", "--data"): (*FILES, "p.npz", "llama3", "trees.safetensors,nowhere.npz"),
    ("bench paths", "--solver"): (*SOLVERS, "pick_by_plan", "nested/interval"),
    ("bench paths", "--out"): PLACES,
    ("record", "--out"): (*OUTS, "x.npz", "binary.safetensors"),
    ("decode", "--solver"): ("nope", "", "lp2"),
    ("tune", "--paths"): LISTS,
    ("tune", "--draft-top-k"): LISTS,
    ("solve", "--positions"): ("0", "-3", "9", "all", HUGE),
    ("affinity", "--kind"): NAMES,
    ("affinity", "--positions"): ("0", "-1", "1", "9999"),
    ("affinity", "--out"): (*OUTS, "x.npz", "binary.safetensors"),
}
"""Where a command takes an option in a way of its own.

Not values that only torch or a model can refuse, which take seconds to load: see test_refusals.
"""


def options_of(command: str) -> Mapping[str, tuple[Any, Any]]:
    """The options of a command by name, with what each takes, and what typer knows of it."""
    bench = app.registered_groups[0]
    known: dict[str, Any] = {one.callback.__name__: one.callback for one in app.registered_commands if one.callback}
    if bench.typer_instance is not None and bench.typer_instance.registered_callback is not None:
        known["bench"] = bench.typer_instance.registered_callback.callback
        known |= {f"bench {one.name}": one.callback for one in bench.typer_instance.registered_commands}
    found = {}
    for name, hint in get_type_hints(known[command], include_extras=True).items():
        takes, info = (*get_args(hint), None)[:2] if get_origin(hint) is Annotated else (hint, None)
        if info is not None:
            decls = getattr(info, "param_decls", None) or (f"--{name.strip('_').replace('_', '-')}",)
            found[name.upper() if isinstance(info, ArgumentInfo) else decls[0]] = takes, info
    return found


def wrong_values(command: str) -> Mapping[str, Sequence[str]]:
    """For each option of a command, values that are wrong for it: by its name, or by what its type takes."""
    values: dict[str, Sequence[str]] = {"--nope": WORDS["--nope"]}
    for name, (takes, info) in options_of(command).items():
        kinds = {takes, *get_args(takes)}
        if known := OWN.get((command, name)) or WORDS.get(name):
            values[name] = known
        elif int in kinds:
            beyond = () if info.min is None else (str(info.min - 1), HUGE)
            values[name] = ("1.5", "ten", "", "nan", "1e3", "0x10", *beyond)
        elif float in kinds and info.callback is not None:
            values[name] = NUMBERS
        elif Path in kinds and info.callback is not None:
            values[name] = OUTS
    return values


WRONG = {command: wrong_values(command) for command in GOOD}


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
    needed = {"bench": "polars", "bench paths": "polars", "affinity": "safetensors tokenizers"}
    models = ("bench decode", "decode", "tune", "router", "record")
    return all(map(installed, needed.get(command, "torch transformers" if command in models else "").split()))


def test_wrong_calls_end_in_a_line(
    files: list[Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(0)
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
        assert sorted(Path().iterdir()) == files, words
