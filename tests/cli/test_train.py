"""`otspec train` as a user types it, on a tiny random pair."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from otspec.cli.names import LOSSES, TRAINED  # noqa: E402
from otspec.decode import training  # noqa: E402
from otspec.decode.drafters.eagle.model import EagleLlama  # noqa: E402
from otspec.decode.drafters.heads.model import MedusaHeads, MlpSpeculator  # noqa: E402
from otspec.decode.drafters.sd2.model import SteeredLlama  # noqa: E402
from otspec.decode.pair.loading import load_models  # noqa: E402
from otspec.errors import DataError  # noqa: E402
from tests.cli.test_commands import otspec_command  # noqa: E402

SHORT = ("--texts", "4", "--length", "8", "--batch", "2", "--steps", "4", "--every", "2")


def test_names_are_those_of_the_package() -> None:
    assert tuple(training.KINDS) == TRAINED
    assert tuple(training.LOSSES) == LOSSES


def test_what_it_leaves_drafts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], saved: tuple[str, ...], tmp_path: Path
) -> None:
    out, prompts = tmp_path / "sd2", tmp_path / "prompts.txt"
    prompts.write_text("def f(x):\nimport os\n")
    command = ("train", "sd2", *saved, "--out", str(out), "--prompts", str(prompts), *SHORT)
    assert otspec_command(monkeypatch, *command) == 0
    said = capsys.readouterr().out
    assert said.index("weights learn from") < said.index("step 0: acceptance") < said.index("step 4: loss")
    curve = [json.loads(line) for line in (out / "curve.jsonl").read_text().splitlines()]
    assert [point["step"] for point in curve] == [0, 2, 4]
    assert curve[0]["loss"] is None
    record = json.loads((out / "training.json").read_text())
    assert record["last"] == curve[-1]
    assert record["kind"] == "sd2"
    assert not (out / "checkpoint.pt").exists()
    assert type(load_models(saved[1], str(out), "cpu").draft) is SteeredLlama
    decode = ("decode", "--target", saved[1], "--draft", str(out), "--prompt", "def g(", "--max-new-tokens", "8")
    assert otspec_command(monkeypatch, *decode) == 0
    assert "lossless" in capsys.readouterr().out
    assert otspec_command(monkeypatch, *command) == 2
    assert "holds a trained draft model already" in capsys.readouterr().err


def test_a_run_that_stopped_after_its_last_step_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], saved: tuple[str, ...], tmp_path: Path
) -> None:
    """What is done is not done again, and what would make it something else is refused."""
    out, prompts = tmp_path / "sd2", tmp_path / "prompts.txt"
    prompts.write_text("def f(x):\nimport os\n")
    command = ("train", "sd2", *saved, "--out", str(out), "--prompts", str(prompts), *SHORT)

    def full(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("otspec.decode.training.folder.save", full)
        assert otspec_command(patch, *command) != 0
    with (out / "curve.jsonl").open("a") as file:
        file.write('{"step": 4, "lo')
    for more, why in ((("--batch", "1"), "batches of 2, not of batches of 1"), (("--texts", "5"), "other texts")):
        capsys.readouterr()
        assert otspec_command(monkeypatch, *command, *more) == 2
        assert why in " ".join(capsys.readouterr().err.split())
    before = torch.load(out / "checkpoint.pt")["curve"]
    assert otspec_command(monkeypatch, *command) == 0
    assert "step" not in capsys.readouterr().out
    curve = [json.loads(line) for line in (out / "curve.jsonl").read_text().splitlines()]
    assert [point["step"] for point in curve] == [0, 2, 4]
    record = json.loads((out / "training.json").read_text())
    assert record["last"] == curve[-1]
    assert record["seconds"] == before[-1]["seconds"]
    assert record["batch"] == 2


@pytest.mark.parametrize(
    ("kind", "more", "made"),
    [
        ("medusa", (), MedusaHeads),
        ("mlp", ("--ahead", "2", "--loss", "tvd"), MlpSpeculator),
        ("eagle1", ("--ahead", "2"), EagleLlama),
    ],
)
def test_what_is_made_of_the_target_needs_no_draft_model(
    kind: str,
    more: tuple[str, ...],
    made: type,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    saved: tuple[str, ...],
    tmp_path: Path,
) -> None:
    out, prompts, target = tmp_path / kind, tmp_path / "prompts.txt", saved[:2]
    prompts.write_text("def f(x):\nimport os\n")
    short = ("--texts", "4", "--length", "8", "--batch", "2", "--steps", "2", "--prompts", str(prompts))
    assert otspec_command(monkeypatch, "train", kind, *target, "--out", str(out), *short, *more) == 0
    record = json.loads((out / "training.json").read_text())
    assert record["draft"] is None
    asked = int(more[1]) if more else 4
    assert record["ahead"] == asked
    assert len(record["last"]["by_draft"]) == (training.KINDS[kind].measured if kind == "eagle1" else asked)
    assert type(load_models(target[1], str(out), "cpu").draft) is made
    capsys.readouterr()
    decode = ("decode", *target, "--draft", str(out), "--prompt", "def g(", "--max-new-tokens", "8")
    assert otspec_command(monkeypatch, *decode) == 0
    assert "lossless" in capsys.readouterr().out


def _trained(
    monkeypatch: pytest.MonkeyPatch, out: Path, kind: str, given: tuple[str, ...], *more: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Its record and its weights."""
    from safetensors.torch import load_file

    short = ("--texts", "4", "--length", "8", "--batch", "2", "--steps", "2")
    prompts = out.parent / "prompts.txt"
    prompts.write_text("def f(x):\nimport os\n")
    assert (
        otspec_command(monkeypatch, "train", kind, *given, "--out", str(out), "--prompts", str(prompts), *short, *more)
        == 0
    )
    return json.loads((out / "training.json").read_text()), load_file(out / "model.safetensors")


