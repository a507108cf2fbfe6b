"""`otspec decode` as a user types it, on a tiny random pair."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import otspec  # noqa: E402
from otspec.decode import shipped  # noqa: E402
from otspec.decode.methods.catalogue import METHODS, lossless  # noqa: E402
from otspec.decode.pair.loading import load_models  # noqa: E402
from otspec.decode.shipped import frequencies, held_out  # noqa: E402
from tests.cli.test_commands import otspec_command  # noqa: E402
from tests.decode.tokenizers_of import word_piece  # noqa: E402
from tests.saved_pair import save, tokenizer  # noqa: E402


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_text_and_numbers_are_those_of_generate(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    saved: tuple[str, ...],
    prompts: Path,
    tmp_path: Path,
) -> None:
    out = tmp_path / "out.jsonl"
    rule = ("--paths", "3", "--depth", "4", "--solver", "interval")
    sampling = ("--temperature", "0.8", "--top-k", "40", "--max-new-tokens", "12", "--seed", "1", "--draft-top-k", "5")
    arguments = (*saved, "--prompts", str(prompts), *rule, *sampling, "--json", str(out))
    assert otspec_command(monkeypatch, "decode", *arguments) == 0
    shown = capsys.readouterr().out
    lines = lines_of(out)
    assert [line["prompts"] for line in lines] == [["def f(x):"], ["import os"], ["class A:"]]
    assert [line["seed"] for line in lines] == [1, 2, 3]
    models = load_models(saved[1], saved[3], "cpu")
    for seed, line in enumerate(lines, start=1):
        ids = torch.tensor([models.tokenizer(line["prompts"][0]).input_ids])
        settings: dict[str, Any] = {
            "temperature": 0.8,
            "top_k": 40,
            "max_new_tokens": 12,
            "seed": seed,
            "draft_top_k": 5,
        }
        assert models.draft is not None
        again = otspec.generate(models.target, models.draft, ids, paths=3, depth=4, solver="interval", **settings)
        assert line["new_tokens"] == again.new_tokens
        assert line["texts"] == [models.tokenizer.decode(again.new_tokens[0])]
        assert line["accepted"] == again.metrics.accepted
        assert line["block_efficiency"] == line["tokens"] / line["sequence_steps"] == again.metrics.block_efficiency
        assert {"lossless": True, "solver": "interval", "paths": 3, "depth": 4, "top_k": 40}.items() <= line.items()
        assert line["seconds"].keys() == {"prompt", "draft", "target", "verification", "rest"}
    tokens, steps = (sum(line[name] for line in lines) for name in ("tokens", "sequence_steps"))
    assert f"block efficiency {tokens / steps:.3f} tokens per target call ({tokens} tokens, {steps} steps)" in shown
    assert "multi-draft (paths 3, depth 4, solver interval, draft_top_k 5), lossless" in shown


def test_a_targets_own_configuration_is_told_and_can_be_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    target, draft = save(tmp_path)
    known = json.loads((target / "generation_config.json").read_text())
    (target / "generation_config.json").write_text(json.dumps(known | {"repetition_penalty": 5.0, "min_p": 0.1}))
    out = tmp_path / "out.jsonl"
    command = ("decode", "--target", str(target), "--draft", str(draft), "--prompt", "import os", "--temperature", "0")
    texts = {}
    for more, acting in (((), {"repetition_penalty": 5.0}), (("--no-own-config",), {})):
        assert otspec_command(monkeypatch, *command, "--max-new-tokens", "24", *more, "--json", str(out)) == 0
        (line,) = lines_of(out)
        assert line["own_config"] == acting  # min-p does nothing to greedy text
        texts[more] = line["new_tokens"][0]
        told = " ".join(capsys.readouterr().err.split())
        note = f"note: the generation_config.json of {target} acts on its text: repetition_penalty 5.0, min_p 0.1;"
        assert (note in told) == bool(acting)
    model = load_models(str(target), None, "cpu").target
    ids = torch.tensor([tokenizer()("import os").input_ids])
    own, plain = (
        model.generate(ids, do_sample=False, max_new_tokens=24, repetition_penalty=one)[0, ids.shape[1] :].tolist()
        for one in (5.0, 1.0)
    )
    assert own != plain
    assert list(texts.values()) == [own, plain]


@pytest.mark.parametrize(
    ("arguments", "environment", "threads"),
    [
        ((), {}, 1),
        (("--threads", "3"), {"OMP_NUM_THREADS": "2"}, 3),
        ((), {"OMP_NUM_THREADS": "2"}, 2),
        (("--batch", "2"), {}, 2),
    ],
)
def test_texts_one_at_a_time_take_one_thread_unless_the_user_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
    saved: tuple[str, ...],
    tmp_path: Path,
    arguments: tuple[str, ...],
    environment: dict[str, str],
    threads: int,
) -> None:
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    out, before = tmp_path / "out.jsonl", torch.get_num_threads()
    try:
        torch.set_num_threads(2)  # as torch begins on two cores
        command = ("decode", *saved, "--prompt", "a", "--device", "cpu", "--method", "vanilla", "--max-new-tokens", "2")
        assert otspec_command(monkeypatch, *command, *arguments, "--json", str(out)) == 0
    finally:
        torch.set_num_threads(before)
    (line,) = lines_of(out)
    assert line["threads"] == threads
    assert line["load"] is None or line["load"] >= 0


def test_log_probabilities_are_kept_with_the_texts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], saved: tuple[str, ...], tmp_path: Path
) -> None:
    out = tmp_path / "texts.jsonl"
    command = ("decode", *saved, "--prompt", "import ", "--max-new-tokens", "6", "--logprobs", "2")
    assert otspec_command(monkeypatch, *command, "--json", str(out)) == 0
    line = json.loads(out.read_text())
    assert [len(line[name][0]) for name in ("logprobs", "raw_logprobs", "top_logprobs")] == [6, 6, 6]
    assert {len(top) for top in line["top_logprobs"][0]} == {2}
    mean = sum(line["logprobs"][0]) / 6
    assert f"log-probability {mean:.4f} nats a token" in capsys.readouterr().out
    assert otspec_command(monkeypatch, *command, "--method", "generate") == 2
    assert "generate keeps no log-probabilities; leave out --logprobs" in capsys.readouterr().err


def test_a_transcript_tells_what_became_of_every_draft(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], saved: tuple[str, ...], tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    command = ("decode", *saved, "--prompt", "def f", "--paths", "2", "--depth", "3", "--max-new-tokens", "24")
    assert otspec_command(monkeypatch, *command, "--seed", "1", "--transcript", "--json", str(out)) == 0
    shown = capsys.readouterr().out
    (line,) = lines_of(out)
    ((new,), (blocks,)) = line["new_tokens"], line["blocks"]
    text = [token for block in blocks for token in (*block["accepted"], block["token"])]
    assert text[: len(new)] == new
    assert len(blocks) == line["sequence_steps"]
    assert sum(len(block["accepted"]) >= 1 for block in blocks) == line["accepted"][0]
    refused = [path for block in blocks for path in block["rejected"]]
    assert refused
    assert all(len(path) + len(block["accepted"]) <= 3 for block in blocks for path in block["rejected"])
    # What stands in place of rejected tokens is none of them, unless the target drew one of them again.
    assert sum(block["token"] in [path[0] for path in block["rejected"]] for block in blocks) < len(blocks)
    models = load_models(saved[1], saved[3], "cpu")
    assert f"[{models.tokenizer.decode(blocks[0]['rejected'][0])}]" in shown or not blocks[0]["rejected"]
    assert otspec_command(monkeypatch, *command[:-2], "--method", "generate", "--transcript") == 2


def test_several_draft_models(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], saved: tuple[str, ...], tmp_path: Path
) -> None:
    target, draft = saved[1], saved[3]
    out = tmp_path / "out.jsonl"
    both = ("--target", target, "--draft", draft, "--draft", target, "--law", "independent", "--depth", "3")
    sampling = ("--max-new-tokens", "12", "--seed", "1", "--prompt", "def f", "--json", str(out))
    assert otspec_command(monkeypatch, "decode", *both, *sampling) == 0
    models = load_models(target, [draft, target], "cpu")
    prompt = torch.tensor([models.tokenizer("def f").input_ids])
    text = otspec.generate(
        models.target, models.drafts, prompt, law="independent", depth=3, temperature=1, max_new_tokens=12, seed=1
    )
    (line,) = lines_of(out)
    assert line["draft"] == [draft, target]
    assert line["new_tokens"] == text.new_tokens
    assert text.metrics.drafted_nodes > 0
    assert otspec_command(monkeypatch, "decode", *both[:-4], "--prompt", "a") == 2
    assert "several draft by law=" in capsys.readouterr().err


def test_the_shipped_pair_is_known_by_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], prompts: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    pair = ("--target", "shipped", "--draft", "shipped", "--paths", "4", "--depth", "8", "--solver", "interval")
    arguments = (*pair, "--max-new-tokens", "16", "--seed", "1", "--prompts", str(prompts), "--json", str(out))
    assert otspec_command(monkeypatch, "decode", *arguments) == 0
    assert "tokens per target call" in capsys.readouterr().out
    tokens, steps = (sum(line[name] for line in lines_of(out)) for name in ("tokens", "sequence_steps"))
    assert tokens > 1.5 * steps
    begin = load_models("shipped", None, "cpu").tokenizer.bos_token_id
    assert all(len(row) == 5 and row[0] == begin for row in held_out(5))


def test_the_most_frequent_tokens_draft(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], saved: tuple[str, ...], tmp_path: Path
) -> None:
    """With the shipped pair as it is, with a file of one's own, and as `otspec.generate` is told in ids."""
    out = tmp_path / "out.jsonl"
    more = ("--prompt", "def f", "--max-new-tokens", "12", "--seed", "1", "--json", str(out))
    assert otspec_command(monkeypatch, "decode", "--drafter", "fr", *more) == 0
    shown = capsys.readouterr().out
    assert "multi-draft (drafter fr, drafter_tokens 512), lossless" in shown
    models = load_models("shipped", "shipped", "cpu")
    ids = torch.tensor([models.tokenizer("def f").input_ids])
    kept = np.argsort(-frequencies(), kind="stable")[:512]
    assert models.draft is not None
    settings: dict[str, Any] = {"max_new_tokens": 12, "seed": 1, "temperature": 1.0}
    again = otspec.generate(models.target, models.draft, ids, draft_tokens=kept, **settings)
    (line,) = lines_of(out)
    assert line["new_tokens"] == again.new_tokens
    assert {"drafter": "fr", "drafter_tokens": 512, "lossless": True}.items() <= line.items()
    np.savez(tmp_path / "counts.npz", counts=np.arange(40)[::-1])
    fr = ("--drafter", "fr", "--drafter-tokens", "9", "--frequencies", str(tmp_path / "counts.npz"))
    assert otspec_command(monkeypatch, "decode", *saved, *fr, *more) == 0
    models = load_models(saved[1], saved[3], "cpu")
    ids = torch.tensor([models.tokenizer("def f").input_ids])
    assert models.draft is not None
    again = otspec.generate(models.target, models.draft, ids, draft_tokens=range(9), **settings)
    assert lines_of(out)[0]["new_tokens"] == again.new_tokens


