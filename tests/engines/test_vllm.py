"""vLLM's verification by blocks: vLLM's flattened arguments, the plug-in, and vLLM itself.

Where vLLM is installed (`.ci/vllm` makes an environment for it) engines run on a CPU with the pair that comes with the
package, in processes of their own, one after the other: without drafts, with drafts verified by our rule, and with
n-grams.  The plug-in is tried on a module of a few lines that has vLLM's signature.
"""

import importlib
import inspect
import itertools
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from otspec import ProblemError
from otspec.auditing.engines import EngineVerdict, FunctionLaws, audit_texts
from otspec.engines import vllm
from otspec.engines.vllm import PLACEHOLDER, plug_in, rejection_sample
from otspec.extras import installed
from otspec.laws import FloatArray, law_from_logits
from tests import laws
from tests.each import each
from tests.verification.catalogue import follows
from tests.verification.tree_batches import by_block

HERE = Path(__file__).parent
within_vllm = pytest.mark.skipif(
    not installed("vllm"), reason="vLLM is not installed; .ci/vllm FOLDER runs these tests"
)

# --- requests as vLLM flattens them

VOCAB = 7
LENGTHS = (3, 0, 1, 4, 2, 0, 4)
KINDS = {"model": laws.model, "zeros": laws.zeros(laws.model, 0.3), "same": laws.same(laws.model)}
KINDS |= {"ties": laws.tied_ratios}


@dataclass
class Metadata:
    temperature: torch.Tensor | None
    all_greedy: bool
    all_random: bool
    generators: dict[int, torch.Generator]


class Batch(NamedTuple):
    """Requests as vLLM flattens them."""

    tokens: torch.Tensor
    counts: list[int]
    ends: torch.Tensor
    draft: torch.Tensor | None
    logits: torch.Tensor
    bonus: torch.Tensor
    metadata: Metadata

    def named(self) -> dict[str, Any]:
        """The arguments by their names."""
        drafted = self.tokens, self.counts, max(self.counts), self.ends, self.draft
        values = *drafted, self.logits, self.bonus, self.metadata
        return dict(zip(inspect.signature(rejection_sample).parameters, values, strict=False))

    def call(self, **more: Any) -> torch.Tensor:
        return rejection_sample(**self.named(), **more)


def seeds(seed: int) -> dict[int, torch.Generator]:
    return {request: torch.Generator().manual_seed(100 * seed + request) for request in range(len(LENGTHS))}


def requests(kind: str, seed: int, drawn: bool = True) -> Batch:
    """Random requests, all random, each with a seed of its own; some tokens were refused by a grammar."""
    rng = np.random.default_rng(seed)
    total = sum(LENGTHS)
    pairs = [KINDS[kind](rng, VOCAB) for _ in range(total)]
    p, q = (np.array([pair[which] for pair in pairs]).reshape(total, VOCAB) for which in (0, 1))
    tokens = np.array([rng.choice(VOCAB, p=law / law.sum()) for law in (q if drawn else p)], dtype=np.int32)
    refused = rng.random(total) < 0.1
    with np.errstate(divide="ignore"):
        logits = np.log(p) + rng.normal(size=(total, 1))
    return Batch(
        torch.from_numpy(np.where(refused, PLACEHOLDER, tokens).astype(np.int32)),
        list(LENGTHS),
        torch.tensor(np.cumsum(LENGTHS), dtype=torch.int32),
        torch.from_numpy(q).float() if drawn else None,
        torch.from_numpy(logits).float(),
        torch.from_numpy(rng.integers(100, 200, size=(7, 1))),
        Metadata(torch.ones(7), False, True, seeds(seed)),
    )


