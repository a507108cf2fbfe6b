"""`otspec tune`, on a tiny random pair."""

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from otspec.decode import Tuned  # noqa: E402
from otspec.decode.pair.loading import load_models  # noqa: E402
from otspec.decode.tuning.identity import machine  # noqa: E402
from otspec.decode.tuning.tuned import Mark  # noqa: E402
from tests.cli.running import Otspec, Pair  # noqa: E402


def settings_of(saved: Pair, method: str, **settings: object) -> Tuned:
    """A file's settings for the pair, at temperature 1 on this machine."""
    models = load_models(*saved, "cpu")
    assert models.draft is not None
    marks = Mark.of(saved.target, models.target), Mark.of(saved.draft, models.draft)
    return Tuned(method, settings, "by hand", *marks, {"temperature": 1.0}, machine(models.target))


def test_tuning_writes_settings_that_decode_takes(otspec: Otspec, saved: Pair, prompts: str) -> None:
    small = "--paths 1,2 --depth 3 --draft-top-k 9 --max-new-tokens 16 --seconds 0.2"
    shown = otspec(f"tune {saved} {prompts} {small} --temperature 0.9 --json all.json").out
    tuned = Tuned.load("settings.json")
    assert tuned.sampling == {"temperature": 0.9}
    assert (tuned.target.name, tuned.draft.name) == saved
    why = " ".join(tuned.why.split())
    for part in ("Predicted", "Measured", "plain decoding", "nested, K = 2", f"Chosen: {why}"):
        assert part in shown, part
    record = json.loads(Path("all.json").read_text())
    assert (record["tuned"]["why"], len(record["predicted"])) == (tuned.why, 1 + 6 * 3)
    decode = f"decode {saved} --prompt import --max-new-tokens 6"
    told = otspec(f"{decode} --settings settings.json --temperature 0.9")
    assert f"{tuned.method} (" in told.out if tuned.settings else "vanilla, lossless" in told.out
    assert "tuned for something else" not in told.err
    assert "there is no file none.json" in otspec(f"{decode} --settings none.json", 2).err


def test_what_three_numbers_promise(otspec: Otspec) -> None:
    shown = otspec("tune --calculate 0.5,0.1").out
    assert "fastest with gamma = 2" in shown
    assert " 1.750 " in shown  # 1 + 1/2 + 1/4 tokens for 1.2 calls
    assert f" {1.75 / 1.2:.3f} " in shown
    for wrong in ("0.5", "0.5,1,1.5", "0.5,1,1,1"):
        assert "alpha,c,gamma, as in 0.8,0.05" in otspec(f"tune --calculate {wrong}", 2).err, wrong
    assert "alpha is 2.0; it is a probability" in otspec("tune --calculate 2,0.1", 2).err
