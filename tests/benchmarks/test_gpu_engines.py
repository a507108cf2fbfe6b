"""Functions of engines beside ours: found, counted, and audited; without a GPU, stand-ins take their places."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import otspec  # noqa: E402
from benchmarks.gpu import accepted, engine_audit, engines, work  # noqa: E402
from benchmarks.gpu.engine_audit import LENGTH, OURS, Size  # noqa: E402
from benchmarks.gpu.work import Shape, Work, works  # noqa: E402
from otspec import extras  # noqa: E402
from otspec.engines import flashinfer  # noqa: E402
from otspec.errors import MissingExtra, ProblemError  # noqa: E402
from tests.each import each  # noqa: E402

CPU = torch.device("cpu")
SMALL = Shape(vocab=200, batches=(1, 4), copied=1 << 16)


@pytest.fixture(autouse=True)
def _afresh() -> Any:
    engines.own.cache_clear()
    yield
    engines.own.cache_clear()


def given_engine(monkeypatch: pytest.MonkeyPatch, name: str, function: object) -> None:
    """A package of an engine's name on the path, with this function."""
    place = engines._PLACES[name]
    module = ModuleType(place.module)
    setattr(module, place.ours.__name__, function)
    monkeypatch.setattr(engines, "require", lambda asked: {place.module: module}[asked])


def test_no_engine_runs_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "installed", lambda engine: engine == "vllm")
    assert [engines.there(engine, CPU) for engine in engines.ENGINES] == [False] * 3
    cuda = SimpleNamespace(type="cuda")
    assert [engine for engine in engines.ENGINES if engines.there(engine, cuda)] == ["vllm"]  # type: ignore[arg-type]
    assert engines.versions(CPU) == {}
    monkeypatch.setattr("importlib.metadata.version", lambda name: f"1.2 of {name}")
    assert engines.versions(cuda) == {"vllm": "1.2 of vllm"}  # type: ignore[arg-type]


def test_an_engine_that_is_not_there_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "installed", lambda package: False)
    with pytest.raises(MissingExtra, match="pip install flashinfer-python"):
        engines.own("flashinfer")


def test_a_function_that_is_called_differently_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    given_engine(monkeypatch, "flashinfer", lambda probs, ids: None)
    with pytest.raises(ProblemError, match="arguments in this version that otspec does not know, probs, ids"):
        engines.own("flashinfer")


def test_sglang_without_its_function_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    given_engine(monkeypatch, "sglang", None)
    with pytest.raises(ProblemError, match="sglang has no tree_speculative_sampling_target_only for this machine"):
        engines.own("sglang")


def test_what_an_engine_has_is_measured_beside_ours_on_the_same_drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "there", lambda engine, device: True)
    monkeypatch.setattr(work, "own", OURS.__getitem__)
    made = {(one.what, one.by): one for one in works(SMALL, 4, CPU)}
    for name, ours in (("flashinfer", "flashinfer"), ("vLLM", "vLLM")):
        torch.manual_seed(1)
        theirs = made["chains, L = 8", name].call()
        torch.manual_seed(1)
        mine = made["chains, L = 8", f"otspec, as {ours}"].call()
        for one, other in zip(_parts(theirs), _parts(mine), strict=True):
            assert torch.equal(one, other)
    assert {by for what, by in made if what.endswith("target only")} == {
        "otspec, as SGLang",
        "SGLang",
        "SGLang, zeros at hand",
    }


def _parts(found: Any) -> list[Any]:
    return list(found) if isinstance(found, tuple) else [found]


def test_trees_for_the_target_alone_are_of_the_likeliest_tokens() -> None:
    (tree,) = (one for one in works(SMALL, 2, CPU) if one.by == "otspec, as SGLang")
    given = next(cell.cell_contents for cell in tree.call.__closure__ or () if isinstance(cell.cell_contents, dict))
    roots = given["candidates"][:, 1 :: work.DEPTH]
    assert roots.shape == (2, work.PATHS)
    assert all(len(set(row.tolist())) == work.PATHS for row in roots)
    # The draft model errs little: its likeliest tokens have most of the target's probability there.
    share = given["target_probs"][:, 0].gather(1, roots).sum(dim=1)
    assert share.min() > 10 * work.PATHS / SMALL.vocab


