"""The plug-in for vLLM, tried on a module of a few lines that has vLLM's signature."""

import importlib
import inspect
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("torch")

import torch

from otspec import ProblemError
from otspec.engines import vllm
from otspec.engines.vllm import plug_in
from tests.each import each
from tests.engines.vllm_requests import Batch, Metadata
from tests.processes import printed

ROOT = Path(__file__).parents[2]
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
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
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


BARE = f"""
import sys, types
from otspec.engines import vllm
theirs = types.ModuleType(vllm.MODULE)
exec({VLLM!r}, theirs.__dict__)
vllm.require = {{vllm.MODULE: theirs}}.get
vllm.plug_in()
assert theirs.rejection_sample.__otspec__
kept_out = {{"numba", "llvmlite", "scipy", "triton"}}, {{"torch._dynamo", "torch._inductor"}}
found = [name for name in sys.modules if name.partition(".")[0] in kept_out[0]]
found += [name for name in sys.modules if ".".join(name.split(".")[:2]) in kept_out[1]]
assert not found, sorted(found)
"""
"""What vLLM's worker on a CPU does: when plug-ins are loaded it goes over all modules, and one of llvmlite stops it."""


def test_the_entry_point_loads_nothing_that_compiles() -> None:
    printed(BARE, OTSPEC_VLLM="1")