def walk(batch: Batch, request: int, uniforms: list[float], greedy: bool) -> list[int]:
    """The tokens of one request, by the figures of `otspec.verification`.

    -1 ends a chain, but where the target excludes a token that the draft law has: then one such was drawn.
    """
    end = int(batch.ends[request])
    rows = slice(end - batch.counts[request], end)
    tokens, logits, bonus = batch.tokens[rows].numpy(), batch.logits[rows].double(), int(batch.bonus[request, 0])
    if greedy:
        best = logits.argmax(1).tolist()
        agreed = next((i for i, token in enumerate(tokens) if token != best[i]), len(tokens))
        return [*best, bonus][: agreed + 1]
    p = logits.softmax(1).numpy()
    chain = next((i for i, token in enumerate(tokens) if token < 0), len(tokens))
    if batch.draft is None:
        q = np.eye(VOCAB)[tokens]
    else:
        q = batch.draft[rows].double().numpy()
        q = q / q.sum(axis=1, keepdims=True)
        if chain < len(tokens) and (excluded := (p[chain] == 0) & (q[chain] > 0)).any():
            tokens = np.where(tokens < 0, q.argmax(axis=1), tokens)
            tokens[chain], chain = excluded.argmax(), len(tokens)
    p = np.append(p, np.full((1, VOCAB), 1 / VOCAB), axis=0)  # after a whole chain vLLM has drawn the token
    accepted, token = by_block(p[: chain + 1], q[:chain], tokens[:chain], np.array(uniforms), uniforms[-1])
    return [*tokens[:accepted].tolist(), bonus if accepted == len(tokens) else token]


def expected(batch: Batch, seed: int, greedy: list[bool]) -> list[list[int]]:
    rows = []
    for request, generator in seeds(seed).items():
        n = batch.counts[request]
        uniforms = torch.rand(n + 1, dtype=torch.float64, generator=generator).tolist()
        out = walk(batch, request, uniforms, greedy[request])
        rows.append(out + [PLACEHOLDER] * (max(batch.counts) + 1 - len(out)))
    return rows


@each(kind=list(KINDS), seed=range(10), drawn=(True, False))
def test_random_and_greedy_requests_of_all_lengths_are_walked(kind: str, seed: int, drawn: bool) -> None:
    batch = requests(kind, seed, drawn=drawn)
    assert batch.call().tolist() == expected(batch, seed, [False] * 7)
    greedy = [request % 2 == 1 for request in range(7)]
    heat = torch.tensor([0.0 if cold else 0.7 for cold in greedy])
    mixed = batch._replace(metadata=Metadata(heat, False, False, seeds(seed)))
    assert mixed.call().tolist() == expected(batch, seed, greedy)
    cold = batch._replace(metadata=Metadata(None, True, False, {}))
    assert cold.call().tolist() == expected(batch, seed, [True] * 7)
    likeliest = cold._replace(tokens=batch.logits.argmax(dim=1).int())
    assert likeliest.call().dtype == torch.int32
    assert likeliest.call().tolist() == expected(likeliest, seed, [True] * 7)


def test_a_batch_of_which_nothing_is_drafted() -> None:
    none, ends = torch.empty(0, dtype=torch.int32), torch.zeros(2, dtype=torch.int32)
    follow, metadata = torch.tensor([[3], [4]]), Metadata(torch.ones(2), False, True, {})
    nothing = Batch(none, [0, 0], ends, None, torch.empty((0, VOCAB)), follow, metadata)
    assert nothing.call().tolist() == [[3], [4]]


def test_a_request_whose_laws_are_none_gets_a_token_and_leaves_others_alone() -> None:
    batch = requests("model", 2)
    right = batch.call().tolist()
    batch.logits[4, 0] = torch.nan  # of the request of four tokens
    again = batch._replace(metadata=replace(batch.metadata, generators=seeds(2)))
    found = again.call().tolist()
    assert found[3] == [0] + [PLACEHOLDER] * 4
    assert found[:3] + found[4:] == right[:3] + right[4:]


Q = np.array([0.1, 0.2, 0.3, 0.4])
P = np.array([[0.4, 0.3, 0.2, 0.1], [0.12, 0.2, 0.3, 0.38]])


