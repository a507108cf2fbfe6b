"""What commands refuse: each with one clear sentence, and nothing is written."""

from pathlib import Path

import pytest

from otspec.extras import installed
from tests.cli.running import Otspec, Pair

Rows = list[tuple[str, str]]

PLAIN: Rows = [
    ("solve nowhere.npz", "there is no file nowhere.npz"),
    ("solve deep.safetensors", "deep.safetensors cannot be read: maximum recursion depth"),
    ("solve p.npz --n 1.5", "'--n': '1.5'; pass an integer >= 1"),
    ("solve p.npz --out .", ". is a folder; name a file"),
    ("solve p.npz --out nowhere/x", "there is no folder nowhere; make it first"),
    ("solve p.npz --out /dev/full", "/dev/full: No space left on device"),
    ("solve p.npz --positions 9", "positions is 9"),
    ("claims --claim hit-submodula", "hit-submodular"),
    ("claims --show hit-submodular --list", "--list and --show: two things to do"),
    ("claims --show hit-submodular --json x.json", "--json and --show: it holds what a check finds, or --list"),
    ("claims --module 'two words'", "'two words' is not the name of a module; write package.module, or path/to/file"),
]
BENCH: Rows = [
    ("--k ten", "'ten' is not a positive number or V"),
    ("--n 9999999999999", "9999999999999 is more than 1,000,000, the most there can be"),
    ("--n ,", "'' is not a positive number; write a list such as"),
    ("--budget 0", "grant each cell some time"),
    ("--out text.txt", "text.txt holds something that is not a benchmark run"),
    ("--scheme iidd", "no draft law 'iidd'; known: iid, without_replacement"),
    ("--solver interval --remeasure kseq", "'kseq' is not among the solvers of this run, interval"),
    ("--data p.npz --positions 5", "positions is 5; p.npz has 1 to 4"),
]
AFFINITY: Rows = [
    ("text.txt --out a.npz", "give --out a name that ends in .safetensors"),
    ("text.txt --out there.safetensors", "is there already; delete it"),
    ("text.txt --out a.safetensors --tokenizer nowhere", "there is no tokenizer nowhere"),
    ("text.txt --out a.safetensors --tokenizer text.txt", "text.txt is no tokenizer"),
    ("text.txt --out a.safetensors --vocab 9", "--vocab is 9, and the tokenizer has 2048"),
    ("text.txt --out a.safetensors --tokens text.txt", "text.txt cannot be read"),
    ("binary.txt --out a.safetensors", "binary.txt is not text in UTF-8"),
    ("few.npy --positions 2 --out a.safetensors", "--positions and --of text: it does not apply to text; leave it out"),
    ("shipped --of laws --out a.safetensors", "--of is 'laws'; known: text, logits, probab"),
    ("shipped --of logits --window 2 --out a.safetensors", "it does not apply to positions"),
    ("shipped llama3 --of logits --out a.safetensors", "--of logits reads one source of positions"),
]
BENCH_DECODE: Rows = [
    ("--target other/model", "no prompts for other/model; pass --prompts FILE"),
    ("--preset gr", "no preset 'gr'; known: gr-table-4"),
    ("--reference lp", "'lp' is not among the rules of this run, nested, interval"),
    ("--temperature 1,hot", "--temperature: 'hot' is not a number; write a list such as 1,0.6"),
    ("--draft-top-k W", "--draft-top-k: 'W' is not a positive number or V or 0"),
]
MODELS: Rows = [
    ("bench --seed 1 decode", "write it after decode"),
    ("decode --prompt a\udcffb", "prompt 1 holds '\\udcff' at character 1, half of a pair"),
    ("decode --prompt a --settings x.json --draft-top-k 2", "leave out --draft-top-k"),
    ("tune --seconds 0", "'--seconds': 0 s; grant the measurement some time"),
    ("train sd2 --out text.txt", "text.txt is a file, where a folder is to go"),
    ("tune --json ./settings.json", "--json settings.json would be written over --out; name another file"),
    ("tune --drafter fr:64", "--drafter fr:64 is settings of a draft model"),
    ("tree --size 13 --depth 2 --ranks 3", "--size 13, and there are 12 nodes of 2 levels"),
    ("tree --size 101 --depth 100 --ranks 1", "--size 101, and there are 100 nodes of 100 levels"),
    ("record --rest-at 1,2 --out r.safetensors", "--rest-at: nothing is left over without --top-k"),
]
DECODE: Rows = [
    ("--prompts blank.txt", "blank.txt holds no prompts; write one per line"),
    ("--prompts binary.txt", "binary.txt cannot be read"),
    ("", "no prompts; pass --prompts FILE or --prompt TEXT"),
    ("--prompts text.txt --json ./text.txt", "--json text.txt would be written over what is read; name another file"),
    *(
        (f"--prompt a {words}", message)
        for words, message in (
            ("--method assisted --batch 2", "assisted takes one prompt at a time; the batch is 2"),
            ("--solver nested,interval", "nested is a joint rule"),
            ("--law greedy --method block", "block has no law; it takes depth"),
            ("--drafter oracle", "no drafter 'oracle'; known: fr"),
            ("--frequencies few.npy", "--frequencies is for --drafter fr or pa-fr; pass that too"),
            ("--drafter fr", "pass --frequencies FILE, such as np.save writes"),
            ("--drafter tli", "no draft model with another tokenizer comes with"),
            ("--drafter fr --frequencies binary.txt", "cannot be read as token frequencies"),
            ("--drafter fr --frequencies few.npy", "frequencies are of 4 tokens, and there are"),
            ("--drafter tli:5", "'tli:5' has a number, which is for fr, pa-fr, dynaspec, dynaspec-f; write 'tli'"),
            ("--device abacus", "no device 'abacus' here"),
            ("--dtype int3", "no dtype 'int3'; known: auto, float32"),
        )
    ),
]
ALONE: Rows = [
    ("decode --prompt a", "or a --method without one: vanilla, generate, "),
    ("decode --prompt a --draft none --drafter eagle", "no draft model 'eagle' of"),
    ("decode --method vanilla --prompts q.jsonl --no-chat --turns all", "needs a chat template; pass --turns first"),
    ("decode --method vanilla --prompts q.jsonl --turns some", "--turns: 'some'; pass first or all"),
    ("record --prompts text.txt --out r.safetensors", "no draft model for"),
    ("tune --prompts text.txt", "and ways to draft with one are compared; pass --draft"),
    ("bench decode --prompts text.txt --solver nested", "leave out --solver; pass --draft"),
    ("texts --ask-temperature .5 --prompts text.txt --out t.safetensors", "--ask-temperature and texts whose"),
    ("texts --temperature 0 --length 9 --out t.safetensors", "texts are drawn at finite ones above 0"),
    ("train shared --texts many --out new", "texts are 'many'; pass how many, magpie or magpie:N without --prompts"),
]
"""Of a target with a chat template, without a draft model."""
TRAIN: Rows = [
    ("sd3", "no kind 'sd3'; known: distilled, sd2"),
    ("sd2 --ahead 2", "--ahead and the kind sd2: it learns one draft at a time"),
    ("sd2 --draft-tokens 9", "--draft-tokens and the kind sd2: it drafts all tokens"),
    ("medusa", "--draft and the kind medusa: it is made of its target"),
    ("sd2 --rate 0", "the learning rate is 0.0; pass a number above 0"),
    ("sd2", "no token begins a text of"),
]
ROUTER: Rows = [
    ("empty", "the files are empty"),
    ("text.txt --out ./text.txt", "--out text.txt would be written over what is read"),
    ("text.txt --out ./there.safetensors", "there.safetensors is there already; delete it"),
    ("text.txt --draft none", "a router is for a draft model"),
    ("text.txt --draft eagle", "'eagle' names the package's draft models for some targets; pass the target"),
]