def test_all_of_a_model_goes_on_where_its_steering_has_learnt(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], saved: tuple[str, ...], tmp_path: Path
) -> None:
    first, second, target = tmp_path / "first", tmp_path / "second", saved[:2]
    begun, weights = _trained(monkeypatch, first, "sd2-frozen", saved)
    went_on, after = _trained(monkeypatch, second, "sd2", target, "--from", str(first), "--loss", "jsd")
    assert went_on["earlier"] == begun
    assert went_on["draft"][0] == str(first)
    curves = [[json.loads(line) for line in (one / "curve.jsonl").read_text().splitlines()] for one in (first, second)]
    assert curves[1][0]["acceptance"] == pytest.approx(curves[0][-1]["acceptance"], abs=1e-6)
    assert after.keys() == weights.keys()
    assert not any(torch.equal(after[name], weights[name]) for name in weights)
    frozen, steered = _trained(monkeypatch, tmp_path / "third", "sd2-frozen", target, "--from", str(second))
    assert frozen["earlier"]["earlier"] == begun
    still = {name for name in after if torch.equal(after[name], steered[name])}
    assert still == {name for name in after if not name.startswith("steering.")}
    capsys.readouterr()
    decode = ("decode", *target, "--draft", str(second), "--prompt", "def g(", "--max-new-tokens", "8")
    assert otspec_command(monkeypatch, *decode) == 0
    assert "lossless" in capsys.readouterr().out


def test_folders_that_nothing_can_go_on_from(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], saved: tuple[str, ...], tmp_path: Path
) -> None:
    folder, target, draft = tmp_path / "heads", saved[:2], saved[3]
    _trained(monkeypatch, folder, "medusa", target, "--ahead", "2")
    others = ("--target", draft)
    for given, why in (
        (("sd2", *target, "--from", str(folder)), "kind 'medusa'; sd2 goes on from sd2 or sd2-frozen or sd2-blocked"),
        (("medusa", *others, "--from", str(folder)), f"was trained for the target {target[1]!r}, fingerprint"),
        (("medusa", *target, "--from", str(folder), "--ahead", "3"), "made for 2 drafts in a row, not 3; leave out"),
        (("medusa", *target, "--from", draft), "has no training.json of `otspec train`"),
        (("sd2", *saved, "--from", str(folder)), "is what learns; leave out --draft, or --from"),
        (("eagle3", *target, "--from", str(folder), "--draft-tokens", "9"), "has its tokens; leave out --draft-tokens"),
    ):
        capsys.readouterr()
        assert otspec_command(monkeypatch, "train", *given, "--out", str(tmp_path / "new"), *SHORT) == 2
        assert why in " ".join(capsys.readouterr().err.split())
        assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("kind", "more"), [("eagle1", ()), ("parallel", ("--draft-tokens", "40")), ("mlp", ("--ahead", "2"))]
)
def test_what_is_made_of_the_target_goes_on_with_what_learnt(
    kind: str, more: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, saved: tuple[str, ...], tmp_path: Path
) -> None:
    first, target = tmp_path / "first", saved[:2]
    begun, weights = _trained(monkeypatch, first, kind, target, *more)
    went_on, after = _trained(monkeypatch, tmp_path / "second", kind, target, "--from", str(first))
    assert went_on["ahead"] == begun["ahead"]
    still = {name for name in weights if torch.equal(after[name], weights[name])}
    assert still == {"eagle1": {"model.embed_tokens.weight", "lm_head.weight"}, "parallel": {"tokens"}}.get(kind, set())


@pytest.mark.parametrize(("more", "wanted"), [((), "float32"), (("--dtype", "float64"), "float64")])
def test_it_learns_in_single_precision_where_nothing_is_said(
    more: tuple[str, ...],
    wanted: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    saved: tuple[str, ...],
    tmp_path: Path,
) -> None:
    """On a GPU, too, where models are else held as they were saved: half precision loses what a step changes."""
    asked = []

    def loading(*arguments: object, packed: bool) -> None:
        assert not packed  # what is packed does not learn
        asked.append(arguments[-1])
        raise DataError("no more is looked at")

    monkeypatch.setattr("otspec.decode.pair.loading.load_models", loading)
    assert otspec_command(monkeypatch, "train", "sd2", *saved, "--out", str(tmp_path / "new"), *SHORT, *more) == 2
    assert "no more is looked at" in capsys.readouterr().err
    assert asked == [wanted]


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (("sd3",), "no kind 'sd3'; known: distilled, sd2"),
        (("sd2", "--loss", "l2"), "no loss 'l2'; known: kl, reverse-kl, jsd, tvd, eagle"),
        (("sd2", "--loss", "eagle"), "loss 'eagle' is of hidden states that a model drafts"),
        (("sd2", "--on-policy", "0.5"), "this kind looks at its target's hidden states to draft"),
        (("sd2", "--ahead", "2"), "sd2 learns one draft at a time"),
        (("medusa",), "medusa is made of its target, and no draft model learns; leave out --draft"),
        (("sd2", "--rate", "0"), "the learning rate is 0.0; pass a number above 0"),
        (("sd2",), "no token begins a text of"),
    ],
)
def test_bad_requests(more: tuple[str, ...], why: str, refused: Callable[..., str], saved: tuple[str, ...]) -> None:
    assert why in refused("train", *more, *saved, "--out", "new", *SHORT)
    assert not Path("new").exists()
