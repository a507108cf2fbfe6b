"""The adapter of OpenVINO GenAI, with a stand-in for its module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from otspec.engine_audit import Acceptance, EngineDied, Sampling
from otspec.engine_audit.adapters.openvino import MODEL, OpenVino
from otspec.errors import MissingExtra, ProblemError
from tests.engine_audit.stand_ins import put, tokens_of

END = 77


class Config(SimpleNamespace):
    """What is asked of a request."""

    def set_eos_token_id(self, token: int) -> None:
        self.end = token


class Tokenizer:
    def encode(self, prompt: str) -> Any:
        return SimpleNamespace(input_ids=("ids", prompt))

    def decode(self, rows: list[list[int]]) -> list[str]:
        return ["".join("abc"[token] for token in row) for row in rows]

    def get_eos_token_id(self) -> int:
        return END


class Pipeline:
    """Writes texts of the law, and remembers how it was started."""

    started: ClassVar[list[Pipeline]] = []
    fails: ClassVar[Exception | None] = None

    def __init__(self, target: str, scheduler: Any, device: str, properties: dict[str, Any]) -> None:
        if Pipeline.fails is not None:
            raise Pipeline.fails
        self.target, self.scheduler, self.device, self.properties = target, scheduler, device, properties
        self.asked: list[Config] = []
        self.dies: Exception | None = None
        Pipeline.started.append(self)

    def get_tokenizer(self) -> Tokenizer:
        return Tokenizer()

    def generate(self, prompts: list[Any], configs: list[Config]) -> list[Any]:
        assert prompts == [("ids", "ab")] * len(configs)  # encoded: strings go through the chat template
        if self.dies is not None:
            raise self.dies
        self.asked += configs
        metrics = SimpleNamespace(
            get_num_draft_tokens=lambda: 21,
            get_num_accepted_tokens=lambda: 9,
            main_model_metrics=SimpleNamespace(raw_metrics=SimpleNamespace(m_durations=[1.0] * 7)),
        )
        return [
            SimpleNamespace(
                m_generation_ids=[tokens_of(one.rng_seed, one.max_new_tokens)],
                finish_reasons=[SimpleNamespace(name="LENGTH")],
                extended_perf_metrics=metrics if "draft_model" in self.properties else None,
            )
            for one in configs
        ]


@pytest.fixture(autouse=True)
def openvino(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    put(
        monkeypatch,
        "openvino_genai",
        get_version=lambda: "2026.4.1",
        ContinuousBatchingPipeline=Pipeline,
        SchedulerConfig=SimpleNamespace,
        GenerationConfig=Config,
        draft_model=lambda folder, device: ("draft", folder, device),
    )
    Pipeline.started, Pipeline.fails = [], None
    yield
    Pipeline.started = []


@pytest.fixture
def models(tmp_path: Path) -> tuple[str, str]:
    folders = tmp_path / "target", tmp_path / "draft"
    for folder in folders:
        folder.mkdir()
        (folder / MODEL).touch()
    return str(folders[0]), str(folders[1])


def test_texts_have_their_tokens(models: tuple[str, str]) -> None:
    texts = OpenVino(target=models[0], draft=models[1]).texts("ab", 30, 4, Sampling(), 5, drafts=True)
    assert len({text.tokens for text in texts}) > 10
    assert {len(text.tokens) for text in texts} == {4}
    assert all(text.text == "".join("abc"[token] for token in text.tokens) for text in texts)
    assert {(text.ended, text.logprobs) for text in texts} == {("length", None)}


def test_one_pipeline_speculates_and_one_does_not(models: tuple[str, str]) -> None:
    engine = OpenVino(target=models[0], draft=models[1], drafts=4, properties={"INFERENCE_PRECISION_HINT": "f32"})
    for drafts in (True, False, True, False):
        engine.texts("ab", 2, 3, Sampling(), 1, drafts=drafts)
    first, second = Pipeline.started
    assert first.properties == {"INFERENCE_PRECISION_HINT": "f32", "draft_model": ("draft", models[1], "CPU")}
    assert second.properties == {"INFERENCE_PRECISION_HINT": "f32"}
    assert {one.num_assistant_tokens for one in first.asked} == {4}
    assert not any(hasattr(one, "num_assistant_tokens") for one in second.asked)
    seeds = [one.rng_seed for pipeline in Pipeline.started for one in pipeline.asked]
    assert len(set(seeds)) == 4  # two texts of each, with coins of their own
    assert {one.end for one in first.asked} == {END}
    assert engine.method == "draft model, 4 at a time"


def test_without_a_draft_model_the_text_is_looked_up(models: tuple[str, str]) -> None:
    engine = OpenVino(target=models[0])
    engine.texts("ab", 1, 3, Sampling(), 1, drafts=True)
    (pipeline,) = Pipeline.started
    assert pipeline.properties == {"prompt_lookup": True}
    assert (pipeline.asked[0].num_assistant_tokens, pipeline.asked[0].max_ngram_size) == (3, 3)
    assert engine.acceptance() is None
    assert engine.method == "prompt lookup, 3 at a time"


def test_sampling_is_told(models: tuple[str, str]) -> None:
    engine = OpenVino(target=models[0])
    for sampling in (Sampling(0.7, top_k=5, top_p=0.9, min_p=0.1), Sampling(), Sampling(0.0)):
        engine.texts("ab", 1, 3, sampling, 1, drafts=False)
    cut, pure, greedy = Pipeline.started[0].asked
    assert (cut.do_sample, cut.temperature, cut.top_k, cut.top_p, cut.min_p) == (True, 0.7, 5, 0.9, 0.1)
    assert (pure.do_sample, pure.temperature) == (True, 1.0)
    assert not any(hasattr(pure, name) for name in ("top_k", "top_p", "min_p"))
    assert not greedy.do_sample


def test_acceptance_is_counted_once_a_batch(models: tuple[str, str]) -> None:
    engine = OpenVino(target=models[0], draft=models[1])
    assert engine.acceptance() is None
    for _ in range(2):
        engine.texts("ab", 5, 3, Sampling(), 1, drafts=True)
        engine.texts("ab", 5, 3, Sampling(), 1, drafts=False)
    assert engine.acceptance() == Acceptance(14, 42, 18)


def test_an_engine_that_dies(models: tuple[str, str]) -> None:
    engine = OpenVino(target=models[0])
    engine.texts("ab", 1, 3, Sampling(), 1, drafts=True)
    Pipeline.started[0].dies = RuntimeError("Check 'edge' failed\nat node.cpp")
    with pytest.raises(EngineDied, match="OpenVINO died at the request for 2 texts of 'ab', seed 6: Check") as died:
        engine.texts("ab", 2, 3, Sampling(), 6, drafts=True)
    assert "\n" not in str(died.value)


def test_an_engine_that_does_not_start(models: tuple[str, str]) -> None:
    Pipeline.fails = RuntimeError("no such device")
    with pytest.raises(EngineDied, match="OpenVINO does not start with no drafts: no such device"):
        OpenVino(target=models[0]).texts("ab", 1, 3, Sampling(), 1, drafts=False)


def test_closing_may_be_repeated(models: tuple[str, str]) -> None:
    engine = OpenVino(target=models[0])
    engine.texts("ab", 1, 3, Sampling(), 1, drafts=False)
    engine.close()
    engine.close()


def test_a_model_in_another_form_is_refused(models: tuple[str, str], tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match=rf"target = .* has no {MODEL}: optimum-cli export openvino writes it"):
        OpenVino(target=tmp_path)
    with pytest.raises(ProblemError, match=r"draft = .* has no"):
        OpenVino(target=models[0], draft=tmp_path)


@pytest.mark.parametrize("setting", ["drafts", "cache"])
def test_settings_are_at_least_one(models: tuple[str, str], setting: str) -> None:
    with pytest.raises(ProblemError, match=f"{setting} = 0; it is at least 1"):
        OpenVino(target=models[0], **{setting: 0})  # type: ignore[arg-type]


def test_openvino_has_to_be_installed(models: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("otspec.extras.installed", lambda _: False)
    with pytest.raises(MissingExtra, match=r"openvino_genai is not installed .* pip install openvino-genai"):
        OpenVino(target=models[0])