@each(how=("plain", "ends", "masks", "ends and masks", "n-gram"))
def test_the_output_has_the_law_of_the_target(how: str) -> None:
    """A drafted token 3 ends the text, so that -1 fills up the chain; or a grammar excludes tokens, and refuses them.

    The law of two tokens, counted.  What n-grams draft is drawn from no law: each chain has it by itself.
    """
    ends, masks, ngram, times, rng = "ends" in how, "masks" in how, how == "n-gram", 160_000, np.random.default_rng(0)
    drafted, rows = [], []
    for x, y in itertools.product(range(4), repeat=2):
        law = P[1] if (ends and x == 3) or not masks else np.where(np.arange(4) % 2 == 0, 0, P[1])
        drafted.append((x, PLACEHOLDER if (ends and x == 3) or law[y] == 0 else y))
        rows.append(np.stack((P[0], law / law.sum())))
    chains = rng.choice(16, times, p=None if ngram else np.outer(Q, Q).ravel())
    torch.manual_seed(0)
    with np.errstate(divide="ignore"):
        found = Batch(
            torch.from_numpy(np.array(drafted)[chains].ravel()).int(),
            [2] * times,
            torch.arange(2, 2 * times + 1, 2, dtype=torch.int32),
            None if ngram else torch.from_numpy(np.tile(Q, (2 * times, 1))),
            torch.from_numpy(np.log(np.array(rows)[chains].reshape(-1, 4))),
            torch.zeros(times, 1, dtype=torch.int64),
            Metadata(torch.ones(times), False, True, {}),
        ).call().numpy()  # fmt: skip
    after = np.array(rows)[::4, 1]
    drawn_on = (rng.random((times, 1)) >= after.cumsum(axis=1)[found[:, 0]]).sum(axis=1)
    codes = 4 * found[:, 0] + np.where(found[:, 1] == PLACEHOLDER, drawn_on, found[:, 1])
    for mine in [codes[chains == chain] for chain in range(16)] if ngram else [codes]:
        assert follows(np.bincount(mine, minlength=16), P[0][:, None] * after)


def test_nothing_waits_for_the_device() -> None:
    batch = requests("model", 1)
    for draft in (batch.draft, None):
        here: dict[str, Any] = {**batch._asdict(), "draft": draft}
        moved = {name: one.to("meta") for name, one in here.items() if isinstance(one, torch.Tensor)}
        metadata = Metadata(torch.ones(7, device="meta"), False, False, {})
        out = batch._replace(**{**here, **moved, "metadata": metadata}).call()
        assert out.shape == (7, 5)
        assert out.device.type == "meta"


def test_what_is_wrong_is_named() -> None:
    batch = requests("model", 0)
    assert batch.draft is not None
    changed: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        ({}, {"synthetic_mode": True}, "synthetic acceptance is not lossless"),
        ({}, {"fly_window_size": 4}, "fly_window_size = 4 is not lossless"),
        ({"draft": batch.draft[1:]}, {}, r"draft_probs has shape \(13, 7\); 7 requests with 14 drafted tokens need"),
        ({"bonus": batch.bonus.expand(7, 2)}, {}, r"bonus_token_ids has shape \(7, 2\); .* need \(7, 1\)"),
    ]
    for fields, named, message in changed:
        with pytest.raises(ProblemError, match=message):
            batch._replace(**fields).call(**named)
    # The token after a whole chain comes in either shape.
    flat = batch._replace(bonus=batch.bonus[:, 0], metadata=Metadata(torch.ones(7), False, True, seeds(0)))
    assert flat.call().tolist() == batch.call().tolist()


# --- the plug-in

VLLM = """
def rejection_sample(
    draft_token_ids, num_draft_tokens, max_spec_len, cu_num_draft_tokens, draft_probs, target_logits, bonus_token_ids,
    sampling_metadata, synthetic_mode=False, synthetic_conditional_rates=None, use_fp64_gumbel=False,
    fly_window_size=None, fly_entropy_threshold=None, fly_entropy_top_k=3,
):
    return "vLLM's own"

class RejectionSampler:
    def __call__(self, *given, **named):
        return rejection_sample(*given, **named)
"""


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Put a module that is made of a text in the place of vLLM's; the environment asks for ours."""
    monkeypatch.setenv("VLLM_USE_V2_MODEL_RUNNER", "0")
    monkeypatch.setenv("OTSPEC_VLLM", "1")

    def make(source: str) -> ModuleType:
        module = ModuleType(vllm.MODULE)
        exec(source, module.__dict__)
        monkeypatch.setattr(vllm, "require", {vllm.MODULE: module}.get)
        return module

    return make


Make = Callable[[str], ModuleType]
ONE = Batch(
    torch.tensor([1], dtype=torch.int32), [1], torch.tensor([1], dtype=torch.int32), None,
    torch.tensor([[0.0, 1.0]]), torch.tensor([[7]]), Metadata(None, True, False, {}),
).named()  # fmt: skip


def entry_point() -> Callable[[], None]:
    """What our pyproject.toml offers vLLM."""
    project = tomllib.loads((HERE.parents[1] / "pyproject.toml").read_text())["project"]
    module, function = project["entry-points"]["vllm.general_plugins"]["otspec"].split(":")
    found: Callable[[], None] = getattr(importlib.import_module(module), function)
    return found


