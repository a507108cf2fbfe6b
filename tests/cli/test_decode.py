"""`otspec decode` on a tiny random pair: text and numbers are those of `otspec.generate`, and what is said of them."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import otspec as package  # noqa: E402
from otspec.decode import shipped  # noqa: E402
from otspec.decode.methods.catalogue import METHODS, lossless  # noqa: E402
from otspec.decode.pair.conversations import turn_seed  # noqa: E402
from otspec.decode.pair.loading import load_models  # noqa: E402
from otspec.decode.recording.accuracies import accuracies  # noqa: E402
from otspec.verification import best_choices, tree_text  # noqa: E402
from tests.cli.running import Otspec, Pair, lines_of  # noqa: E402
from tests.decode.tokenizers_of import word_piece  # noqa: E402
from tests.saved_pair import tokenizer  # noqa: E402

OUT = "--json out.jsonl"
OWN_RULES = """
import numpy as np
from otspec.verification import Block
from otspec.verification.rules.protocol import PathVerification

class Bare:
    def verify(self, tree, rng):
        return Block().verify(tree, rng)

class Mine(Block):
    pass

class Needy(Block):
    def __init__(self, share):
        pass

class Zero(Block):
    def verify(self, tree, rng):
        return PathVerification(0, 0, 0)

    def stop_law(self, tree):
        return np.eye(tree.size, 1) * np.eye(1, len(tree.target[0]))
