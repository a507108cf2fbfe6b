"""Text that vLLM itself writes with the plug-in.

Where it is installed (`.ci/vllm` makes an environment for it) engines run on a CPU with the pair that comes with the
package, in processes of their own, one after the other: without drafts, with drafts verified by our rule, and with
n-grams.
"""

import importlib
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from otspec.auditing.engines import EngineVerdict, FunctionLaws, audit_texts
from otspec.extras import installed
from otspec.laws import FloatArray
from otspec.logits import law_from_logits
from tests.each import each

HERE = Path(__file__).parent
within_vllm = pytest.mark.skipif(
    not installed("vllm"), reason="vLLM is not installed; .ci/vllm FOLDER runs these tests"
)

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
    for name, shown in drafts.items():
        settings = {"dtype": "float32", "enforce_eager": True, "max_model_len": 128, "max_num_seqs": 256}
        settings |= {"disable_log_stats": False, **({"speculative_config": shown} if shown else {})}
        jobs = [cold, [*random, *cold]] if name == "ours" else [cold]
        order, answer = folder / "order.json", folder / "answer.json"
        order.write_text(json.dumps({"model": str(pair.FOLDER / "target"), "settings": settings, "jobs": jobs}))
        command = [sys.executable, *map(str, (HERE / "served_by_vllm.py", order, answer))]
        own = environment(mended.parent, bool(shown))
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
        laws = FunctionLaws(lambda before, shown=settings: law_from_logits("logits", logits(before), **shown), ends)
        verdict = audit_texts(texts, laws=laws, length=PLACES, alpha=1e-8).verdict
        assert (verdict is not EngineVerdict.NOT_LOSSLESS) == sound, verdict