def test_accepted_tokens_are_counted_over_laws_that_are_drawn_anew() -> None:
    records = accepted.accepted(SMALL, CPU, 6, lambda name: "chains" in name)
    assert [one["by"] for one in records] == ["otspec, as flashinfer", "otspec, as vLLM"]
    for one in records:
        assert one["rows"] == 6 * 4
        assert 0 < one["accepted"] < work.DEPTH
        assert one["standard_error"] > 0
    assert accepted.table(records).rows[0][:3] == ("chains, L = 8", "otspec, as flashinfer", "24")
    first, second = (
        next(one for one in works(SMALL, 4, CPU, seed) if one.by == "otspec, as flashinfer").call.__closure__
        for seed in (1, 2)
    )
    assert not any(
        torch.equal(one.cell_contents, other.cell_contents)
        for one, other in zip(first or (), second or (), strict=True)
    )


def test_a_count_is_that_of_the_rows_and_a_failure_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise RuntimeError("no kernel image\nSee the documentation")

    counts = torch.tensor([0, 2, 4, 6])
    given = [
        Work("chains", "ours", lambda: counts, 8, lambda found: found),
        Work("chains", "theirs", fails, 8, lambda found: found),
    ]
    monkeypatch.setattr(accepted, "works", lambda *given_to: given)
    ours, theirs = accepted.accepted(SMALL, CPU, 2)
    assert ours == {
        "what": "chains",
        "by": "ours",
        "rows": 8,
        "accepted": 3.0,
        "standard_error": pytest.approx(5**0.5 / 8**0.5),
    }
    assert theirs["error"] == "RuntimeError: no kernel image"
    assert accepted.table([ours, theirs]).rows[1][2] == theirs["error"]


@each(engine=list(OURS))
def test_our_functions_pass_the_audits_of_engines(engine: str) -> None:
    torch.manual_seed(0)
    lines = list(engine_audit.audits(engine, "ours", OURS[engine], CPU, Size(10_000, 60)))
    single = "the 3 likeliest tokens" if engine == "sglang" else "one sampled token"
    assert [one.what for one in lines] == [single, f"chains of {LENGTH} tokens"]
    for one in lines:
        assert one.audit.verdict is not otspec.AuditVerdict.NOT_LOSSLESS, one.audit
    first = lines[0].audit
    assert first.mean("membership") == pytest.approx(first.mean("optimum"), abs=0.03)
    assert engine_audit.table(lines).rows[0][2] == "no evidence of bias"


def test_a_function_that_is_not_lossless_is_found_out() -> None:
    def accepts_all(q: Any, ids: Any, p: Any) -> tuple[Any, Any, Any]:
        out, number, emitted = flashinfer.chain_speculative_sampling(q, ids, p)
        return torch.cat((ids, out[:, -1:]), dim=1).to(torch.int32), number, emitted

    (line,) = engine_audit.audits("flashinfer", "theirs", accepts_all, CPU, Size(10_000, 0))
    assert line.audit.verdict is otspec.AuditVerdict.NOT_LOSSLESS
    assert engine_audit.table([line]).rows[0][2] == "biased"


def test_a_function_that_raises_is_told_from_one_that_is_biased() -> None:
    def raises(drafts: Any, counts: list[int], *given: Any) -> Any:
        if len(counts) > 1:
            raise RuntimeError("no kernel image")
        return OURS["vllm"](drafts, counts, *given)

    (line,) = engine_audit.audits("vllm", "theirs", raises, CPU, Size(2_000, 0))
    assert "no kernel image" in engine_audit.table([line]).rows[0][2]


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(ProblemError, match="no engine 'tensorrt'; known: flashinfer, vllm, sglang"):
        engine_audit.asked("vllm, tensorrt")
    assert engine_audit.asked("") == list(OURS)


def test_the_command_audits_ours_where_there_is_no_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    engine_audit.main(draws=2_000, chains=0, only="flashinfer", device="cpu", ours=True)
    told = capsys.readouterr()
    for text in (told.out, told.err):
        assert "otspec, as flashinfer" in text
        assert "no evidence of bias" in text
    with pytest.raises(SystemExit):
        engine_audit.main(draws=2_000, chains=0, only="flashinfer", device="cpu", ours=False)
    assert "Nothing was audited" in capsys.readouterr().err