"""


def decoded(otspec: Otspec, words: str) -> dict[str, Any]:
    """The one record that a command leaves."""
    otspec(f"decode {words} {OUT}")
    (line,) = lines_of("out.jsonl")
    return line


def generated(target: str, draft: str | list[str], prompt: str, **settings: Any) -> Any:
    """What the package decodes of saved models, at temperature 1 unless it is told another."""
    models = load_models(target, draft, "cpu")
    ids = torch.tensor([models.tokenizer(prompt).input_ids])
    drafts: Any = models.drafts if isinstance(draft, list) else models.draft
    settings = {"temperature": 1.0, "max_new_tokens": 12, "seed": 1} | settings
    return package.generate(models.target, drafts, ids, **settings)


def test_text_and_numbers_are_those_of_generate(otspec: Otspec, saved: Pair, prompts: str) -> None:
    rule = "--paths 3 --depth 4 --solver interval --draft-top-k 5"
    sampling = "--temperature 0.8 --top-k 40 --max-new-tokens 12 --seed 1"
    shown = otspec(f"decode {saved} {prompts} {rule} {sampling} {OUT}").out
    lines = lines_of("out.jsonl")
    assert [line["prompts"] for line in lines] == [["def f(x):"], ["import os"], ["class A:"]]
    assert [line["seed"] for line in lines] == [1, 2, 3]
    settings: dict[str, Any] = {"paths": 3, "depth": 4, "solver": "interval", "top_k": 40, "draft_top_k": 5}
    spelled = load_models(saved.target, None, "cpu").tokenizer
    for seed, line in enumerate(lines, start=1):
        again = generated(*saved, line["prompts"][0], seed=seed, temperature=0.8, **settings)
        assert line["new_tokens"] == again.new_tokens
        assert line["texts"] == [spelled.decode(again.new_tokens[0])]
        assert line["accepted"] == again.metrics.accepted
        assert line["block_efficiency"] == line["tokens"] / line["sequence_steps"] == again.metrics.block_efficiency
        assert {"lossless": True, "solver": "interval", "paths": 3, "depth": 4, "top_k": 40}.items() <= line.items()
        assert line["seconds"].keys() == {"prompt", "draft", "target", "verification", "rest"}
    tokens, steps = (sum(line[name] for line in lines) for name in ("tokens", "sequence_steps"))
    assert f"block efficiency {tokens / steps:.3f} tokens per target call ({tokens} tokens, {steps} steps)" in shown
    assert "multi-draft (paths 3, depth 4, solver interval, draft_top_k 5), lossless" in shown


def test_a_targets_own_configuration_is_told_and_can_be_left_out(otspec: Otspec, saved: Pair) -> None:
    target = Path("own")
    shutil.copytree(saved.target, target)
    known = json.loads((target / "generation_config.json").read_text())
    (target / "generation_config.json").write_text(json.dumps(known | {"repetition_penalty": 5.0, "min_p": 0.1}))
    line = f"decode --target own --draft {saved.draft} --prompt 'import os' --temperature 0 --max-new-tokens 24"
    note = "note: the generation_config.json of own acts on its text: repetition_penalty 5.0, min_p 0.1;"
    texts = []
    for more, acting in (("", {"repetition_penalty": 5.0}), ("--no-own-config", {})):
        assert (note in otspec(f"{line} {more} {OUT}").err) == bool(acting)
        (record,) = lines_of("out.jsonl")
        assert record["own_config"] == acting  # min-p does nothing to greedy text
        texts.append(record["new_tokens"][0])
    model = load_models("own", None, "cpu").target
    ids = torch.tensor([tokenizer()("import os").input_ids])
    own, plain = (
        model.generate(ids, do_sample=False, max_new_tokens=24, repetition_penalty=one)[0, ids.shape[1] :].tolist()
        for one in (5.0, 1.0)
    )
    assert own != plain
    assert texts == [own, plain]


@pytest.mark.parametrize(
    ("words", "environment", "threads"), [("", "", 1), ("--threads 3", "2", 3), ("", "2", 2), ("--batch 2", "", 2)]
)
def test_texts_one_at_a_time_take_one_thread_unless_the_user_says_otherwise(
    otspec: Otspec, saved: Pair, monkeypatch: pytest.MonkeyPatch, words: str, environment: str, threads: int
) -> None:
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    if environment:
        monkeypatch.setenv("OMP_NUM_THREADS", environment)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)  # as torch begins on two cores
        line = decoded(otspec, f"{saved} --prompt a --device cpu --method vanilla --max-new-tokens 2 {words}")
    finally:
        torch.set_num_threads(before)
    assert line["threads"] == threads
    assert line["load"] is None or line["load"] >= 0


def test_log_probabilities_are_kept_with_the_texts(otspec: Otspec, saved: Pair) -> None:
    words = f"decode {saved} --prompt 'import ' --max-new-tokens 6 --logprobs 2"
    shown = otspec(f"{words} {OUT}").out
    (line,) = lines_of("out.jsonl")
    assert [len(line[name][0]) for name in ("logprobs", "raw_logprobs", "top_logprobs")] == [6, 6, 6]
    assert {len(top) for top in line["top_logprobs"][0]} == {2}
    assert f"log-probability {sum(line['logprobs'][0]) / 6:.4f} nats a token" in shown
    refused = otspec(f"{words} --method generate", 2).err
    assert "--logprobs and the method generate: it returns no log-probabilities; leave out" in refused


def test_a_transcript_tells_what_became_of_every_draft(otspec: Otspec, saved: Pair) -> None:
    words = f"decode {saved} --prompt 'def f' --paths 2 --depth 3 --max-new-tokens 24 --seed 1 --transcript"
    shown = otspec(f"{words} {OUT}").out
    (line,) = lines_of("out.jsonl")
    ((new,), (blocks,)) = line["new_tokens"], line["blocks"]
    text = [token for block in blocks for token in (*block["accepted"], block["token"])]
    assert text[: len(new)] == new
    assert len(blocks) == line["sequence_steps"]
    assert sum(len(block["accepted"]) >= 1 for block in blocks) == line["accepted"][0]
    refused = [path for block in blocks for path in block["rejected"]]
    assert all(len(path) + len(block["accepted"]) <= 3 for block in blocks for path in block["rejected"])
    spelled = load_models(saved.target, None, "cpu").tokenizer.decode(refused[0])
    assert f"[{' '.join(spelled.split())}" in shown.replace("[ ", "[")
    otspec(f"{words} --method generate", 2)


def test_several_draft_models(otspec: Otspec, saved: Pair) -> None:
    both = f"{saved} --draft {saved.target}"
    line = decoded(otspec, f"{both} --law independent --depth 3 --max-new-tokens 12 --seed 1 --prompt 'def f'")
    again = generated(saved.target, [saved.draft, saved.target], "def f", law="independent", depth=3)
    assert line["draft"] == [saved.draft, saved.target]
    assert line["new_tokens"] == again.new_tokens
    assert again.metrics.drafted_nodes > 0
    assert "several draft by law=" in otspec(f"decode {both} --prompt a", 2).err


@pytest.mark.parametrize("name", ["pa-fr:200", "dynaspec:8", "tli", "rdk"])
def test_the_shipped_pair_has_every_drafter(name: str, otspec: Otspec) -> None:
    """As `otspec.generate` is told."""
    pytest.importorskip("safetensors")
    line = decoded(otspec, f"--drafter {name} --prompt 'def f' --max-new-tokens 12 --seed 1")
    word, _, size = name.partition(":")
    assert line["drafter"] == word
    target, draft, words = shipped.load()
    settings: dict[str, Any] = {}
    if word in ("pa-fr", "dynaspec"):
        settings = {"draft_shortlist": shipped.shortlist(word, int(size) if size else None)}
    else:
        other = shipped.foreign()
        draft, settings = other.draft, {"tokenizer": words, "draft_tokenizer": other.tokenizer}
        settings |= {"draft_kernel": other.affinity} if word == "rdk" else {}
    ids = torch.tensor([words("def f").input_ids])
    again = package.generate(target, draft, ids, max_new_tokens=12, seed=1, temperature=1.0, **settings)
    assert line["new_tokens"] == again.new_tokens


def test_what_may_deviate_is_called_lossy() -> None:
    multi_draft = METHODS["multi-draft"]
    for solver in (None, "nested", "interval", "kseq", ["max_flow", "interval"]):
        assert lossless(multi_draft, {"solver": solver}), solver
    for solver in ("global_resolution", ["global_resolution", "naive"], "single:lenience=0.5"):
        assert not lossless(multi_draft, {"solver": solver}), solver


def test_a_joint_rule_of_ones_own_by_its_class(
    otspec: Otspec, saved: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_rules.py").write_text(OWN_RULES)
    monkeypatch.syspath_prepend(tmp_path)
    words = f"{saved} --prompt import --max-new-tokens 6"
    mine = decoded(otspec, f"{words} --solver own_rules:Mine")
    assert (mine["solver"], mine["lossless"]) == ("own_rules:Mine", True)
    assert mine["new_tokens"] == decoded(otspec, f"{words} --solver block")["new_tokens"]
    for name in ("Bare", "Zero"):  # the law of one is not known, and that of the other wrong
        assert not decoded(otspec, f"{words} --solver own_rules:{name}")["lossless"], name
    assert "Needy cannot be made without arg" in otspec(f"decode {words} --solver own_rules:Needy", 2).err
    assert "own_rules:Bare has no stop_law" in otspec("bench paths --solver own_rules:Bare --out r", 2).err
    assert "own_rules:Zero (lossy)" in otspec("bench paths --solver nested,own_rules:Zero --first 1 --out r").out


def test_every_method_decodes(otspec: Otspec, saved: Pair) -> None:
    for method in METHODS:
        shown = otspec(f"decode {saved} --prompt import --method {method} --max-new-tokens 6 {OUT}").out
        assert ("LOSSY" in shown) == (method in ("typical", "greedy-lenience")), method
        (line,) = lines_of("out.jsonl")
        assert (line["tokens"], line["method"]) == (6, method)
        assert (line["draft"] is None) == (not METHODS[method].drafts), method


def test_prompts_as_json_lines_and_stop_strings(otspec: Otspec, saved: Pair) -> None:
    Path("prompts.jsonl").write_text('{"prompt": "def f(x):\\n    return", "id": 3}\n\n')
    words = f"{saved} --prompts prompts.jsonl --temperature 0 --max-new-tokens 12"
    whole = decoded(otspec, words)
    assert whole["prompts"] == ["def f(x):\n    return"]
    text: str = whole["texts"][0]
    stop = next(letter for letter in text if letter.isalnum() and letter.isascii())
    assert decoded(otspec, f"{words} --stop {stop}")["texts"] == [text[: text.index(stop) + 1]]


@pytest.mark.parametrize("name", ["./nowhere/model", "nobody/nothing"])
def test_a_model_that_is_not_there(otspec: Otspec, saved: Pair, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    error = otspec(f"decode --target {saved.target} --draft {name} --prompt a", 2).err
    assert f"the draft '{name}' cannot be loaded" in error


def test_a_draft_model_with_another_tokenizer(otspec: Otspec, saved: Pair) -> None:
    shutil.copytree(saved.draft, "draft")
    tokenizer(more="zq zqz zqzq " * 100).save_pretrained("draft")
    words = f"--target {saved.target} --draft draft --prompt 'def zqz' --max-new-tokens 12"
    models = load_models(saved.target, "draft", "cpu")
    spelled = {"tokenizer": models.tokenizer, "draft_tokenizer": models.draft_tokenizer}
    for method, solver in (("multi-draft", None), ("single", "single")):
        again = generated(saved.target, "draft", "def zqz", seed=0, solver=solver, **spelled)
        assert decoded(otspec, f"{words} --method {method}")["new_tokens"] == again.new_tokens
    Path("text.txt").write_text("def f(x)")
    for line in ("train distilled --out new", "router text.txt --out new.safetensors"):
        said = otspec(f"{line} --target {saved.target} --draft draft", 2).err
        assert f"draft has another tokenizer than {saved.target}, whose tokens it would take for its own" in said
    word_piece().save_pretrained("draft")
    assert "neither works on bytes nor falls back on them" in otspec(f"decode {words}", 2).err


# --- conversations


@pytest.mark.parametrize("batch", [1, 2])
def test_turns_are_asked_after_the_models_answers(otspec: Otspec, chatty: Pair, tasks: str, batch: int) -> None:
    otspec(f"decode {chatty} --prompts {tasks} --batch {batch} --max-new-tokens 6 --temperature 0 --seed 3 {OUT}")
    lines = lines_of("out.jsonl")
    found = {
        (at, line["turn"]): text
        for line in lines
        for at, text in zip(line["conversations"], line["texts"], strict=True)
    }
    assert found.keys() == {(0, 0), (0, 1), (1, 0), (2, 0), (2, 1)}
    assert all(line["seed"] == turn_seed(3 + line["conversations"][0] // batch, line["turn"]) for line in lines)
    # Each turn again, by itself, as a prompt without a template that spells the conversation out.
    models = load_models(*chatty, "cpu")
    for at, turns in enumerate(line["turns"] for line in lines_of(tasks)):
        text = ""
        for number, said in enumerate(turns):
            text += f"<u>{said}\n<a>"
            alone = generated(*chatty, text, max_new_tokens=6, temperature=0.0, seed=0)
            assert models.tokenizer.decode(alone.new_tokens[0]) == found[at, number]
            text += found[at, number] + "\n"


def test_which_turns(otspec: Otspec, chatty: Pair, tasks: str) -> None:
    line = f"decode --target {chatty.target} --method vanilla --max-new-tokens 2 --prompts {tasks}"
    otspec(f"{line} --turns first {OUT}")
    assert [one["prompts"] for one in lines_of("out.jsonl")] == [["ab"], ["d"], ["e"]]
    otspec(f"{line} --prompt-tokens 2 {OUT}", 2)  # turns cannot be cut
    otspec(f"{line} --no-chat {OUT}")  # texts to go on with, of which there is one each
    assert len(lines_of("out.jsonl")) == 3


def test_a_prompt_is_put_into_the_template_if_asked(otspec: Otspec, chatty: Pair) -> None:
    words = f"--target {chatty.target} --draft none --method prompt-lookup"
    shown, spelled, plain = (
        decoded(otspec, f"{words} {more}")["texts"]
        for more in ("--prompt ab --chat", "--prompt '<u>ab\n<a>'", "--prompt ab")
    )
    assert shown == spelled != plain


def test_a_copied_path_and_a_tree_that_a_command_found(otspec: Otspec, saved: Pair, prompts: str) -> None:
    words = f"--target {saved.target} --draft none --drafter {saved.draft}+prompt-lookup:3 --prompt 'a = a = a'"
    record = decoded(otspec, f"{words} --depth 3 --max-new-tokens 12 --seed 1")
    assert record["new_tokens"] == generated(*saved, "a = a = a", depth=3, prompt_lookup=3).new_tokens
    shown = otspec(f"tree {saved} {prompts} --size 4 --depth 2 --ranks 3 --max-new-tokens 8 --out tree.txt").out
    models = load_models(*saved, "cpu")
    rows = [models.tokenizer(prompt).input_ids for prompt in ("def f(x):", "import os", "class A:")]
    tree = tree_text(best_choices(accuracies(models, rows, depth=2, ranks=3, new=8), 4))
    assert shown.endswith(f"--tree {tree}")
    words = f"{saved} --prompt 'import os' --max-new-tokens 6 --tree"
    assert decoded(otspec, f"{words} tree.txt")["new_tokens"] == decoded(otspec, f"{words} {tree}")["new_tokens"]


# --- files of settings


def test_decoding_by_a_file(otspec: Otspec, saved: Pair) -> None:
    from tests.cli.test_tune import settings_of

    line = f"decode {saved} --prompt import --settings settings.json --max-new-tokens 6"
    settings_of(saved, "multi-draft", paths=2, depth=3, draft_top_k=9).save(Path("settings.json"))
    assert "tuned for something else" not in otspec(f"{line} {OUT}").err
    (record,) = lines_of("out.jsonl")
    assert {"method": "multi-draft", "paths": 2, "depth": 3, "draft_top_k": 9, "tokens": 6}.items() <= record.items()
    assert "tuned for something else: temperature 0.0 (it was 1.0)" in otspec(f"{line} --temperature 0").err
    settings_of(saved, "vanilla").save(Path("settings.json"))
    record = decoded(otspec, line.removeprefix("decode "))
    assert [record[name] for name in ("method", "draft", "target_calls", "offered")] == ["vanilla", None, 6, []]
    assert "tuned for the target" in otspec("decode --prompt import --settings settings.json", 2).err


@pytest.mark.filterwarnings("ignore:.*is spread over")
def test_a_target_is_spread_as_a_file_or_sizes_say(otspec: Otspec, saved: Pair) -> None:
    places = dict.fromkeys(("model.embed_tokens", "model.norm", "model.rotary_emb", "lm_head"), "cpu")
    layers = json.loads(Path(saved.target, "config.json").read_text())["num_hidden_layers"]
    places |= {f"model.layers.{layer}": "disk" for layer in range(layers)}
    Path("map.json").write_text(json.dumps(places))
    Path("none.json").write_text("[]")
    request = f"decode --target {saved.target} --prompt def --method vanilla --max-new-tokens 2"
    options = ("", "--device-map map.json", "--max-memory cpu=90KB")
    whole, *others = (otspec(f"{request} {more}").out for more in options)
    assert all(other.split("block")[0] == whole.split("block")[0] for other in others)
    assert "write sizes, as in 0=20GiB" in otspec(f"{request} --max-memory 8MB", 2).err
    assert "holds no object" in otspec(f"{request} --device-map none.json", 2).err
