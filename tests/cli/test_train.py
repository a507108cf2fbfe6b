"""`otspec train`, `texts` and `router`, on a tiny random pair."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from safetensors import safe_open  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

from otspec.decode import Budget, Router, training  # noqa: E402
from otspec.decode.distillation.texts import AT_ONCE  # noqa: E402
from otspec.decode.drafters.eagle.model import Eagle  # noqa: E402
from otspec.decode.drafters.heads.model import MedusaHeads, MlpSpeculator  # noqa: E402
from otspec.decode.drafters.sd2.model import Steered  # noqa: E402
from otspec.decode.pair.loading import load_models, save_model  # noqa: E402
from otspec.errors import DataError  # noqa: E402
from tests.cli.running import Otspec, Pair, lines_of  # noqa: E402

SHORT = "--texts 4 --length 8 --batch 2 --steps 4 --every 2"
QUICK = "--texts 4 --length 8 --batch 2 --steps 2"


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight texts are held out, and as many are written at once: else they would take most of the time."""
    monkeypatch.setattr(import_module("otspec.cli.train"), "HELD_OUT", 8)
    monkeypatch.setitem(AT_ONCE, "cpu", 8)


def trained(otspec: Otspec, out: str, words: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Its record and its weights."""
    otspec(f"train {words} --out {out} --prompts prompts.txt {QUICK}")
    return json.loads(Path(out, "training.json").read_text()), load_file(Path(out, "model.safetensors"))


def assert_drafts(otspec: Otspec, target: str, folder: str) -> None:
    said = otspec(f"decode --target {target} --draft {folder} --prompt 'def g(' --max-new-tokens 8").out
    assert "lossless" in said


def test_what_it_leaves_drafts(otspec: Otspec, saved: Pair, prompts: str) -> None:
    line = f"train sd2 {saved} --out sd2 {prompts} {SHORT}"
    said = otspec(line).out
    assert said.index("weights learn from") < said.index("step 0: acceptance") < said.index("step 4: loss")
    curve = lines_of("sd2/curve.jsonl")
    assert [point["step"] for point in curve] == [0, 2, 4]
    assert curve[0]["loss"] is None
    record = json.loads(Path("sd2/training.json").read_text())
    assert (record["last"], record["kind"]) == (curve[-1], "sd2")
    assert not Path("sd2/checkpoint.pt").exists()
    assert isinstance(load_models(saved.target, "sd2", "cpu").draft, Steered)
    assert_drafts(otspec, saved.target, "sd2")
    assert "holds a trained draft model already" in otspec(line, 2).err


def test_a_run_that_stopped_after_its_last_step_goes_on(
    otspec: Otspec, saved: Pair, prompts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is done is not done again, and what would make it something else is refused."""
    line = f"train sd2 {saved} --out sd2 {prompts} {SHORT}"

    def full(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("otspec.decode.training.folder.save", full)
        otspec(line, 2)
    with Path("sd2/curve.jsonl").open("a") as file:
        file.write('{"step": 4, "lo')
    assert "other texts" in otspec(f"{line} --texts 5", 2).err
    before = torch.load("sd2/checkpoint.pt")["curve"]
    assert "step" not in otspec(line).out
    curve = lines_of("sd2/curve.jsonl")
    assert [point["step"] for point in curve] == [0, 2, 4]
    record = json.loads(Path("sd2/training.json").read_text())
    assert (record["last"], record["seconds"]) == (curve[-1], before[-1]["seconds"])


STILL = {"eagle1": {"tokens"}, "parallel": {"tokens"}}
"""What a kind leaves as it is when it goes on learning."""


@pytest.mark.parametrize(
    ("kind", "more", "ahead", "made"),
    [
        ("medusa", "", 4, MedusaHeads),
        ("mlp", "--ahead 2 --loss tvd", 2, MlpSpeculator),
        ("eagle1", "--ahead 2", 2, Eagle),
        ("parallel", "--draft-tokens 40", None, None),
    ],
)
def test_what_is_made_of_the_target_needs_no_draft_model_and_goes_on_learning(
    kind: str, more: str, ahead: int | None, made: Any, otspec: Otspec, saved: Pair, prompts: str
) -> None:
    target = f"--target {saved.target}"
    record, weights = trained(otspec, "first", f"{kind} {target} {more}")
    assert record["draft"] is None
    if ahead:
        assert record["ahead"] == ahead
        assert len(record["last"]["by_draft"]) == (training.KINDS[kind].measured if kind == "eagle1" else ahead)
        assert isinstance(load_models(saved.target, "first", "cpu").draft, made)
    assert_drafts(otspec, saved.target, "first")
    if kind != "medusa":
        went_on, after = trained(otspec, "second", f"{kind} {target} --from first")
        assert went_on["ahead"] == record["ahead"]
        still = {name for name in weights if torch.equal(after[name], weights[name])}
        assert still == STILL.get(kind, set())


def test_all_of_a_model_goes_on_where_its_steering_has_learnt(otspec: Otspec, saved: Pair, prompts: str) -> None:
    target = f"--target {saved.target}"
    begun, weights = trained(otspec, "first", f"sd2-frozen {saved}")
    went_on, after = trained(otspec, "second", f"sd2 {target} --from first --loss jsd")
    assert (went_on["earlier"], went_on["draft"][0]) == (begun, "first")
    curves = [lines_of(f"{one}/curve.jsonl") for one in ("first", "second")]
    assert curves[1][0]["acceptance"] == pytest.approx(curves[0][-1]["acceptance"], abs=1e-6)
    assert after.keys() == weights.keys()
    assert not any(torch.equal(after[name], weights[name]) for name in weights)
    frozen, steered = trained(otspec, "third", f"sd2-frozen {target} --from second")
    assert frozen["earlier"]["earlier"] == begun
    still = {name for name in after if torch.equal(after[name], steered[name])}
    assert still == {name for name in after if not name.startswith("steering.")}
    assert_drafts(otspec, saved.target, "second")


def test_heads_with_rows_for_no_token(otspec: Otspec, saved: Pair, prompts: str) -> None:
    """As of Qwen2.5, of 151 936 or 152 064; a random target writes such tokens."""
    models = load_models(saved.target, None, "cpu")
    models.target.resize_token_embeddings(models.target.config.vocab_size + 200, mean_resizing=False)
    save_model(models.target, models.tokenizer, Path("wide"))
    for target, draft, out in (("wide", saved.draft, "one"), (saved.target, "wide", "two")):
        otspec(f"train distilled --target {target} --draft {draft} --out {out} --on-policy 0.5 {prompts} {SHORT}")


def test_folders_that_nothing_can_go_on_from(otspec: Otspec, saved: Pair, prompts: str) -> None:
    target = f"--target {saved.target}"
    trained(otspec, "heads", f"medusa {target} --ahead 2")
    record, _ = trained(otspec, "layer", f"shared {target}")
    Path("layer/training.json").write_text(json.dumps(record | {"kind": "eagle1"}))
    for words, why in (
        (f"sd2 {target} --from heads", "kind 'medusa'; sd2 goes on from sd2 or sd2-frozen or sd2-blocked"),
        (f"medusa --target {saved.draft} --from heads", f"was trained for the target {saved.target!r}, fingerprint"),
        (f"medusa {target} --from heads --ahead 3", "made for 2 drafts in a row, not 3; leave out"),
        (f"medusa {target} --from {saved.draft}", "has no training.json of `otspec train`"),
        (f"sd2 {saved} --from heads", "--from and --draft: both name the draft model that learns"),
        (f"shared {target} --from heads --draft-tokens 9", "--from and --draft-tokens: a draft model that"),
        (f"eagle1 {target} --from layer", "reads layers [1, 1] of its target, and eagle1 reads [2]; what was eagle3"),
    ):
        assert why in otspec(f"train {words} --out new {SHORT}", 2).err, words
        assert not Path("new").exists()


@pytest.mark.parametrize(("more", "wanted"), [("", "float32"), ("--dtype float64", "float64")])
def test_it_learns_in_single_precision_where_nothing_is_said(
    more: str, wanted: str, otspec: Otspec, saved: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a GPU, too, where models are else held as they were saved: half precision loses what a step changes."""
    request = []

    def loading(*arguments: object, packed: bool) -> None:
        assert not packed  # what is packed does not learn
        request.append(arguments[-1])
        raise DataError("no more is looked at")

    monkeypatch.setattr("otspec.decode.pair.loading.load_models", loading)
    assert "no more is looked at" in otspec(f"train sd2 {saved} --out new {SHORT} {more}", 2).err
    assert request == [wanted]


def test_what_is_recorded_and_learnt_from_is_what_is_asked(otspec: Otspec, chatty: Pair, tasks: str) -> None:
    otspec(f"record {chatty} --prompts {tasks} --positions 5 --max-new-tokens 4 --out recorded.safetensors")
    with safe_open("recorded.safetensors", framework="numpy") as file:
        assert json.loads(file.metadata()["otspec"])["prompts"]["count"] == 5  # each turn is a prompt
    small = f"--draft {chatty.draft} --clusters 4 --most 2 --width 4 --epochs 1 --tokens 9"
    assert "learnt from 9 tokens" in otspec(f"router {tasks} {small} --out router.safetensors").out
    assert Router.load("router.safetensors").budget == Budget(2, falling=2)
    otspec(f"train distilled {chatty} --prompts {tasks} --texts 2 --length 12 --batch 2 --steps 1 --out trained")


def test_texts_that_a_target_asks_itself(otspec: Otspec, chatty: Pair) -> None:
    """Written, gone on with, and learnt from, by a draft model of each kind that shares the target's parts."""
    target = f"--target {chatty.target}"
    line = f"texts {target} --length 20 --temperature 1,0.5 --ask-temperature 0.5 --out texts.safetensors"
    assert otspec(f"{line} --count 8").out.rstrip().endswith("8 texts of 20 tokens")
    assert "10 texts of 20 tokens; with the rest of its batch the file holds 16" in otspec(f"{line} --count 10").out
    line = f"train shared {target} --texts texts.safetensors --length 9 --out new"
    assert "--length and a file of --texts" in otspec(line, 2).err
    with safe_open("texts.safetensors", "numpy") as file:
        assert file.metadata()["ask_temperature"] == "0.5"
    for kind in ("shared", "parallel"):
        learn = f"train {kind} {target} --texts texts.safetensors --draft-tokens 9 --batch 2 --steps 2"
        otspec(f"{learn} --loss kl+alpha:2 --out {kind}")
        record = json.loads(Path(kind, "training.json").read_text())
        # Whole batches are written, 8 held out.
        assert record["texts"] == {"count": 8, "length": 20, "from": "texts.safetensors"}
        assert "lossless" in otspec(f"decode {target} --draft {kind} --depth 2 --prompt a").out