def test_vllm_verifies_by_ours_only_if_asked(engine: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    module = engine(VLLM)
    sampler = module.RejectionSampler()
    load = entry_point()
    for value in ("", "0"):
        monkeypatch.setenv("OTSPEC_VLLM", value)
        load()
        assert sampler(**ONE) == "vLLM's own"
    monkeypatch.setenv("OTSPEC_VLLM", "1")
    load()
    ours = module.rejection_sample
    load()  # vLLM may load a plug-in more than once
    assert module.rejection_sample is ours
    assert sampler(**ONE).tolist() == [[1, 7]]
    assert sampler(*ONE.values(), fly_window_size=None).tolist() == [[1, 7]]
    # What is not lossless is not ours.
    assert sampler(**ONE, synthetic_mode=True) == "vLLM's own"
    assert sampler(*ONE.values(), fly_window_size=4) == "vLLM's own"
    monkeypatch.setenv("OTSPEC_VLLM", "yes")
    with pytest.raises(ProblemError, match="OTSPEC_VLLM=yes; it is 1 to use otspec"):
        load()
    # A second runner, which would not ask ours, may run.
    monkeypatch.setenv("OTSPEC_VLLM", "1")
    monkeypatch.delenv("VLLM_USE_V2_MODEL_RUNNER")
    with pytest.warns(UserWarning, match="VLLM_USE_V2_MODEL_RUNNER=0 makes sure that vLLM's first model runner runs"):
        load()


@each(
    source=(VLLM.replace("cu_num_draft_tokens", "draft_token_ends"), "def rejection_sample(draft_token_ids): return 1")
)
def test_a_function_that_is_called_differently_keeps_its_place(engine: Make, source: str) -> None:
    module = engine(source)
    own = module.rejection_sample
    with pytest.raises(ProblemError, match=r"rejection_sample takes draft_token_ids.* docs/vllm\.md names"):
        plug_in()
    assert module.rejection_sample is own


def test_a_version_may_lack_arguments_that_have_defaults(engine: Make) -> None:
    """As vLLM 0.32, which came before FLy."""
    fly = "\n    fly_window_size=None, fly_entropy_threshold=None, fly_entropy_top_k=3,"
    assert fly in VLLM
    module = engine(VLLM.replace(fly, ""))
    own = module.rejection_sample
    plug_in()
    assert module.rejection_sample.__name__ == own.__name__
    assert inspect.signature(module.rejection_sample) == inspect.signature(own)
    assert module.rejection_sample(**ONE).tolist() == [[1, 7]]
    with pytest.raises(TypeError, match="fly_window_size"):
        module.rejection_sample(**ONE, fly_window_size=None)


BARE = """
import sys, types
from otspec.engines import vllm
theirs = types.ModuleType(vllm.MODULE)
exec(sys.argv[1], theirs.__dict__)
vllm.require = {vllm.MODULE: theirs}.get
vllm.plug_in()
assert theirs.rejection_sample.__otspec__
kept_out = {"numba", "llvmlite", "scipy", "triton"}, {"torch._dynamo", "torch._inductor"}
found = [name for name in sys.modules if name.partition(".")[0] in kept_out[0]]
found += [name for name in sys.modules if ".".join(name.split(".")[:2]) in kept_out[1]]
assert not found, sorted(found)
"""
"""What vLLM's worker on a CPU does: when plug-ins are loaded it goes over all modules, and one of llvmlite stops it."""


def test_the_entry_point_loads_nothing_that_compiles() -> None:
    environment = {**os.environ, "OTSPEC_VLLM": "1", "PYTHONPATH": str(HERE.parents[1])}
    command = [sys.executable, "-c", BARE, VLLM]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


# --- vLLM itself

TEXTS, PLACES = 250, 4
"""Of each case, and whose laws are looked at."""
CASES: dict[str, dict[str, Any]] = {
    "whole law": {"temperature": 1.0},
    "cold": {"temperature": 0.7},
    "top-k": {"temperature": 1.0, "top_k": 6},
    "top-p": {"temperature": 0.7, "top_p": 0.8},
    "both": {"temperature": 1.3, "top_k": 40, "top_p": 0.9},
}
"""min_p is not among them: vLLM refuses it together with drafts."""
Answers = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def pair() -> Any:
    """The module of the pair that comes with the package; it needs transformers."""
    return importlib.import_module("otspec.decode.shipped")


@pytest.fixture(scope="module")
def served(pair: Any, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """The answers of engines: to greedy requests, and where ours verifies a draft model to random ones beside them."""
    folder = tmp_path_factory.mktemp("vllm")
    mended = folder / "plugin" / "mended_vllm-1.dist-info"
    mended.mkdir(parents=True)
    (mended / "METADATA").write_text("Metadata-Version: 2.1\nName: mended-vllm\nVersion: 1\n")
    (mended / "entry_points.txt").write_text("[vllm.general_plugins]\nmended = tests.engines.served_by_vllm:mend\n")
    prompts = pair.held_out(12)[:8]
    cold = [{"prompt": prompt, "sampling": {"temperature": 0.0, "max_tokens": 40}} for prompt in prompts]
    random = [{"prompt": prompts[0], "sampling": dict(case, n=TEXTS, max_tokens=8)} for case in CASES.values()]
    model = {"model": str(pair.FOLDER / "draft"), "draft_sample_method": "probabilistic"}
    drafts: dict[str, dict[str, Any]] = {
        "plain": {},
        "ours": {"method": "draft_model", "num_speculative_tokens": 3, **model},
        "ngram": {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3, "prompt_lookup_min": 1},
    }
    answers = {}
    for name, told in drafts.items():
        settings = {"dtype": "float32", "enforce_eager": True, "max_model_len": 128, "max_num_seqs": 256}
        settings |= {"disable_log_stats": False, **({"speculative_config": told} if told else {})}
        jobs = [cold, [*random, *cold]] if name == "ours" else [cold]
        order, answer = folder / "order.json", folder / "answer.json"
        order.write_text(json.dumps({"model": str(pair.FOLDER / "target"), "settings": settings, "jobs": jobs}))
        command = [sys.executable, *map(str, (HERE / "served_by_vllm.py", order, answer))]
        own = environment(mended.parent, bool(told))
        ended = subprocess.run(command, env=own, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stdout[-4000:] + ended.stderr[-8000:]
        answers[name] = json.loads(answer.read_text())
    return answers


def environment(plugin: Path, ours: bool) -> dict[str, str]:
    """What vLLM wants on a CPU; the folder of the plug-in that mends it, and whether our rule verifies."""
    threads = Path(sys.prefix) / "lib" / "libiomp5.so"
    inherited = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    places = [str(HERE.parents[1]), str(plugin), *filter(None, [inherited.get("PYTHONPATH")])]
    return {
        **inherited,
        **({"LD_PRELOAD": str(threads)} if threads.exists() else {}),
        "HF_HUB_OFFLINE": "1",
        "OTSPEC_VLLM": str(int(ours)),
        "PYTHONPATH": os.pathsep.join(places),
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_USE_V2_MODEL_RUNNER": "0",
    }


@within_vllm
def test_greedy_text_is_what_it_is_without_drafts(served: Answers) -> None:
    """By itself, beside random requests, and by n-grams, which are accepted and come without draft laws."""
    [plain], [greedy, mixed], [ngram] = (served[name] for name in ("plain", "ours", "ngram"))
    assert greedy["texts"] == mixed["texts"][len(CASES) :] == ngram["texts"] == plain["texts"]
    assert ngram["accepted"] > 0


@within_vllm
@each(case=list(CASES))
def test_tokens_have_the_law_of_the_target(served: Answers, pair: Any, case: str) -> None:
    """And another law would have been seen."""
    texts = [text[:PLACES] for text in served["ours"][1]["texts"][list(CASES).index(case)]]
    assert len(texts) == TEXTS
    target, prompt = pair.load().target, pair.held_out(12)[0]
    ends = [target.config.eos_token_id]

    @cache
    def logits(before: tuple[int, ...]) -> FloatArray:
        with torch.inference_mode():
            found: FloatArray = target(torch.tensor([[*prompt, *before]]), logits_to_keep=1).logits[0, 0].numpy()
        return found

    for settings, sound in ((CASES[case], True), ({"temperature": 2.0}, False)):
        laws = FunctionLaws(lambda before, told=settings: law_from_logits("logits", logits(before), **told), ends)
        verdict = audit_texts(texts, laws=laws, length=PLACES, alpha=1e-8).verdict
        assert (verdict is not EngineVerdict.NOT_LOSSLESS) == sound, verdict
