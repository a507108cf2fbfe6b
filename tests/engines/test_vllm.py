"""vLLM's verification by blocks: vLLM's flattened arguments, the plug-in, and vLLM itself.

Where vLLM is installed (`.ci/vllm` makes an environment for it) engines run on a CPU with the pair that comes with the
package, in processes of their own, one after the other: without drafts, with drafts verified by our rule, and with
n-grams.  Elsewhere a module of a few lines has vLLM's name and signature.
"""

import importlib
import inspect
import itertools
import json
import math
import os
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from otspec import ProblemError
from otspec.auditing.evidence import log_average_and_product, log_evidence
from otspec.engines import vllm
from otspec.engines.vllm import PLACEHOLDER, plug_in, rejection_sample
from otspec.extras import installed
from otspec.laws import FloatArray, law_from_logits
from otspec.verification.rules.block.block import block_weights
from tests import laws
from tests.each import each
from tests.oracles import Floats
from tests.verification.tree_batches import inverse

HERE = Path(__file__).parent
without_vllm = pytest.mark.skipif(installed("vllm"), reason="vLLM is installed")
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

    def call(self, **named: Any) -> torch.Tensor:
        drafted = self.tokens, self.counts, max(self.counts), self.ends, self.draft
        return rejection_sample(*drafted, self.logits, self.bonus, self.metadata, **named)


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
    weight, stop = block_weights(p[:chain], q[:chain], tokens[:chain])
    accepted = max((i for i in range(1, chain + 1) if uniforms[i - 1] < stop[i]), default=0)
    if accepted == len(tokens):
        return [*tokens.tolist(), bonus]
    law = p[accepted]
    if accepted < chain:
        rest = np.maximum(weight[accepted] * law - q[accepted], 0.0)
        law = rest if rest.sum() > 0 else law
    return [*tokens[:accepted].tolist(), inverse(law, uniforms[-1])]


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


STEPS = 34
"""Of a bisection: a probability is found to 1e-10."""
LAST = 1 - 2.0**-53
Q = np.array([0.1, 0.2, 0.3, 0.4])
P = np.array([[0.4, 0.3, 0.2, 0.1], [0.12, 0.2, 0.3, 0.38]])


@each(how=("plain", "ends", "masks", "ends and masks", "n-gram"))
def test_the_output_has_the_law_of_the_target(how: str) -> None:
    """A drafted token 3 ends the text, so that -1 fills up the chain; or a grammar excludes tokens, and refuses them.

    The law of two tokens, exactly: over all chains, and of each over the uniforms, whose thresholds are bisected.  What
    n-grams draft is drawn from no law: each chain has it by itself.
    """
    ends, masks, ngram = "ends" in how, "masks" in how, how == "n-gram"
    drafted, chances, rows = [], [], []
    for x, y in itertools.product(range(4), repeat=2):
        law = P[1] if (ends and x == 3) or not masks else np.where(np.arange(4) % 2 == 0, 0, P[1])
        padded = (ends and x == 3) or law[y] == 0
        drafted.append((x, PLACEHOLDER if padded else y))
        chances.append(1.0 if ngram else Q[x] * Q[y])
        rows.append(np.stack((P[0], law / law.sum())))
    targets, tokens = np.array(rows), np.array(drafted)

    def outputs(*uniforms: Floats | float) -> Any:
        each = np.stack(np.broadcast_arrays(*uniforms), axis=1)
        times = len(each) // 16
        return verified(np.tile(targets, (times, 1, 1)), np.tile(tokens, (times, 1)), each, None if ngram else Q)

    both = bisected(lambda u: outputs(LAST, u, 0.5)[:, 2] >= 0)
    one = bisected(lambda u: outputs(u, LAST, 0.5)[:, 1] >= 0)
    kept = both + (1 - both) * one
    after_one = drawn(lambda u: outputs(0.0, LAST, u)[:, 1])
    after_none = drawn(lambda u: outputs(LAST, LAST, u)[:, 0])
    joint, after = np.zeros((16, 4, 4)), targets[::4, 1]
    for chain, (x, y) in enumerate(tokens):
        joint[chain] = chances[chain] * (1 - kept[chain]) * after_none[:, chain, None] * after
        joint[chain, x] += chances[chain] * (1 - both[chain]) * one[chain] * after_one[:, chain]
        joint[chain, x, y] += chances[chain] * both[chain]
    found = joint if ngram else joint.sum(axis=0)
    assert np.abs(found - P[0][:, None] * after).max() < 1e-9


