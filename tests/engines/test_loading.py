"""How engines come to our functions: by entry points that do nothing unless asked, and never by a wrong signature.

The engines are packages of a few lines here, with the names and signatures of the real ones.
"""

from __future__ import annotations

import importlib
import inspect
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from otspec import MissingExtra, ProblemError
from otspec.engines import flashinfer, plugins, sglang, vllm
from otspec.engines.loading import asked, replacement
from otspec.extras import installed

ENGINES = ("vllm", "sglang", "flashinfer")
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
SGLANG = """
def tree_speculative_sampling_target_only(
    predicts, accept_index, accept_token_num, candidates, retrive_index, retrive_next_token, retrive_next_sibling,
    uniform_samples, uniform_samples_for_final_sampling, target_probs, draft_probs, threshold_single=1.0,
    threshold_acc=1.0, deterministic=True,
):
    return "SGLang's own"
"""
SGLANG_CHAINS = """
def chain_speculative_sampling_triton(
    predicts, accept_index, accept_token_num, candidates, retrive_index, retrive_next_token, retrive_next_sibling,
    uniform_samples, uniform_samples_for_final_sampling, target_probs, draft_probs, threshold_single, threshold_acc,
    deterministic, *, block_verification=False,
):
    return "SGLang's own"
"""
HOOKS = """
from enum import Enum

class HookType(Enum):
    REPLACE = "replace"

class HookRegistry:
    hooks = []

    @classmethod
    def register(cls, target, hook, hook_type):
        cls.hooks.append((target, hook, hook_type))
"""
FLASHINFER = """
def chain_speculative_sampling(
    draft_probs, draft_token_ids, target_probs, maybe_output_accepted_token_num=None,
    maybe_output_emitted_draft_token_num=None, deterministic=True, generator=None, seed=None, offset=None,
):
    return "flashinfer's own"
"""


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], ModuleType]]:
    """Make a module of an engine, and import it."""
    monkeypatch.syspath_prepend(tmp_path)
    for variable in ("OTSPEC_VLLM", "OTSPEC_SGLANG"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("VLLM_USE_V2_MODEL_RUNNER", "0")

    def one(name: str, source: str) -> ModuleType:
        path = tmp_path.joinpath(*name.split(".")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        for folder in path.relative_to(tmp_path).parents[:-1]:
            (tmp_path / folder / "__init__.py").touch()
        path.write_text(source)
        importlib.invalidate_caches()
        return importlib.import_module(name)

    if any(map(installed, ENGINES)):
        pytest.skip("an engine is installed")
    yield one
    for name in [name for name in sys.modules if name.partition(".")[0] in ENGINES]:
        del sys.modules[name]


Make = Callable[[str, str], ModuleType]


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


def entry_point(group: str) -> Callable[[], None]:
    """What our pyproject.toml offers an engine."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    module, function = project["entry-points"][group]["otspec"].split(":")
    found: Callable[[], None] = getattr(importlib.import_module(module), function)
    return found


def test_vllm_verifies_by_ours_only_if_asked(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    module = make(vllm.MODULE, VLLM)
    sampler = module.RejectionSampler()
    load = entry_point("vllm.general_plugins")
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


CPU = """
def expand_batch_to_tokens(x, cu_num_tokens, num_tokens, replace_from=0, replace_to=0):
    return "vLLM's own"

def apply_sampling_constraints(logits, cu_num_draft_tokens, sampling_metadata):
    return "vLLM's own"
"""


def test_vllm_gets_the_settings_of_drafted_tokens_on_a_cpu(make: Make) -> None:
    """Its kernel drops them there, and no top-k of no token stops it."""
    module = make(vllm.MODULE, VLLM + CPU)
    vllm.put_in_place()
    ends = torch.tensor([2, 2, 5], dtype=torch.int32)
    heat, most = torch.tensor([0.5, 0.7, 0.0]), torch.tensor([3, 4, 5], dtype=torch.int32)
    found = module.expand_batch_to_tokens(heat, ends, 5, replace_from=0, replace_to=1)
    assert torch.equal(found, torch.tensor([0.5, 0.5, 1.0, 1.0, 1.0]))
    found = module.expand_batch_to_tokens(most, ends, 5)
    assert torch.equal(found, torch.tensor([3, 3, 5, 5, 5], dtype=torch.int32))
    assert found.dtype == torch.int32
    assert module.expand_batch_to_tokens(heat.to("meta"), ends, 5) == "vLLM's own"
    none = torch.empty(0, 7)
    assert module.apply_sampling_constraints(none, ends * 0, None) is none
    assert module.apply_sampling_constraints(torch.zeros(5, 7), ends, None) == "vLLM's own"


def test_vllm_whose_second_runner_may_run_is_told(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    make(vllm.MODULE, VLLM)
    monkeypatch.delenv("VLLM_USE_V2_MODEL_RUNNER")
    with pytest.warns(UserWarning, match="VLLM_USE_V2_MODEL_RUNNER=0 makes sure that the first runs"):
        vllm.put_in_place()


def test_a_function_that_is_called_differently_keeps_its_place(make: Make) -> None:
    module = make(vllm.MODULE, VLLM.replace("cu_num_draft_tokens", "draft_token_ends"))
    own = module.rejection_sample
    with pytest.raises(ProblemError, match="arguments in this version that otspec does not know, draft_token_ends: "):
        vllm.put_in_place()
    assert module.rejection_sample is own
    make(sglang.MODULE, SGLANG.replace("target_probs, draft_probs", "draft_probs, target_probs"))
    make(sglang.HOOKS, HOOKS)
    with pytest.raises(ProblemError, match="leave otspec out"):
        sglang.put_in_place()


def test_a_version_may_lack_arguments_that_have_defaults(make: Make) -> None:
    """As vLLM 0.32, which came before FLy."""
    fly = "\n    fly_window_size=None, fly_entropy_threshold=None, fly_entropy_top_k=3,"
    assert fly in VLLM
    module = make(vllm.MODULE, VLLM.replace(fly, ""))
    own = module.rejection_sample
    vllm.put_in_place()
    assert module.rejection_sample.__name__ == own.__name__
    assert inspect.signature(module.rejection_sample) == inspect.signature(own)
    assert module.rejection_sample(**one_request()).tolist() == [[1, 7]]
    with pytest.raises(TypeError, match="fly_window_size"):
        module.rejection_sample(**one_request(), fly_window_size=None)


def test_what_a_version_leaves_out_has_its_own_default() -> None:
    engine = ModuleType("engine")
    exec("def scaled(value, by=2, shift=0): return 'own'", engine.__dict__)

    def scaled(value: int, by: int = 1, shift: int = 0, more: int = 0) -> tuple[int, int, int, int]:
        return value, by, shift, more

    replacement(engine, "scaled", scaled, lambda *, shift, **_: shift == 0)
    assert engine.scaled(3) == (3, 2, 0, 0)
    assert engine.scaled(3, 4) == (3, 4, 0, 0)
    assert engine.scaled(3, shift=1) == "own"


def test_a_version_that_lacks_what_we_need_is_refused(make: Make) -> None:
    module = make(vllm.MODULE, "def rejection_sample(draft_token_ids, num_draft_tokens): return 1")
    with pytest.raises(ProblemError, match=r"has no max_spec_len, .*sampling_metadata in this version, which otspec's"):
        vllm.put_in_place()
    assert module.rejection_sample(1, 2) == 1


BARE = """
import sys
from otspec.engines.plugins import vllm
vllm()
import vllm.v1.sample.rejection_sampler as theirs
assert theirs.rejection_sample.__otspec__
kept_out = {"numba", "llvmlite", "scipy", "triton"}, {"torch._dynamo", "torch._inductor"}
found = [name for name in sys.modules if name.partition(".")[0] in kept_out[0]]
found += [name for name in sys.modules if ".".join(name.split(".")[:2]) in kept_out[1]]
assert not found, sorted(found)
"""
"""What vLLM's worker on a CPU does: when plug-ins are loaded it goes over all modules, and one of llvmlite stops it."""


def test_the_entry_point_loads_nothing_that_compiles(make: Make, tmp_path: Path) -> None:
    make(vllm.MODULE, VLLM)
    path = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[2])])
    environment = {**os.environ, "OTSPEC_VLLM": "1", "PYTHONPATH": path}
    ended = subprocess.run([sys.executable, "-c", BARE], env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_sglang_is_given_hooks_only_if_asked(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    make(sglang.MODULE, SGLANG + SGLANG_CHAINS)
    hooks = make(sglang.HOOKS, HOOKS)
    load = entry_point("sglang.srt.plugins")
    load()
    assert hooks.HookRegistry.hooks == []
    monkeypatch.setenv("OTSPEC_SGLANG", "1")
    load()
    assert hooks.HookRegistry.hooks == [(target(ours), ours, hooks.HookType.REPLACE) for ours in sglang.FUNCTIONS]


def target(ours: Callable[..., Any]) -> str:
    return f"sglang.kernels.ops.speculative.verify_sampling.{ours.__name__}"


@pytest.mark.parametrize(
    ("source", "ours"),
    [
        # Off CUDA one name holds None, and the hooks would replace every None that some module holds.
        (SGLANG_CHAINS + "tree_speculative_sampling_target_only = None", sglang.chain_speculative_sampling_triton),
        (SGLANG, sglang.tree_speculative_sampling_target_only),  # before 0.5.23
    ],
    ids=("chains", "trees"),
)
def test_sglang_with_one_of_its_functions_is_given_that(make: Make, source: str, ours: Callable[..., Any]) -> None:
    make(sglang.MODULE, source)
    hooks = make(sglang.HOOKS, HOOKS)
    sglang.put_in_place()
    assert hooks.HookRegistry.hooks == [(target(ours), ours, hooks.HookType.REPLACE)]


def test_sglang_without_its_functions_is_left_alone(make: Make) -> None:
    make(sglang.MODULE, "tree_speculative_sampling_target_only = chain_speculative_sampling_triton = None")
    hooks = make(sglang.HOOKS, HOOKS)
    with pytest.raises(ProblemError, match="neither tree_speculative_sampling_target_only nor chain_"):
        sglang.put_in_place()
    assert hooks.HookRegistry.hooks == []


def test_sglang_is_given_nothing_if_one_function_is_called_differently(make: Make) -> None:
    make(sglang.MODULE, SGLANG + SGLANG_CHAINS.replace("target_probs, draft_probs", "draft_probs, target_probs"))
    hooks = make(sglang.HOOKS, HOOKS)
    with pytest.raises(ProblemError, match="chain_speculative_sampling_triton takes predicts"):
        sglang.put_in_place()
    assert hooks.HookRegistry.hooks == []


def test_flashinfer_has_ours_under_both_its_names(make: Make) -> None:
    sampling = make("flashinfer.sampling", FLASHINFER)
    package = sys.modules["flashinfer"]
    package.chain_speculative_sampling = sampling.chain_speculative_sampling  # type: ignore[attr-defined]
    flashinfer.put_in_place()
    law = torch.tensor([[[0.5, 0.5]]])
    for module in (package, sampling):
        found = module.chain_speculative_sampling(law, torch.tensor([[1]]), torch.cat((law, law), dim=1))
        assert found[0][0, 0] == 1
        assert module.chain_speculative_sampling(law, law, law, seed=3, offset=0) == "flashinfer's own"


@pytest.mark.skipif(any(map(installed, ENGINES)), reason="an engine is installed")
def test_an_engine_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_USE_V2_MODEL_RUNNER", "0")
    for adapter in (vllm, sglang, flashinfer):
        engine = adapter.__name__.rpartition(".")[2]
        with pytest.raises(MissingExtra, match=f"{engine} is not installed.*pip install {engine}"):
            adapter.put_in_place()


def test_nothing_is_asked_for_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTSPEC_VLLM", raising=False)
    assert not asked("OTSPEC_VLLM")
    plugins.vllm()
    plugins.sglang()