@pytest.mark.parametrize("name", ["pa-fr:200", "dynaspec:8", "tli", "rdk"])
def test_the_shipped_pair_has_every_drafter(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As `otspec.generate` is told."""
    pytest.importorskip("safetensors")
    out = tmp_path / "out.jsonl"
    more = ("--prompt", "def f", "--max-new-tokens", "12", "--seed", "1", "--json", str(out))
    assert otspec_command(monkeypatch, "decode", "--drafter", name, *more) == 0
    (line,) = lines_of(out)
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
    again = otspec.generate(target, draft, ids, max_new_tokens=12, seed=1, temperature=1.0, **settings)
    assert line["new_tokens"] == again.new_tokens


def test_steps_choose_their_depth(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], saved: tuple[str, ...], tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    arguments = (*saved, "--prompt", "import", "--pace", "goodput", "--depth", "2", "--json", str(out))
    assert otspec_command(monkeypatch, "decode", *arguments) == 0
    assert "multi-draft (depth 2, pace goodput), lossless" in capsys.readouterr().out
    (line,) = lines_of(out)
    assert line["pace"] == "goodput"
    assert line["sequence_steps"] >= line["offered"][0] >= line["offered"][1] > 0  # how deep depends on the clock


def test_what_may_deviate_is_called_lossy() -> None:
    multi_draft = METHODS["multi-draft"]
    for solver in (None, "nested", "interval", "kseq", ["max_flow", "interval"]):
        assert lossless(multi_draft, {"solver": solver}), solver
    for solver in ("global_resolution", ["global_resolution", "naive"]):
        assert not lossless(multi_draft, {"solver": solver}), solver


def test_every_method_decodes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], saved: tuple[str, ...], tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    for method in METHODS:
        arguments = (*saved, "--prompt", "import", "--method", method, "--max-new-tokens", "6", "--json", str(out))
        assert otspec_command(monkeypatch, "decode", *arguments) == 0, method
        assert ("LOSSY" in capsys.readouterr().out) == (method == "typical"), method
        (line,) = lines_of(out)
        assert line["tokens"] == 6, method
        assert line["method"] == method
        assert (line["draft"] is None) == (not METHODS[method].drafts), method


def test_all_lossless_methods_agree_at_temperature_0(
    monkeypatch: pytest.MonkeyPatch, saved: tuple[str, ...], prompts: Path, tmp_path: Path
) -> None:
    found = []
    for extra in (("--method", "vanilla"), ("--batch", "2"), ("--branching", "2,2", "--law", "without_replacement")):
        out = tmp_path / "out.jsonl"
        arguments = (*saved, "--prompts", str(prompts), "--temperature", "0", "--max-new-tokens", "8", *extra)
        assert otspec_command(monkeypatch, "decode", *arguments, "--json", str(out)) == 0
        found.append([text for line in lines_of(out) for text in line["texts"]])
    assert found[0] == found[1] == found[2]


def test_prompts_as_json_lines_and_stop_strings(
    monkeypatch: pytest.MonkeyPatch, saved: tuple[str, ...], tmp_path: Path
) -> None:
    path, out = tmp_path / "prompts.jsonl", tmp_path / "out.jsonl"
    path.write_text('{"prompt": "def f(x):\\n    return", "id": 3}\n\n')
    arguments = (*saved, "--prompts", str(path), "--temperature", "0", "--json", str(out), "--max-new-tokens")
    assert otspec_command(monkeypatch, "decode", *arguments, "12") == 0
    (whole,) = lines_of(out)
    assert whole["prompts"] == ["def f(x):\n    return"]
    text: str = whole["texts"][0]
    stop = next(letter for letter in text if letter.isascii())
    assert otspec_command(monkeypatch, "decode", *arguments, "12", "--stop", stop) == 0
    (stopped,) = lines_of(out)
    assert stopped["texts"] == [text[: text.index(stop) + 1]]


def test_a_chain_takes_over_where_a_solver_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], saved: tuple[str, ...]
) -> None:
    arguments = ("decode", *saved, "--prompt", "import", "--max-new-tokens", "3", "--solver")
    assert otspec_command(monkeypatch, *arguments, "max_flow:max_cells=5") == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "exceed max_cells = 5" in error
    assert "--solver takes a list" in error
    assert otspec_command(monkeypatch, *arguments, "max_flow:max_cells=5,interval") == 0


BAD = [
    (("--prompts", "nowhere.txt"), "there is no file nowhere.txt"),
    (("--prompts", "empty.txt"), "empty.txt holds no prompts; write one per line"),
    (("--prompts", "no.jsonl"), "no.jsonl, line 2 is no JSON"),
    (("--prompts", "other.jsonl"), "other.jsonl, line 1 has no prompt in a field known here"),
    ((), "no prompts; pass --prompts FILE or --prompt TEXT"),
    (("--prompt", ""), "prompt 1 is empty"),
    (("--prompt", "a", "--method", "magic"), "no method 'magic'; known: multi-draft, vanilla"),
    (("--prompt", "a", "--method", "vanilla", "--paths", "2"), "vanilla has no paths; it takes no such settings"),
    (("--prompt", "a", "--method", "block", "--solver", "lp"), "block has no solver; it takes depth"),
    (("--prompt", "a", "--method", "assisted", "--batch", "2"), "assisted takes one prompt at a time; the batch is 2"),
    (("--prompt", "a", "--solver", "lp2"), "no solver 'lp2'; known: canonical"),
    (("--prompt", "a", "--solver", "nested,interval"), "nested is a joint rule"),
    (("--prompt", "a", "--law", "best"), "no draft law 'best'; known: iid"),
    (("--prompt", "a", "--branching", "2,two"), "'two' is not a positive number"),
    (("--prompt", "a", "--branching", "2,1", "--paths", "2"), "leave out --paths and --depth"),
    (("--prompt", "a", "--paths", "1000000", "--depth", "8"), "1,000,000 paths of 8 tokens have 8,000,001 slots"),
    (("--prompt", "a", "--paths", "4", "--depth", "1000000"), "4 paths of 1,000,000 tokens have 4,000,001 slots"),
    (("--prompt", "a", "--method", "block", "--depth", "1000000"), "a tree of 1,000,001 slots takes some"),
    (("--prompt", "a", "--branching", "1000,1000"), "a tree of 1,001,001 slots takes some"),
    (("--prompt", "a", "--branching", "10,10,10,10,10,10,10"), "branching has 1,111,111 slots down to level 6"),
    (("--prompt", "a", "--top-p", "2"), "'--top-p': 2; it is a probability in (0, 1]"),
    (("--prompt", "a", "--draft-top-p", "0"), "'--draft-top-p': 0; it is a probability in (0, 1]"),
    (("--prompt", "a", "--method", "assisted", "--draft-top-k", "3"), "assisted has no draft_top_k; it takes depth"),
    (("--prompt", "a", "--temperature", "-1"), "'--temperature': -1; a temperature is finite and >= 0"),
    (("--prompt", "a", "--pace", "fast"), "pace is 'fast'; it is 'goodput'"),
    (("--prompt", "a", "--pace", "goodput", "--draft-confidence", "0.4"), "both say where drafts end"),
    (("--prompt", "a", "--pace", "goodput", "--method", "block"), "block has no pace; it takes depth"),
    (("--prompt", "a", "--json", "nowhere/x"), "'--json': there is no folder nowhere"),
    (("--prompt", "a", "--drafter", "oracle"), "no drafter 'oracle'; known: fr"),
    (("--prompt", "a", "--drafter-tokens", "5"), "--drafter-tokens is for --drafter fr or pa-fr or dynaspec"),
    (("--prompt", "a", "--frequencies", "f.npy"), "--frequencies is for --drafter fr or pa-fr; pass that too"),
    (("--prompt", "a", "--drafter", "fr"), "pass --frequencies FILE, such as np.save writes"),
    (("--prompt", "a", "--drafter", "pa-fr"), "pass --frequencies FILE, such as np.save writes"),
    (("--prompt", "a", "--drafter", "dynaspec"), "pass --router FILE, which `otspec router` makes"),
    (("--prompt", "a", "--drafter", "tli"), "no draft model with another tokenizer comes with"),
    (("--prompt", "a", "--drafter", "rdk", "--router", "x"), "--router is for --drafter dynaspec"),
    (("--prompt", "a", "--drafter", "fr:x"), "'fr:x' keeps 'x' tokens; write a number from 1 on"),
    (("--prompt", "a", "--drafter", "fr", "--frequencies", "binary.txt"), "cannot be read as token frequencies"),
    (("--prompt", "a", "--drafter", "fr", "--frequencies", "nowhere.npy"), "cannot be read as token frequencies"),
    (("--prompt", "a", "--drafter", "fr", "--frequencies", "other.npz"), "cannot be read as token frequencies"),
    (("--prompt", "a", "--drafter", "fr", "--frequencies", "few.npy", "--drafter-tokens", "9"), "there are 4 tokens"),
    (("--prompt", "a", "--drafter", "fr", "--frequencies", "minus.npy"), "frequencies[1] is -1"),
    (("--prompt", "a", "--drafter", "fr", "--frequencies", "long.npy"), "draft_tokens holds 99999; token ids run"),
    (("--prompt", "a", "--drafter", "fr", "--frequencies", "few.npy", "--method", "vanilla"), "no draft_tokens"),
    (("--prompt", "a", "--drafter", "fr", "--frequencies", "few.npy", "--settings", "x"), "leave out --frequencies"),
    (("--prompts", "binary.txt"), "binary.txt cannot be read"),
    (("--prompt", "a", "--device", "abacus"), "no device 'abacus' here"),
    (("--prompt", "a", "--dtype", "int3"), "no dtype 'int3'; known: auto, float32"),
]


def test_bad_input_is_one_clear_error(refused: Callable[..., str], saved: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("\n  \n")
    (tmp_path / "binary.txt").write_bytes(bytes(range(256)))
    np.save(tmp_path / "few.npy", [3, 1, 2, 5])
    np.save(tmp_path / "minus.npy", [3, -1, 2, 5])
    np.save(tmp_path / "long.npy", np.arange(100_000))
    np.savez(tmp_path / "other.npz", frequencies=[3, 1, 2, 5])
    (tmp_path / "no.jsonl").write_text('{"prompt": "a"}\nb\n')
    (tmp_path / "other.jsonl").write_text('{"texts": "a"}\n')
    for arguments, message in BAD:
        assert message in refused("decode", *saved, *arguments), arguments


@pytest.mark.parametrize("name", ["./nowhere/model", "nobody/nothing"])
def test_a_model_that_is_not_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], saved: tuple[str, ...], name: str
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert otspec_command(monkeypatch, "decode", *saved[:2], "--draft", name, "--prompt", "a") == 2
    error = capsys.readouterr().err
    assert f"the draft '{name}' cannot be loaded" in " ".join(error.split())
    assert len(error.strip().splitlines()) == 1


def test_a_draft_model_with_another_tokenizer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    target, draft = save(tmp_path)
    tokenizer(more="zq zqz zqzq " * 100).save_pretrained(draft)
    arguments = ("--target", str(target), "--draft", str(draft), "--prompt", "def zqz", "--max-new-tokens", "12")
    out = tmp_path / "out.jsonl"
    for method in ("multi-draft", "single"):
        assert otspec_command(monkeypatch, "decode", *arguments, "--method", method, "--json", str(out)) == 0
        (line,) = lines_of(out)
        models = load_models(str(target), str(draft), "cpu")
        assert models.draft is not None
        again = otspec.generate(
            models.target,
            models.draft,
            torch.tensor([models.tokenizer("def zqz").input_ids]),
            tokenizer=models.tokenizer,
            draft_tokenizer=models.draft_tokenizer,
            solver="single" if method == "single" else None,
            max_new_tokens=12,
            seed=0,
        )
        assert line["new_tokens"] == again.new_tokens
    word_piece().save_pretrained(draft)
    capsys.readouterr()
    assert otspec_command(monkeypatch, "decode", *arguments) == 2
    assert "neither works on bytes nor falls back on them" in " ".join(capsys.readouterr().err.split())
