"""The adapter of vLLM, with a stand-in for its module: tests/engines/test_vllm_cpu.py has the real one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from otspec.decode.shipped import FOLDER
from otspec.engine_audit import Acceptance, Drafting, EngineDied, Sampling
from otspec.engine_audit.adapters.vllm import OURS, SMALL, Vllm
from otspec.engine_audit.adapters.vllm_worker import SAMPLER, WorkerExtension
from otspec.errors import MissingExtra, ProblemError
from tests.engine_audit.stand_ins import put, tokens_of

torch = pytest.importorskip("torch")


class LLM:
    """Writes texts of the law, and remembers how it was started."""

    started: ClassVar[list[LLM]] = []
    fails: ClassVar[Exception | None] = None
    ours: ClassVar[bool] = True

    def __init__(self, **settings: Any) -> None:
        if LLM.fails is not None:
            raise LLM.fails
        self.settings, self.asked, self.calls = settings, [], []  # type: ignore[var-annotated]
        self.environment = {name: os.environ.get(name) for name in OURS}
        self.dies: Exception | None = None
        self.alive = True
        self.llm_engine = SimpleNamespace(engine_core=SimpleNamespace(shutdown=self._shutdown))
        LLM.started.append(self)

    def _shutdown(self) -> None:
        assert self.alive
        self.alive = False

    def generate(self, prompts: list[str], asked: list[dict[str, Any]], use_tqdm: bool) -> list[Any]:
        assert len(prompts) == len(asked)
        assert not use_tqdm
        if self.dies is not None:
            raise self.dies
        self.asked += asked
        return [SimpleNamespace(outputs=[self._output(one)]) for one in asked]

    def _output(self, asked: dict[str, Any]) -> Any:
        tokens = tokens_of(asked["seed"], asked["max_tokens"])
        told = [{token: SimpleNamespace(logprob=-float(token)), 9: SimpleNamespace(logprob=-0.1)} for token in tokens]
        return SimpleNamespace(
            token_ids=tokens,
            text="".join("abc"[token] for token in tokens),
            logprobs=None if asked["logprobs"] is None else told,
            finish_reason="length",
        )

    def collective_rpc(self, name: str) -> list[bool]:
        assert hasattr(WorkerExtension, name)
        self.calls.append(name)
        return [LLM.ours]

    def get_metrics(self) -> list[Any]:
        return [
            SimpleNamespace(name="vllm:num_requests_running", value=1.0),
            SimpleNamespace(name="vllm:spec_decode_num_drafts", value=7.0),
            SimpleNamespace(name="vllm:spec_decode_num_draft_tokens", value=21.0),
            SimpleNamespace(name="vllm:spec_decode_num_accepted_tokens", value=9.0),
            SimpleNamespace(name="vllm:spec_decode_num_accepted_tokens_per_pos", values=[6, 3, 0]),
        ]


@pytest.fixture(autouse=True)
def vllm(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in (*OURS, *SMALL):
        monkeypatch.setenv(name, "before")
    monkeypatch.delenv("OTSPEC_VLLM")
    put(monkeypatch, "vllm", __version__="0.32.0", LLM=LLM, SamplingParams=dict)
    LLM.started, LLM.fails, LLM.ours = [], None, True
    yield
    LLM.started = []


def test_texts_have_their_tokens_and_log_probabilities() -> None:
    texts = Vllm(target="shipped", draft="shipped").texts("ab", 30, 4, Sampling(), 5, drafts=True)
    assert len(texts) == 30
    assert all(text.text == "".join("abc"[token] for token in text.tokens) for text in texts)
    assert all(text.logprobs == tuple(-float(token) for token in text.tokens) for text in texts)
    assert {text.ended for text in texts} == {"length"}


def test_no_log_probabilities_where_none_are_wanted() -> None:
    (text,) = Vllm(target="shipped", logprobs=False).texts("ab", 1, 4, Sampling(), 5, drafts=True)
    assert text.logprobs is None


def test_one_engine_speculates_and_one_does_not() -> None:
    engine = Vllm(target="shipped", draft="shipped", drafts=4)
    for drafts in (True, False, True, False):
        engine.texts("ab", 2, 3, Sampling(), 1, drafts=drafts)
    first, second = LLM.started
    assert first.settings.pop("speculative_config") == {
        "method": "draft_model",
        "model": str(FOLDER / "draft"),
        "draft_sample_method": "probabilistic",
        "num_speculative_tokens": 4,
    }
    assert first.settings == second.settings
    assert first.settings["model"] == str(FOLDER / "target")
    assert first.calls == []  # vLLM as it comes
    seeds = [one["seed"] for llm in LLM.started for one in llm.asked]
    assert len(set(seeds)) == 4  # two texts of each, with coins of their own


def test_without_a_draft_model_the_text_is_looked_up() -> None:
    engine = Vllm(target="shipped", speculative={"prompt_lookup_max": 5})
    engine.texts("ab", 1, 3, Sampling(), 1, drafts=True)
    config = LLM.started[0].settings["speculative_config"]
    assert config == {"method": "ngram", "prompt_lookup_max": 5, "prompt_lookup_min": 1, "num_speculative_tokens": 3}
    assert engine.method == "n-grams, 3 at a time, prompt_lookup_max 5, vLLM's own rule"


def test_drafts_can_be_the_likeliest_tokens() -> None:
    engine = Vllm(target="shipped", draft="shipped", sampled=False)
    engine.texts("ab", 1, 3, Sampling(), 1, drafts=True)
    assert LLM.started[0].settings["speculative_config"]["draft_sample_method"] == "greedy"
    assert engine.method == "draft model, the likeliest tokens, 3 at a time, vLLM's own rule"


def test_sampling_is_told_whole() -> None:
    engine = Vllm(target="shipped")
    engine.texts("ab", 1, 3, Sampling(0.7, top_k=5, top_p=0.9, min_p=0.1), 1, drafts=False)
    engine.texts("ab", 1, 3, Sampling(), 1, drafts=False)
    told = [{name: one[name] for name in ("temperature", "top_k", "top_p", "min_p")} for one in LLM.started[0].asked]
    assert told == [
        {"temperature": 0.7, "top_k": 5, "top_p": 0.9, "min_p": 0.1},
        {"temperature": 1.0, "top_k": -1, "top_p": 1.0, "min_p": 0.0},
    ]


def test_only_the_engine_that_speculates_is_mended() -> None:
    engine = Vllm(target="shipped", mended=True)
    for drafts in (True, False):
        engine.texts("ab", 1, 3, Sampling(), 1, drafts=drafts)
    assert [llm.calls for llm in LLM.started] == [["otspec_mend"], []]
    assert engine.method.endswith("vLLM's own rule, mended")


def test_our_rule_is_asked_for_by_the_environment_and_looked_for_afterwards() -> None:
    engine = Vllm(target="shipped", draft="shipped", rule="otspec")
    for drafts in (True, False):
        engine.texts("ab", 1, 3, Sampling(), 1, drafts=drafts)
    drafting, plain = LLM.started
    assert drafting.environment == OURS
    assert plain.environment == {"OTSPEC_VLLM": "0", "VLLM_USE_V2_MODEL_RUNNER": "before"}
    assert drafting.calls == ["otspec_verifies"]
    assert {name: os.environ.get(name) for name in OURS} == {
        "OTSPEC_VLLM": None,
        "VLLM_USE_V2_MODEL_RUNNER": "before",
    }


def test_vllms_rule_is_never_audited_in_the_name_of_ours() -> None:
    LLM.ours = False
    with pytest.raises(ProblemError, match="vLLM did not load otspec's rule: install otspec where vLLM is"):
        Vllm(target="shipped", rule="otspec").texts("ab", 1, 3, Sampling(), 1, drafts=True)
    assert not LLM.started[0].alive


def test_the_acceptance_is_that_of_the_engine_that_speculates() -> None:
    engine = Vllm(target="shipped")
    engine.texts("ab", 1, 3, Sampling(), 1, drafts=False)
    assert engine.acceptance() is None
    engine.texts("ab", 1, 3, Sampling(), 1, drafts=True)
    assert engine.acceptance() == Acceptance(7, 21, 9, (6, 3, 0))


def test_what_is_drafted_has_the_temperature_alone() -> None:
    cut = Sampling(0.7, top_k=5, top_p=0.9)
    assert Vllm(target="shipped", draft="shipped").drafting(cut) == Drafting(Sampling(0.7), after=1)
    likeliest = Vllm(target="shipped", draft="shipped", sampled=False)
    assert likeliest.drafting(cut) == Drafting(Sampling(0.0), after=1)


@pytest.mark.parametrize(
    "settings",
    [{}, {"draft": "shipped", "speculative": {"method": "eagle"}}, {"draft": "shipped", "speculative": {"model": "x"}}],
    ids=["n-grams", "another method", "another model"],
)
def test_drafts_of_no_model_that_we_know(settings: dict[str, Any]) -> None:
    assert Vllm(target="shipped", **settings).drafting(Sampling()) is None


def test_closing_ends_both_and_may_be_repeated() -> None:
    engine = Vllm(target="shipped")
    for drafts in (True, False):
        engine.texts("ab", 1, 3, Sampling(), 1, drafts=drafts)
    engine.close()
    engine.close()
    assert not any(llm.alive for llm in LLM.started)


def test_an_engine_that_dies() -> None:
    engine = Vllm(target="shipped")
    engine.texts("ab", 1, 3, Sampling(), 1, drafts=True)
    LLM.started[0].dies = RuntimeError("EngineCore encountered\nan issue")
    with pytest.raises(
        EngineDied, match="vLLM died at the request for 2 texts of 'ab', seed 6: EngineCore enc"
    ) as died:
        engine.texts("ab", 2, 3, Sampling(), 6, drafts=True)
    assert "\n" not in str(died.value)
    assert not LLM.started[0].alive  # its processes are not left behind


class ClientError(Exception):
    """As vLLM's, which is no ValueError."""