def check(otspec: Otspec, files: list[Path], command: str, rows: Rows) -> None:
    """Each is refused with its message, and leaves all as it was."""
    for words, message in rows:
        assert message in otspec(f"{command} {words}", 2).err, words
        assert sorted(Path().iterdir()) == files, words
    assert Path("there.safetensors").read_text() == "a result of hours"


@pytest.mark.parametrize(
    ("command", "rows", "packages"),
    [
        ("", PLAIN, ()),
        ("bench", BENCH, ("polars",)),
        ("affinity", AFFINITY, ("safetensors", "tokenizers")),
        ("bench decode", BENCH_DECODE, ("torch", "transformers")),
        ("", MODELS, ("torch", "transformers")),
    ],
    ids=["solve and claims", "bench", "affinity", "bench decode", "models"],
)
def test_bad_input_is_one_clear_error(
    command: str, rows: Rows, packages: tuple[str, ...], otspec: Otspec, files: list[Path]
) -> None:
    if not all(map(installed, packages)):
        pytest.skip(f"not installed: one of {packages}")
    check(otspec, files, command, rows)


def test_bad_input_with_models_of_ones_own(otspec: Otspec, files: list[Path], saved: Pair) -> None:
    check(otspec, files, f"decode {saved}", DECODE)
    check(otspec, files, f"train {saved} --out new --texts 4 --length 8 --batch 2 --steps 4", TRAIN)
    check(otspec, files, f"router --draft {saved.draft} --width 4 --epochs 1 --out router.safetensors", ROUTER)


def test_bad_input_with_a_target_alone(otspec: Otspec, files: list[Path], chatty: Pair) -> None:
    check(otspec, files, "", [(f"{words} --target {chatty.target}", message) for words, message in ALONE])
