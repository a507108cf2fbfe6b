"""Positions recorded along the target's own text: what is in the file is what the models say."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import otspec.decode.recording.positions as recording_module  # noqa: E402
from otspec import DataError, Problem, ProblemError, optimum  # noqa: E402
from otspec.bench.schema import check_header  # noqa: E402
from otspec.data import FileSource, TopSource, open_source  # noqa: E402
from otspec.data.formats import safetensors_about  # noqa: E402
from otspec.decode.methods.plain import plain  # noqa: E402
from otspec.decode.pair.loading import Models  # noqa: E402
from otspec.decode.recording.positions import Logits, Recording, record  # noqa: E402
from otspec.schemes import WithoutReplacement  # noqa: E402
from tests.cli.test_commands import otspec_command  # noqa: E402
from tests.decode.killed import kill_after_three_chunks  # noqa: E402
from tests.decode.models import logits_after, pair  # noqa: E402
from tests.each import check_each, each  # noqa: E402

PROMPTS = [[1, 2], [3, 4, 5], [6]]


def asked(**settings: Any) -> Recording:
    """Seven positions of a tiny pair, in float64."""
    target, draft = pair()
    given: dict[str, Any] = {"positions": 7, "new": 6, "batch": 2, "stored": "float32", **settings}
    return Recording(Models(target, None, draft), ("t", "d"), PROMPTS, **given)


def in_memory(monkeypatch: pytest.MonkeyPatch, recording: Recording, path: Path) -> dict[int, tuple[Any, Any]]:
    """Record, and keep what both models said at every row as they said it."""
    held: list[Logits] = []
    own = recording_module.own_logits

    def noted(*args: Any, **settings: Any) -> Logits:
        held.append(own(*args, **settings))
        return held[-1]

    with monkeypatch.context() as patch:
        patch.setattr(recording_module, "own_logits", noted)
        record(recording, path)
    rows = [row for _, rows in recording.chunks for row in rows]
    said = [tuple(one.double().numpy() for one in both) for logits in held for both in zip(*logits, strict=True)]
    return dict(zip(rows, said, strict=True))


@each(stored=("float32", "float16", "bfloat16"))
def test_recorded_positions_solve_to_the_optimum_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored: str
) -> None:
    path = tmp_path / f"{stored}.safetensors"
    said = in_memory(monkeypatch, asked(stored=stored), path)
    about = safetensors_about(path)
    error = about["error_of_storing"]
    assert error["target_l1_max"] < {"float32": 1e-6, "float16": 2e-3, "bfloat16": 2e-2}[stored]
    source = open_source(path)
    assert isinstance(source, FileSource)
    assert (len(source), source.vocab) == (7, 8)
    changes = []
    for row, (target, draft) in said.items():
        for n in (1, 2, 3):
            exact, held = Problem.from_logits(target, draft, n), source.position(row).problem(n)
            # alpha* moves by at most half of what p moves, and n times half of what q moves.
            slack = error["target_l1_max"] / 2 + n * error["draft_l1_max"] / 2 + 1e-12
            assert abs(optimum(held).acceptance - optimum(exact).acceptance) <= slack
        changes.append(np.abs(held.p - exact.p).sum())
    assert error["target_l1_max"] == pytest.approx(max(changes), rel=1e-3, abs=1e-12)
    one = [optimum(Problem.from_logits(target, draft, 1)).acceptance for target, draft in said.values()]
    assert about["acceptance"] == pytest.approx(np.mean(one), abs=1e-9)


def test_logits_are_those_after_a_text_of_the_target(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Read from the start, one text at a time, without any cache; places are spread over the text."""
    recording = asked(positions=24, new=4)
    texts: list[list[int]] = []

    def noted(target: Any, prompts: Any, **settings: Any) -> Any:
        written = plain(target, prompts, **settings)
        texts.extend(written.sequences.tolist())
        return written

    monkeypatch.setattr("otspec.decode.recording.positions.plain", noted)
    said = in_memory(monkeypatch, recording, tmp_path / "p.safetensors")
    lengths = []
    for text, (row, both) in zip(texts, said.items(), strict=True):
        prompt = PROMPTS[row % 3]
        assert text[: len(prompt)] == prompt
        models = (recording.models.target, recording.models.draft)
        found = [
            length
            for length in range(len(prompt), len(text) + 1)
            if all(
                np.allclose(logits_after(model, text[:length]), logits, atol=1e-9)
                for model, logits in zip(models, both, strict=True)
            )
        ]
        assert found
        lengths.append(found[0] - len(prompt))
    assert set(lengths) == {1, 2, 3, 4}