@pytest.mark.parametrize("error", [ValueError("not with min_p"), ClientError("not with min_p")], ids=["old", "new"])
def test_a_request_that_is_refused(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["vllm"]
    monkeypatch.setattr(module, "exceptions", SimpleNamespace(VLLMClientError=ClientError), raising=False)
    engine = Vllm(target="shipped")
    engine.texts("ab", 1, 3, Sampling(), 1, drafts=True)
    LLM.started[0].dies = error
    with pytest.raises(ProblemError, match=r"vLLM refuses the request .*: not with min_p") as refused:
        engine.texts("ab", 2, 3, Sampling(), 6, drafts=True)
    assert not isinstance(refused.value, EngineDied)
    LLM.started[0].dies = None
    assert engine.texts("ab", 1, 3, Sampling(), 1, drafts=True)  # it goes on
    assert len(LLM.started) == 1


def test_an_engine_that_does_not_start() -> None:
    LLM.fails = RuntimeError("no memory")
    with pytest.raises(EngineDied, match="vLLM does not start with n-grams, 3 at a time, vLLM's own rule: no memory"):
        Vllm(target="shipped").texts("ab", 1, 3, Sampling(), 1, drafts=True)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"target": "nowhere"}, "target = 'nowhere' is no folder of a model: it has no config.json"),
        ({"target": "shipped", "draft": "nowhere"}, "draft = 'nowhere' is no folder of a model"),
        ({"target": "shipped", "drafts": 0}, "drafts = 0; at least 1"),
        ({"target": "shipped", "rule": "typical"}, "no rule 'typical' of vLLM; known: standard, otspec"),
    ],
)
def test_bad_settings_are_refused_before_anything_starts(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ProblemError, match=sentence):
        Vllm(**settings)
    assert LLM.started == []


