"""All kernels are compiled for a GPU as they are launched: the compiler needs none, and forbids what is interpreted."""

from pathlib import Path

import pytest

from tests.processes import printed

pytest.importorskip("transformers")
pytest.importorskip("triton")

COMPILE = """
from importlib import import_module
from pathlib import Path

import torch
import triton
from transformers import AutoModelForCausalLM, Qwen2Config, Qwen3Config
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile
from triton.runtime.jit import JITFunction

import otspec
from otspec.decode.base.law_kernels import draw, likeliest, softmax
from otspec.decode.models.passes.mask_kernels import mask_of
from otspec.decode.models.passes.signature import Conditioning, Inputs
from otspec.decode.models.passes.static import StaticReader
from otspec.engines.chains import ChainLaws, verify_chains_in_rows
from otspec.verification.device import verify_logits, verify_trees
from otspec.verification.trees.layout import branching_layout

POINTERS = {torch.float64: "*fp64", torch.float32: "*fp32", torch.float16: "*fp16"}
POINTERS |= {torch.bool: "*i1", torch.bfloat16: "*bf16", torch.int64: "*i64", torch.int32: "*i32", torch.int8: "*i8"}
compiled = {}


def launch(kernel, *given, grid, warmup, **named):
    "Compile it for what it is given first, in place of running it."
    given = dict(zip(kernel.arg_names, given)) | named
    always = {one.name for one in kernel.params if one.is_constexpr}
    types, fixed = {}, {}
    for name in kernel.arg_names:
        value = given.pop(name)
        if isinstance(value, torch.Tensor):
            types[name] = POINTERS[value.dtype]
        elif name in always or not isinstance(value, int) or value == 1:  # 1 is a number of its own to the compiler
            types[name], fixed[name] = "constexpr", value
        else:
            types[name] = "i32"
    if kernel.__name__ not in compiled:
        source = ASTSource(kernel, types, fixed)
        compiled[kernel.__name__] = compile(source, target=GPUTarget("cuda", 90, 32), options=given)


for path in Path(otspec.__file__).parent.rglob("*_kernels.py"):
    import_module(".".join(("otspec", *path.relative_to(Path(otspec.__file__).parent).with_suffix("").parts)))
triton.knobs.runtime.interpret = True  # so that the package takes the host for a device that kernels run on
JITFunction.run = launch
torch.set_grad_enabled(False)
torch.empty = torch.zeros  # nothing is computed, and all places have to be some

vocab = 128_256
for branching, rules in (((4, 2, 1, 1), ("nested", "block", "interval")), ((4, 1, 1, 1), ("nested",))):
    layout = branching_layout(branching, 2, torch.device("cpu"))
    slots, inner = layout.parent.shape[1], int((layout.children[0] > 0).sum())
    tokens = torch.zeros((2, slots), dtype=torch.int64)
    laws = torch.zeros((2, slots, vocab), dtype=torch.bfloat16)
    uniforms = torch.zeros((2, slots + 4, 3), dtype=torch.float64)
    for rule in rules:
        verify_trees(laws, laws[:, :inner], tokens, branching, uniforms, rule=rule, kernels=True)
rows, drafts, uniforms = laws[0, :2], tokens[:, :4], uniforms[:, :5]
verify_logits(rows, rows, drafts, uniforms, temperature=0.7, by="triton")
places = torch.zeros((2, 9), dtype=torch.int64)
chains = ChainLaws(rows, places, None, places[:, :8], logits=True)
verify_chains_in_rows(chains, places[:, :8], places[:, 0], torch.zeros((2, 9), dtype=torch.float64), kernels=True)
draw(softmax(rows), uniforms[:, :4, 0])
likeliest(softmax(rows), 3)
mask_of(places[0], places[0, :1], torch.ones((1, 5, 9), dtype=torch.bool), 5, 9, 256, torch.bfloat16)
shifts, where = torch.zeros((2, 1, 1, 1536), dtype=torch.float16), torch.arange(8)[None]
for config, told in ((Qwen2Config, Conditioning(shifts=shifts)), (Qwen3Config, Conditioning())):
    model = AutoModelForCausalLM.from_config(config(
        vocab_size=64, hidden_size=576, intermediate_size=1536, num_hidden_layers=2, num_attention_heads=9,
        num_key_value_heads=3, head_dim=64, attn_implementation="sdpa",
    ))
    StaticReader(model.eval().half(), (1, 2)).read(Inputs(where, where, None, 0, 8, told))
assert len(compiled) == 41, list(compiled)
"""


def test_the_kernels_compile_for_a_gpu(tmp_path: Path) -> None:
    printed(COMPILE, TRITON_CACHE_DIR=str(tmp_path), TRITON_INTERPRET="")