def test_the_likeliest_tokens_are_enough_for_drafts_among_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "top.safetensors"
    said = in_memory(monkeypatch, asked(top_k=4), path)
    source = open_source(str(path))
    assert isinstance(source, TopSource)
    assert (len(source), source.vocab, source.kept) == (7, 8, 4)
    assert source.identity["bytes"] == path.stat().st_size

    def check(row: int, n: int, top_k: int, top_p: float | None) -> None:
        exact = Problem.from_logits(*said[row], n, top_k=top_k, top_p=top_p)
        held = source.position(row).problem(n, top_k=top_k, top_p=top_p)
        assert optimum(held).acceptance == pytest.approx(optimum(exact).acceptance, abs=1e-6)
        if n <= top_k and top_p is None:
            one, two = (Problem(of.p, WithoutReplacement(of.scheme.q, n)) for of in (held, exact))  # type: ignore[attr-defined]
            assert optimum(one).acceptance == pytest.approx(optimum(two).acceptance, abs=1e-6)

    check_each(check, row=list(said), n=(1, 2, 3), top_k=(1, 2, 4), top_p=(None, 0.8))


def test_the_mass_of_the_rest_is_kept_at_as_many_temperatures_as_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "top.safetensors"
    said = in_memory(monkeypatch, asked(top_k=4, rest_at=(0.6, 1.5)), path)
    source = open_source(path)

    def check(row: int, n: int, temperature: float, draft_temperature: float | None) -> None:
        settings: Any = {"top_k": 3, "temperature": temperature, "draft_temperature": draft_temperature}
        exact, held = Problem.from_logits(*said[row], n, **settings), source.position(row).problem(n, **settings)
        assert optimum(held).acceptance == pytest.approx(optimum(exact).acceptance, abs=1e-6)
        assert held.scheme.q == pytest.approx(exact.scheme.q, abs=1e-6)  # type: ignore[attr-defined]

    check_each(check, row=list(said), n=(1, 3), temperature=(0.6, 1.5), draft_temperature=(None, 1.0))
    with pytest.raises(ProblemError, match=r"temperature is 1.0, and the mass .* is known at 0.6, 1.5 only"):
        source.position(0).problem(2, top_k=2)
    with pytest.raises(ProblemError, match=r"kept at the temperatures \[1.0, 0.0\]; pass finite ones above 0"):
        asked(top_k=4, rest_at=(1.0, 0.0))


def test_what_the_likeliest_tokens_do_not_tell_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.safetensors"
    record(asked(top_k=4), path)
    position = open_source(path).position(0)
    for settings, message in (
        ({}, "top_k is None, and the file keeps the 4 likeliest drafts"),
        ({"top_k": 5}, "draft from 4 or fewer, or record whole laws"),
        ({"top_k": 2, "temperature": 0.5}, "temperature is 0.5, and the mass .* is known at 1 only; record it"),
        ({"top_k": 2, "target_top_k": 3}, "target_top_k is 3, and the file lacks tokens"),
    ):
        with pytest.raises(ProblemError, match=message):
            position.problem(2, **settings)
    with pytest.raises(DataError, match="indices run from 0 to 6"):
        open_source(path).position(7)