def verified(targets: Floats, tokens: Any, uniforms: Floats, draft: Floats | None) -> Any:
    """What comes out for chains of two tokens, given the numbers that they are verified by."""
    count = len(tokens)
    with pytest.MonkeyPatch.context() as patched, np.errstate(divide="ignore"):
        patched.setattr(vllm, "_uniforms", lambda *_: torch.from_numpy(uniforms))
        found = rejection_sample(
            torch.from_numpy(tokens.reshape(-1)).int(),
            [2] * count,
            2,
            torch.arange(2, 2 * count + 1, 2, dtype=torch.int32),
            None if draft is None else torch.from_numpy(np.tile(draft, (2 * count, 1))),
            torch.from_numpy(np.log(targets).reshape(2 * count, 4)),
            torch.zeros(count, 1, dtype=torch.int64),
            Metadata(torch.ones(count), False, True, {}),
        )
        return found.numpy()


def drawn(token: Callable[[Floats], Any]) -> Floats:
    """The law of a token, shape (4, 16), given which one each chain has by the number that it is drawn with."""
    bounds = np.repeat(np.arange(3), 16)
    up_to = bisected(lambda uniforms: token(uniforms) <= bounds, 3).reshape(3, 16)
    return np.diff([np.zeros(16), *up_to, np.ones(16)], axis=0)


def bisected(holds: Callable[[Floats], Any], times: int = 1) -> Floats:
    """Up to which number something holds of each of 16 chains, in turn so often, if it does up to some number."""
    low = np.zeros(16 * times)
    high = np.where(holds(low), 1.0, 0.0)
    for _ in range(STEPS):
        middle = (low + high) / 2
        held = holds(np.minimum(middle, LAST))
        low, high = np.where(held, middle, low), np.where(held, high, middle)
    return (low + high) / 2


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
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """Make vLLM's module of a text, and import it; the environment asks for ours."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("VLLM_USE_V2_MODEL_RUNNER", "0")
    monkeypatch.setenv("OTSPEC_VLLM", "1")

    def make(source: str) -> ModuleType:
        path = tmp_path.joinpath(*vllm.MODULE.split(".")).with_suffix(".py")
        path.parent.mkdir(parents=True)
        for folder in path.relative_to(tmp_path).parents[:-1]:
            (tmp_path / folder / "__init__.py").touch()
        path.write_text(source)
        importlib.invalidate_caches()
        return importlib.import_module(vllm.MODULE)

    yield make
    for name in [name for name in sys.modules if name.partition(".")[0] == "vllm"]:
        del sys.modules[name]


Make = Callable[[str], ModuleType]


def one_request() -> dict[str, Any]:
    return {
        "draft_token_ids": torch.tensor([1], dtype=torch.int32),
        "num_draft_tokens": [1],
        "max_spec_len": 1,
        "cu_num_draft_tokens": torch.tensor([1], dtype=torch.int32),
        "draft_probs": None,
        "target_logits": torch.tensor([[0.0, 1.0]]),
        "bonus_token_ids": torch.tensor([[7]]),
        "sampling_metadata": SimpleNamespace(temperature=None, all_greedy=True, all_random=False, generators={}),
    }


def entry_point() -> Callable[[], None]:
    """What our pyproject.toml offers vLLM."""
    project = tomllib.loads((HERE.parents[1] / "pyproject.toml").read_text())["project"]
    module, function = project["entry-points"]["vllm.general_plugins"]["otspec"].split(":")
    found: Callable[[], None] = getattr(importlib.import_module(module), function)
    return found


@without_vllm
def test_vllm_verifies_by_ours_only_if_asked(engine: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    module = engine(VLLM)
    sampler = module.RejectionSampler()
    load = entry_point()
    for value in ("", "0"):
        monkeypatch.setenv("OTSPEC_VLLM", value)
        load()
        assert sampler(**one_request()) == "vLLM's own"
    monkeypatch.setenv("OTSPEC_VLLM", "1")
    load()
    ours = module.rejection_sample
    load()  # vLLM may load a plug-in more than once
    assert module.rejection_sample is ours
    assert sampler(**one_request()).tolist() == [[1, 7]]
    assert sampler(*one_request().values(), fly_window_size=None).tolist() == [[1, 7]]
    # What is not lossless is not ours.
    assert sampler(**one_request(), synthetic_mode=True) == "vLLM's own"
    assert sampler(*one_request().values(), fly_window_size=4) == "vLLM's own"
    monkeypatch.setenv("OTSPEC_VLLM", "yes")
    with pytest.raises(ProblemError, match="OTSPEC_VLLM=yes; it is 1 to use otspec"):
        load()
    # A second runner, which would not ask ours, may run.
    monkeypatch.setenv("OTSPEC_VLLM", "1")
    monkeypatch.delenv("VLLM_USE_V2_MODEL_RUNNER")
    with pytest.warns(UserWarning, match="VLLM_USE_V2_MODEL_RUNNER=0 makes sure that vLLM's first model runner runs"):
        load()


@without_vllm
@pytest.mark.parametrize(
    "source",
    [
        VLLM.replace("cu_num_draft_tokens", "draft_token_ends"),
        "def rejection_sample(draft_token_ids, num_draft_tokens): return 1",
    ],
    ids=("renamed", "too few"),
)
def test_a_function_that_is_called_differently_keeps_its_place(engine: Make, source: str) -> None:
    module = engine(source)
    own = module.rejection_sample
    with pytest.raises(ProblemError, match=r"rejection_sample takes draft_token_ids, .* docs/vllm\.md names"):
        plug_in()
    assert module.rejection_sample is own


@without_vllm
def test_a_version_may_lack_arguments_that_have_defaults(engine: Make) -> None:
    """As vLLM 0.32, which came before FLy."""
    fly = "\n    fly_window_size=None, fly_entropy_threshold=None, fly_entropy_top_k=3,"
    assert fly in VLLM
    module = engine(VLLM.replace(fly, ""))
    own = module.rejection_sample
    plug_in()
    assert module.rejection_sample.__name__ == own.__name__
    assert inspect.signature(module.rejection_sample) == inspect.signature(own)
    assert module.rejection_sample(**one_request()).tolist() == [[1, 7]]
    with pytest.raises(TypeError, match="fly_window_size"):
        module.rejection_sample(**one_request(), fly_window_size=None)


BARE = """
import sys
from otspec.engines.vllm import plug_in
plug_in()
import vllm.v1.sample.rejection_sampler as theirs
assert theirs.rejection_sample.__otspec__
kept_out = {"numba", "llvmlite", "scipy", "triton"}, {"torch._dynamo", "torch._inductor"}
found = [name for name in sys.modules if name.partition(".")[0] in kept_out[0]]
found += [name for name in sys.modules if ".".join(name.split(".")[:2]) in kept_out[1]]
assert not found, sorted(found)
"""
"""What vLLM's worker on a CPU does: when plug-ins are loaded it goes over all modules, and one of llvmlite stops it."""


