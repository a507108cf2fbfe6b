"""Our verification in vLLM itself, on a CPU, with the pair that comes with the package; `.ci/vllm` runs this.

Engines run in processes of their own, one after the other: without drafts, with drafts verified by ours, and with
drafts verified by vLLM's own rule.  SmolLM2, whose drafts are looked up in its text, is served too where OTSPEC_SMOLLM2
names its folder, as `otspec save smollm2 FOLDER` writes it.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from otspec.extras import installed

if not installed("vllm"):
    pytest.skip("vLLM is not installed; .ci/vllm FOLDER runs these tests", allow_module_level=True)

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from otspec.auditing.evidence import log_average_and_product, log_evidence
from otspec.data import TreeSource, open_source
from otspec.decode.shipped import FOLDER, held_out, load
from otspec.engines.vllm_recorder import AT_ONCE
from otspec.laws import FloatArray
from tests.each import each

HERE = Path(__file__).parent
TEXTS = 250
"""Of each case."""
TOKENS = 4
"""Whose laws are looked at."""
DRAFTED = 3
PROMPT = 12
TOO_MUCH = math.log(1e8)
"""Evidence against a law that only one of 1e8 sound runs brings."""
REGEX = "(a|b|c){2,4}"
LETTERS, LONGEST = "abc", 4
EOS = 1

CASES: dict[str, dict[str, Any]] = {
    "whole law": {"temperature": 1.0},
    "cold": {"temperature": 0.7},
    "top-k": {"temperature": 1.0, "top_k": 6},
    "top-p": {"temperature": 0.7, "top_p": 0.8},
    "both": {"temperature": 1.3, "top_k": 40, "top_p": 0.9},
    "penalties": {"temperature": 1.0, "repetition_penalty": 1.4, "presence_penalty": 0.5, "frequency_penalty": 0.3},
    "grammar": {"temperature": 1.0, "regex": REGEX},
}
"""min_p is not among them: vLLM refuses it together with drafts."""
SEEDED: dict[str, Any] = {"temperature": 1.0}
"""Requests with seeds of their own: the law is over the seeds.  (Texts are not repeated: vLLM's drafts have none.)"""


SMOLLM2 = os.environ.get("OTSPEC_SMOLLM2", "")
with_smollm2 = pytest.mark.skipif(not SMOLLM2, reason="OTSPEC_SMOLLM2 names no folder; otspec save smollm2 writes one")
REPETITIVE = (
    "red, green, blue; green, blue, red; blue, red, green; red,",
    "x = a + b\ny = b + c\nz = a + c\nx = a +",
    "The cat sat on the mat. The dog sat on the rug. The cat sat on the",
    "for i in range(10):\n    print(i)\nfor i in range(",
)
"""Prompts after which SmolLM2 writes what stood there, or does not: drafts are found, and some are refused."""


def prompts() -> list[list[int]]:
    return held_out(PROMPT)[:8]


def jobs() -> dict[str, list[dict[str, Any]]]:
    """What is asked for, by name; the random requests and some greedy ones at once."""
    cold = [
        {"prompt": prompt, "sampling": {"temperature": 0.0, "max_tokens": 40, "logprobs": 5}} for prompt in prompts()
    ]
    cases = [{"prompt": prompts()[0], "sampling": dict(case, n=TEXTS, max_tokens=8)} for case in CASES.values()]
    seeded = [{"prompt": prompts()[1], "sampling": dict(SEEDED, max_tokens=6, seed=seed)} for seed in range(TEXTS)]
    plain = [{"prompt": prompt, "sampling": {"temperature": 1.0, "n": 24, "max_tokens": 20}} for prompt in prompts()]
    return {"greedy": cold, "acceptance": plain, "mixed": [*cases, *seeded, *cold]}


def smollm2_jobs() -> dict[str, list[dict[str, Any]]]:
    """Greedy requests, and random ones of the first prompt, by SmolLM2's tokens."""
    read = [AutoTokenizer.from_pretrained(SMOLLM2)(prompt).input_ids for prompt in REPETITIVE]
    cold = [{"prompt": prompt, "sampling": {"temperature": 0.0, "max_tokens": 40}} for prompt in read]
    return {
        "greedy": cold,
        "random": [{"prompt": read[0], "sampling": {"temperature": 1.0, "n": TEXTS, "max_tokens": 6}}],
    }


PAIR = {
    "model": str(FOLDER / "draft"),
    "method": "draft_model",
    "num_speculative_tokens": DRAFTED,
    "draft_sample_method": "probabilistic",
}
LOOKUP = {"method": "custom_class", "model": "otspec.engines.vllm.Proposer", "num_speculative_tokens": DRAFTED}
NGRAM = {"method": "ngram", "prompt_lookup_max": 3, "prompt_lookup_min": 1, "num_speculative_tokens": DRAFTED}
ENGINES: dict[str, dict[str, Any]] = {
    "plain": {"jobs": ("greedy",)},
    "ours": {"jobs": ("greedy", "acceptance", "mixed"), "drafts": PAIR, "ours": True},
    "vLLM's own": {"jobs": ("acceptance",), "drafts": PAIR},
    "lookup": {"jobs": ("greedy",), "drafts": LOOKUP, "ours": True},
}
LOOKUPS = {"proposer": LOOKUP, "ngram": NGRAM}
DTYPES = ("float32", "bfloat16")
ENGINES |= {f"smollm2, {dtype}, plain": {"jobs": ("greedy",), "dtype": dtype} for dtype in DTYPES}
ENGINES |= {
    f"smollm2, {dtype}, {drafter}": {"jobs": ("greedy", "random"), "dtype": dtype, "drafts": drafts, "ours": True}
    for dtype, (drafter, drafts) in product(DTYPES, LOOKUPS.items())
}


@pytest.fixture(scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], dict[str, Any]]]:
    """The answers of an engine, by the names of the jobs; it runs when it is first asked for."""
    folder = tmp_path_factory.mktemp("vllm")
    mended = folder / "plugin" / "mended_vllm-1.dist-info"  # vLLM's own rule gets the target's laws, too: #55005
    mended.mkdir(parents=True)
    (mended / "METADATA").write_text("Metadata-Version: 2.1\nName: mended-vllm\nVersion: 1\n")
    (mended / "entry_points.txt").write_text("[vllm.general_plugins]\nmended = tests.engines.mended_vllm:mend\n")

    @cache
    def serve(name: str) -> dict[str, Any]:
        engine = ENGINES[name]
        settings = {
            "dtype": engine.get("dtype", "float32"),
            "enforce_eager": True,
            "max_model_len": 128,
            "max_num_seqs": 256,
            "disable_log_stats": False,
            **({"speculative_config": engine["drafts"]} if "drafts" in engine else {}),
        }
        model, asked = (SMOLLM2, smollm2_jobs()) if name.startswith("smollm2") else (str(FOLDER / "target"), jobs())
        order, answer = folder / "order.json", folder / "answer.json"
        order.write_text(
            json.dumps(
                {
                    "model": model,
                    "settings": settings,
                    "jobs": [asked[job] for job in engine["jobs"]],
                }
            )
        )
        ended = subprocess.run(
            [sys.executable, HERE / "served_by_vllm.py", order, answer],
            env=environment(mended.parent if name == "vLLM's own" else None)
            | (recorded_in(folder / name) if "ours" in engine else {}),
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout[-4000:] + ended.stderr[-8000:]
        return {
            **dict(zip(engine["jobs"], json.loads(answer.read_text()), strict=True)),
            "recorded": sorted((folder / name).glob("*.safetensors")),
        }

    yield serve
    serve.cache_clear()


Serve = Callable[[str], dict[str, Any]]


def environment(plugin: Path | None) -> dict[str, str]:
    """What vLLM wants on a CPU; and a folder with a plug-in."""
    threads = Path(sys.prefix) / "lib" / "libiomp5.so"
    given = {name: value for name, value in os.environ.items() if name not in ("OTSPEC_VLLM", "OMP_NUM_THREADS")}
    places = [str(HERE.parents[1]), *([str(plugin)] if plugin else ()), *filter(None, [given.get("PYTHONPATH")])]
    return {
        **given,
        **({"LD_PRELOAD": str(threads)} if threads.exists() else {}),
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": os.pathsep.join(places),
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_USE_V2_MODEL_RUNNER": "0",
    }


def recorded_in(folder: Path) -> dict[str, str]:
    """What asks for us, and for a file of the chains of the first steps."""
    return {"OTSPEC_VLLM": "1", "OTSPEC_RECORD": str(folder), "OTSPEC_RECORD_CHAINS": str(AT_ONCE)}


@cache
def target(dtype: str | None = None) -> Any:
    """The pair's, or SmolLM2 in weights of a type."""
    return load().target if dtype is None else AutoModelForCausalLM.from_pretrained(SMOLLM2, dtype=dtype).eval()


def laws_after(prompt: Sequence[int], prefixes: Sequence[tuple[int, ...]], case: Mapping[str, Any]) -> FloatArray:
    """The laws of the next token after texts of one length, shape (texts, V), as sampling parameters are defined."""
    texts = torch.tensor([[*prompt, *prefix] for prefix in prefixes])
    with torch.inference_mode():
        logits = target(case.get("smollm2"))(input_ids=texts, logits_to_keep=1).logits[:, 0].double()
    if "repetition_penalty" in case:
        seen = torch.zeros_like(logits, dtype=torch.bool).scatter(1, texts, True)
        by = torch.where(logits > 0, 1 / case["repetition_penalty"], case["repetition_penalty"])
        logits = torch.where(seen, logits * by, logits)
        written = torch.zeros_like(logits)
        own = texts[:, len(prompt) :]
        written.scatter_add_(1, own, torch.ones_like(own, dtype=written.dtype))
        logits = logits - case["presence_penalty"] * (written > 0) - case["frequency_penalty"] * written
    if "regex" in case:
        allowed = torch.tensor([allowed_after(prefix) for prefix in prefixes])
        logits = logits.masked_fill(~allowed, -torch.inf)
    logits = logits / case["temperature"]
    if "top_k" in case:
        logits = logits.masked_fill(logits < logits.topk(case["top_k"]).values[:, -1:], -torch.inf)
    if "top_p" in case:
        ordered, order = logits.sort(dim=1)
        out = ordered.softmax(dim=1).cumsum(dim=1) <= 1 - case["top_p"]
        out[:, -1] = False
        logits = logits.masked_fill(torch.zeros_like(out).scatter(1, order, out), -torch.inf)
    found: FloatArray = logits.softmax(dim=1).numpy()
    return found


def allowed_after(prefix: tuple[int, ...]) -> list[bool]:
    """Which tokens the regular expression has room for."""
    written = sum(len(words()[token]) for token in prefix)
    ended = EOS in prefix
    fits = [not ended and bool(word) and not word.strip(LETTERS) and written + len(word) <= LONGEST for word in words()]
    fits[EOS] = written >= 2 and not ended
    return fits


@cache
def words() -> list[str]:
    tokenizer = load().tokenizer
    return ["" if token == EOS else tokenizer.decode([token]) for token in range(target().config.vocab_size)]


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


@each(job=("greedy", "mixed"))
def test_greedy_text_is_what_it_is_without_drafts(serve: Serve, job: str) -> None:
    ours, plain = serve("ours")[job]["texts"], serve("plain")["greedy"]["texts"]
    assert ours[-len(plain) :] == plain


def test_log_probabilities_are_what_they_are_without_drafts(serve: Serve) -> None:
    ours, plain = (serve(engine)["greedy"]["logprobs"] for engine in ("ours", "plain"))
    for mine, theirs in zip(ours, plain, strict=True):
        assert len(mine) == len(theirs) > DRAFTED
        for one, other in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(sorted(dict(one).values()), sorted(dict(other).values()), atol=1e-3)


@each(case=list(CASES))
def test_tokens_have_the_law_of_the_target(serve: Serve, case: str) -> None:
    texts = serve("ours")["mixed"]["texts"][list(CASES).index(case)]
    assert len(texts) == TEXTS
    found = [evidence(prompts()[0], texts, CASES[case], place) for place in range(TOKENS)]
    assert max(found) < TOO_MUCH, found


def test_requests_with_seeds_have_the_law_of_the_target(serve: Serve) -> None:
    mixed = serve("ours")["mixed"]["texts"]
    texts = [text for (text,) in mixed[len(CASES) : len(CASES) + TEXTS]]
    found = [evidence(prompts()[1], texts, SEEDED, place) for place in range(TOKENS)]
    assert max(found) < TOO_MUCH, found
    assert len({tuple(text) for text in texts}) > TEXTS / 2


def test_another_law_would_have_been_seen(serve: Serve) -> None:
    texts = serve("ours")["mixed"]["texts"][list(CASES).index("cold")]
    found = [evidence(prompts()[0], texts, {"temperature": 2.0}, place) for place in range(TOKENS)]
    assert min(found[:2]) > TOO_MUCH, found


def test_blocks_accept_what_tokens_do_at_first_and_more_after(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """Per step and place; what is left to chance is six standard errors."""
    ours, own = (serve(engine)["acceptance"]["counters"] for engine in ("ours", "vLLM's own"))
    before = serve("ours")["greedy"]["counters"]
    steps = ours["num_drafts"] - before["num_drafts"], own["num_drafts"]
    mine = np.array(ours["num_accepted_tokens_per_pos"]) - np.array(before["num_accepted_tokens_per_pos"])
    rates = mine / steps[0], np.array(own["num_accepted_tokens_per_pos"]) / steps[1]
    with capsys.disabled():
        sys.stdout.write(
            f"\naccepted per position by ours, by vLLM's own: {[rate.round(3).tolist() for rate in rates]}\n"
        )
    off = math.sqrt(1 / steps[0] + 1 / steps[1])
    assert abs(rates[0][0] - rates[1][0]) < 3 * off
    assert rates[0].sum() > rates[1].sum() - 3 * DRAFTED * off
    assert (rates[0] > 0.1).all()


def test_a_drafter_of_ours_drafts_in_the_engine(serve: Serve) -> None:
    lookup = serve("lookup")["greedy"]
    assert lookup["texts"] == serve("plain")["greedy"]["texts"]
    assert lookup["counters"]["num_accepted_tokens"] > 0
    assert serve("lookup")["recorded"] == []  # nothing was drawn


def test_what_was_verified_is_recorded(serve: Serve) -> None:
    """Drafts have the draft laws that are kept with them: their surprise is the entropy, up to six standard errors."""
    positions, trees = serve("ours")["recorded"]
    assert len(open_source(str(positions))) == AT_ONCE
    kept = [TreeSource(trees).tree(index) for index in range(AT_ONCE)]
    free = [tree for tree in kept if (tree.target_laws > 0).all()]  # of a grammar only what it allows can be kept
    assert len(free) > AT_ONCE / 4
    laws, drawn = np.array([tree.draft_laws for tree in free]), np.array([tree.paths[0] for tree in free])
    chances = np.take_along_axis(laws, drawn[:, :, None], axis=2)
    logs = np.log(np.where(laws > 0, laws, 1))
    mean = (laws * logs).sum(axis=2)
    spread = (laws * logs**2).sum() - (mean**2).sum()
    assert abs(np.log(chances).sum() - mean.sum()) < 6 * math.sqrt(spread)
    model = np.mean([np.minimum(tree.target_laws[0], tree.draft_laws[0]).sum() for tree in free])
    assert 0.3 < model < 1  # one draft is accepted about as often as the pair's are


@with_smollm2
@pytest.mark.parametrize("drafter", list(LOOKUPS))
@pytest.mark.parametrize("dtype", DTYPES)
def test_smollm2_with_drafts_from_its_text(
    serve: Serve, dtype: str, drafter: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Greedy text is what it is without drafts, tokens have the model's law, and drafts are accepted and refused."""
    ours, plain = serve(f"smollm2, {dtype}, {drafter}"), serve(f"smollm2, {dtype}, plain")
    assert ours["greedy"]["texts"] == plain["greedy"]["texts"]
    before, after = (ours[job]["counters"] for job in ("greedy", "random"))
    steps, accepted = (after[name] - before[name] for name in ("num_drafts", "num_accepted_tokens"))
    with capsys.disabled():
        sys.stdout.write(f"\nSmolLM2 in {dtype}, {drafter}: {accepted} tokens accepted in {steps} steps\n")
    assert TEXTS / 10 < accepted < (DRAFTED - 1) * steps
    (texts,) = ours["random"]["texts"]
    (request,) = smollm2_jobs()["random"]
    case = {"temperature": 1.0, "smollm2": dtype}
    found = [evidence(request["prompt"], texts, case, place) for place in range(TOKENS)]
    assert max(found) < TOO_MUCH, found
    cold = [evidence(request["prompt"], texts, {**case, "temperature": 2.0}, place) for place in range(2)]
    assert max(cold) > TOO_MUCH, cold