def test_vllm_has_to_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "vllm")
    monkeypatch.setattr("otspec.extras.installed", lambda _: False)
    with pytest.raises(MissingExtra, match=r"vllm is not installed .* pip install vllm"):
        Vllm(target="shipped")


def test_a_small_machine_is_left_room_unless_the_user_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VLLM_CPU_KVCACHE_SPACE")
    Vllm(target="shipped")
    assert os.environ["VLLM_CPU_KVCACHE_SPACE"] == "1"
    assert os.environ["VLLM_CPU_OMP_THREADS_BIND"] == "before"


def theirs(x: Any, cu_num_tokens: Any, num_tokens: int, replace_from: int = 0, replace_to: int = 0) -> Any:
    """As vLLM's on a CPU: what was computed is dropped."""
    return torch.full((num_tokens,), torch.nan)


def test_the_mend_repeats_what_belongs_to_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("vllm", "vllm.v1", "vllm.v1.sample"):
        put(monkeypatch, name, __path__=[])
    sampler = put(monkeypatch, SAMPLER, expand_batch_to_tokens=theirs, rejection_sample=lambda: None)
    WorkerExtension().otspec_mend()
    ends = torch.tensor([2, 5, 6], dtype=torch.int32)
    mended = sampler.expand_batch_to_tokens(torch.tensor([0.7, 0.0, 1.3]), ends, 6, replace_from=0, replace_to=1)
    assert mended.tolist() == pytest.approx([0.7, 0.7, 1.0, 1.0, 1.0, 1.3])
    assert not WorkerExtension().otspec_verifies()  # it mends vLLM's rule, and leaves it


def test_the_worker_says_whose_rule_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("vllm", "vllm.v1", "vllm.v1.sample"):
        put(monkeypatch, name, __path__=[])
    sampler = put(monkeypatch, SAMPLER, rejection_sample=lambda: None)
    assert not WorkerExtension().otspec_verifies()
    sampler.rejection_sample.__otspec__ = True
    assert WorkerExtension().otspec_verifies()


def test_the_worker_loads_no_numba() -> None:
    """A worker of the CPU that has numba in its memory when it starts dies of it."""
    code = (
        "import sys, otspec.engine_audit.adapters.vllm_worker;"
        "print(sorted({'numba', 'llvmlite', 'triton', 'torch'} & set(sys.modules)))"
    )
    root = Path(__file__).parents[2]
    told = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"