@without_vllm
def test_the_entry_point_loads_nothing_that_compiles(engine: Make, tmp_path: Path) -> None:
    engine(VLLM)
    path = os.pathsep.join([str(tmp_path), str(HERE.parents[1])])
    environment = {**os.environ, "OTSPEC_VLLM": "1", "PYTHONPATH": path}
    ended = subprocess.run([sys.executable, "-c", BARE], env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


# --- vLLM itself

TEXTS = 250
"""Of each case."""
PLACES = 4
"""Whose laws are looked at."""
DRAFTED = 3
PROMPT = 12
TOO_MUCH = math.log(1e8)
"""Evidence against a law that only one of 1e8 sound runs brings."""

CASES: dict[str, dict[str, Any]] = {
    "whole law": {"temperature": 1.0},
    "cold": {"temperature": 0.7},
    "top-k": {"temperature": 1.0, "top_k": 6},
    "top-p": {"temperature": 0.7, "top_p": 0.8},
    "both": {"temperature": 1.3, "top_k": 40, "top_p": 0.9},
}
"""min_p is not among them: vLLM refuses it together with drafts."""


def prompts() -> list[list[int]]:
    return pair().held_out(PROMPT)[:8]


def jobs() -> dict[str, list[dict[str, Any]]]:
    """What is asked for, by name; the random requests and some greedy ones at once."""
    cold = [{"prompt": prompt, "sampling": {"temperature": 0.0, "max_tokens": 40}} for prompt in prompts()]
    cases = [{"prompt": prompts()[0], "sampling": dict(case, n=TEXTS, max_tokens=8)} for case in CASES.values()]
    return {"greedy": cold, "mixed": [*cases, *cold]}


def drafts(by: str) -> dict[str, Any]:
    """What vLLM is told of its drafts."""
    if by == "ngram":
        return {"method": "ngram", "prompt_lookup_max": 3, "prompt_lookup_min": 1, "num_speculative_tokens": DRAFTED}
    return {
        "model": str(pair().FOLDER / "draft"),
        "method": "draft_model",
        "num_speculative_tokens": DRAFTED,
        "draft_sample_method": "probabilistic",
    }


JOBS: dict[str, tuple[str, ...]] = {"plain": ("greedy",), "ours": ("greedy", "mixed"), "ngram": ("greedy",)}
"""Of each engine: without drafts, and verified by our rule with drafts of the pair's draft model, or with n-grams."""


@pytest.fixture(scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], dict[str, Any]]]:
    """The answers of an engine, by the names of the jobs; it runs when it is first asked for."""
    folder = tmp_path_factory.mktemp("vllm")
    mended = folder / "plugin" / "mended_vllm-1.dist-info"
    mended.mkdir(parents=True)
    (mended / "METADATA").write_text("Metadata-Version: 2.1\nName: mended-vllm\nVersion: 1\n")
    (mended / "entry_points.txt").write_text("[vllm.general_plugins]\nmended = tests.engines.served_by_vllm:mend\n")

    @cache
    def serve(name: str) -> dict[str, Any]:
        settings = {
            "dtype": "float32",
            "enforce_eager": True,
            "max_model_len": 128,
            "max_num_seqs": 256,
            "disable_log_stats": False,
            **({} if name == "plain" else {"speculative_config": drafts(name)}),
        }
        order, answer = folder / "order.json", folder / "answer.json"
        asked = jobs()
        target = str(pair().FOLDER / "target")
        order.write_text(
            json.dumps({"model": target, "settings": settings, "jobs": [asked[job] for job in JOBS[name]]})
        )
        ended = subprocess.run(
            [sys.executable, HERE / "served_by_vllm.py", order, answer],
            env=environment(mended.parent, name != "plain"),
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout[-4000:] + ended.stderr[-8000:]
        return dict(zip(JOBS[name], json.loads(answer.read_text()), strict=True))

    yield serve
    serve.cache_clear()


Serve = Callable[[str], dict[str, Any]]


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


@cache
def pair() -> Any:
    """The module of the pair that comes with the package; it needs transformers."""
    return importlib.import_module("otspec.decode.shipped")


@cache
def loaded() -> Any:
    return pair().load()


def laws_after(prompt: Sequence[int], prefixes: Sequence[tuple[int, ...]], case: Mapping[str, Any]) -> FloatArray:
    """The laws of the next token after texts of one length, shape (texts, V), as sampling parameters are defined."""
    texts = torch.tensor([[*prompt, *prefix] for prefix in prefixes])
    with torch.inference_mode():
        logits = loaded().target(input_ids=texts, logits_to_keep=1).logits[:, 0].double()
    settings = case["temperature"], case.get("top_k"), case.get("top_p")
    return np.array([law_from_logits("logits", row, *settings) for row in logits.numpy()])


def evidence(prompt: Sequence[int], texts: Sequence[Sequence[int]], case: Mapping[str, Any], place: int) -> float:
    """Logarithm of the evidence that the token at a place of the texts has not its law, given those before."""
    after: dict[tuple[int, ...], Counter[int]] = {}
    for text in texts:
        if len(text) > place:
            after.setdefault(tuple(text[:place]), Counter())[text[place]] += 1
    often = [prefix for prefix, counts in after.items() if counts.total() > 2]
    if not often:
        return 0.0
    logs = []
    for prefix, law in zip(often, laws_after(prompt, often, case), strict=True):
        counts = np.zeros(law.size, dtype=np.int64)
        counts[list(after[prefix])] = list(after[prefix].values())
        logs.append(log_evidence(counts, law))
    return log_average_and_product(np.array(logs))


@within_vllm
@each(job=("greedy", "mixed"))
def test_greedy_text_is_what_it_is_without_drafts(serve: Serve, job: str) -> None:
    ours, plain = serve("ours")[job]["texts"], serve("plain")["greedy"]["texts"]
    assert ours[-len(plain) :] == plain


@within_vllm
@each(case=list(CASES))
def test_tokens_have_the_law_of_the_target(serve: Serve, case: str) -> None:
    texts = serve("ours")["mixed"]["texts"][list(CASES).index(case)]
    assert len(texts) == TEXTS
    found = [evidence(prompts()[0], texts, CASES[case], place) for place in range(PLACES)]
    assert max(found) < TOO_MUCH, found


@within_vllm
def test_another_law_would_have_been_seen(serve: Serve) -> None:
    texts = serve("ours")["mixed"]["texts"][list(CASES).index("cold")]
    found = [evidence(prompts()[0], texts, {"temperature": 2.0}, place) for place in range(PLACES)]
    assert min(found[:2]) > TOO_MUCH, found


@within_vllm
def test_ngrams_are_accepted_and_change_no_greedy_text(serve: Serve) -> None:
    """They come without draft laws."""
    ngram = serve("ngram")["greedy"]
    assert ngram["texts"] == serve("plain")["greedy"]["texts"]
    assert ngram["accepted"] > 0