def test_a_recording_that_is_killed_goes_on_and_ends_as_if_nothing_had_been(tmp_path: Path) -> None:
    path, whole = tmp_path / "killed.safetensors", tmp_path / "whole.safetensors"
    kill_after_three_chunks(asked(), path)
    assert not path.exists()
    with pytest.raises(DataError, match="belongs to another recording: its seed is 0, yours 1; delete it"):
        record(asked(seed=1), path)
    state = tmp_path / "killed.safetensors.state"
    assert json.loads(state.read_text())["state"]["chunks"] == 3
    record(asked(), path)
    record(asked(), whole)
    assert path.read_bytes() == whole.read_bytes()
    assert {entry.name for entry in tmp_path.iterdir()} == {path.name, whole.name}
    record(asked(seed=1), tmp_path / "other.safetensors")
    assert (tmp_path / "other.safetensors").read_bytes() != whole.read_bytes()


def test_the_header_says_where_it_is_from_and_others_can_read_the_file(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.numpy")
    path = tmp_path / "p.safetensors"
    about = record(asked(), path)
    assert about == safetensors_about(path)
    check_header(about, path)
    assert about["target"] != about["draft"]
    assert {"seed": 0, "temperature": 1.0, "dtype": "float64", "stored": "float32", "new_tokens": 6}.items() <= (
        about.items()
    )
    assert {"otspec", "torch", "transformers"} <= about["versions"].keys()
    assert about["prompts"]["count"] == 3
    arrays = safetensors.load_file(path)
    np.testing.assert_array_equal(arrays["draft_logits"][2], open_source(path).position(2).draft_logits)


def test_what_cannot_be_recorded_is_refused(tmp_path: Path) -> None:
    for settings, message in (
        ({"stored": "int8"}, "cannot be stored as 'int8'; known: float32"),
        ({"top_k": 8}, "top_k is 8; of 8 tokens keep 1 to 7, or all"),
        ({"new": 100}, "a prompt and 100 tokens after it are 103, and a model reads 64"),
    ):
        with pytest.raises(ProblemError, match=message):
            asked(**settings)


def test_the_command_records_what_the_others_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ("record", "--positions", "3", "--max-new-tokens", "4", "--out", "p.safetensors")
    assert otspec_command(monkeypatch, *command) == 0
    assert "3 positions of all tokens, V = 2048; one draft is accepted with probability" in capsys.readouterr().out
    assert otspec_command(monkeypatch, "solve", "p.safetensors", "--n", "2", "--top-k", "10") == 0
    assert "3/3 solved" in capsys.readouterr().out
    top = (*command[:-1], "t.safetensors", "--top-k", "10")
    assert otspec_command(monkeypatch, *top) == 0
    solve = ("solve", "t.safetensors", "--n", "2", "--solver", "interval")
    assert otspec_command(monkeypatch, *solve, "--top-k", "10") == 0
    assert otspec_command(monkeypatch, *solve) == 2
    assert "the file keeps the 10 likeliest drafts" in capsys.readouterr().err
    assert otspec_command(monkeypatch, "affinity", "t.safetensors", "--of", "logits", "--out", "a.safetensors") == 2
    assert "keeps the likeliest tokens alone" in capsys.readouterr().err
    for words, message in (
        (command, "p.safetensors is there already; delete it"),
        ((*command[:-1], "p.npz"), "give --out a name that ends in .safetensors"),
        ((*command[:-1], "q.safetensors", "--target", "other/model"), "no prompts for other/model; pass"),
        ((*command[:-1], "q.safetensors", "--store", "int3"), "cannot be stored as 'int3'"),
    ):
        assert otspec_command(monkeypatch, *words) == 2
        assert message in " ".join(capsys.readouterr().err.split())
    assert {path.name for path in tmp_path.iterdir()} == {"p.safetensors", "t.safetensors"}
