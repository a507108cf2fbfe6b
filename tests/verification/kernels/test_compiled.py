"""All kernels are compiled for a GPU: the compiler needs none, and forbids what its interpreter lets pass."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

COMPILE = """
import torch
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile
from otspec.decode.base import law_kernels
from otspec.decode.models.passes import few_rows_kernels
from otspec.verification.rules.block import line_kernels, path_kernels
from otspec.verification.rules.buckets import cut, exchange_kernels, solving_kernels
from otspec.verification.rules.nested import growing_kernels, picking_kernels as tournament
from otspec.verification.rules.token_wise import picking_kernels, walk_kernels
from otspec.verification.tensors import row_kernels
from otspec.verification.tensors.rows import BLOCK, EXACT
from otspec.verification.trees import group_kernels, validity_kernels
from otspec.verification.trees.layout import branching_layout

reads = 2 * [*["*bf16", "*fp64", "*i64", "*fp64", "*fp64"], "*i8"]
laws = 2 * [*["*bf16", "*fp64", "*fp64", "*fp64", "*fp64"], "*i8"]
bucketed = {**cut.of_buckets(4), "LOGITS": False, "LEAVES": True, "APART": False, "BLOCK": BLOCK}
planes = ["*i64", "i32", "*i64"]
slots = {**bucketed, "LANES": 64, "LENGTH": 8}
groups = {**group_kernels.of_groups(128_256), "BLOCK": BLOCK}
paths = [*reads, "*fp64", *5 * ["*i64"], "*fp64"]
count = groups["GROUPS"]
gpu = torch.device("cuda")
laid = growing_kernels.of_layout(count, 4, gpu) | {"LOOK": True}
refined = growing_kernels.of_level(count, 4, gpu) | growing_kernels.of_points(4 * count)
refined |= {"FIRST": False, "LAST": False, "BITS": 3, "LOOKED": True, "LOOK": True, "DEEP": 2}
several = tournament.of_tournament(branching_layout((4, 2, 1, 1), 1, torch.device("cpu")), 29)
at_root = tournament.of_tournament(branching_layout((4, 1, 1, 1), 1, torch.device("cpu")), 17) | {"lowest": 1}
line = 6 * ["*i64"]
level = [*5 * ["*i64"], "*fp64", "*fp64", "*i64", "*i64", "*i32", *4 * ["*i64"]]
level += ["*fp64", "*fp64", "*i64", "*fp64", *5 * ["i32"]]
path = {**groups, "LOGITS": False, "POINT": False, "FACTOR": True, "LEVELS": 8, "LANES": 128, "ROWS": 16, "COLUMNS": 8}
warps = cut.WARPS
few = {"EPSILON": 1e-5, "PROGRAMS": 36, "LANES": 64, "ROWS": 16, "OUT": 16, "IN": 64, "INPUTS": 576, "OUTPUTS": 576}
few |= {"BIASED": True, "SHIFTED": True, "COUNT": 8, "HEADS": 9, "KEY_HEADS": 3, "SIZE": 64, "NORMED": True}
few |= {"NEW": 16, "QUERIES": 32, "BLOCK": 64}
softmax = {"VOCAB": 49_152, "BLOCKS": 48, "LANES": 64, "BLOCK": law_kernels.BLOCK}
for kernel, types, fixed, warps in (
    (
        solving_kernels.add_to_buckets,
        [*reads, *3 * ["*i64"], "i32", "*i64", "*i64", "i32", "i32"],
        bucketed | {"LOGITS": True},
        4,
    ),
    (solving_kernels.clear, [*planes, "*i64"], bucketed, 4),
    (solving_kernels.add_up, [*planes, "*i64"], bucketed, 4),
    (solving_kernels.find_heights, ["*i64", *planes, "*i64", "*fp64", "*i64"], bucketed, warps["find_heights"]),
    (solving_kernels.find_excess, ["*i64", *planes, "*fp64", "*i64", "*fp64", "*i64", "*i64"], bucketed, 4),
    (solving_kernels.find_offers, [*planes, "*i64", "*i64"], bucketed, 4),
    (solving_kernels.allocate, [*planes, "*fp64", "*i64", "*i64", "*fp64"], bucketed, 4),
    (exchange_kernels.contribute, [*planes, "*fp64", "*i64"], bucketed, 4),
    (validity_kernels.find_valid, [*laws, "*i8", *6 * ["*i64"], "*i8", *3 * ["*i64"], *4 * ["i32"]], slots, 4),
    (picking_kernels.find_heads, [*10 * ["*i64"], "i32"], slots, 4),
    (picking_kernels.queue, [*laws, "*i8", *7 * ["*i64"], "*fp64", *6 * ["*i64"], *7 * ["i32"]], slots, 4),
    (
        picking_kernels.pick,
        [*laws, *4 * ["*i64"], "*fp64", *3 * ["*i64"], "i32", "*i64", "*fp64", "*i64", "*fp64", *4 * ["i32"]],
        slots,
        4,
    ),
    (walk_kernels.walk, ["*i8", *8 * ["*i64"], *3 * ["i32"]], slots, 1),
    (walk_kernels.sum_left, [*laws, "*fp64", "*i8", *7 * ["*i64"], "i32", "i32"], slots, 4),
    (
        walk_kernels.draw_left,
        [*laws, "*fp64", "*i8", *8 * ["*i64"], "*fp64", "*i64", *4 * ["i32"]],
        slots | {"LANES": 128},
        4,
    ),
    (row_kernels.sum_law, ["*bf16", "*fp64", "i32"], {"BLOCK": BLOCK}, 4),
    (row_kernels.finish_totals, ["*fp64", "*fp64", "*i8", "i32"], {"DRIFT": 1e-3, "LANES": 128}, 4),
    (
        group_kernels.add_to_groups,
        ["*bf16", "*fp32", *6 * ["*i64"], *3 * ["i32"]],
        groups | {"BLOCK": 32, "TILES": group_kernels.MOST_TILES, "TOGETHER": True},
        1,
    ),
    (
        group_kernels.finish_groups,
        [*6 * ["*i64"], "*fp64", "*i8", "*fp64", "*i8", "i32", "i32"],
        groups | {"P_DRIFT": 1e-2, "Q_DRIFT": 1e-3, "LANES": 128},
        4,
    ),
    (
        group_kernels.look_up_groups,
        [*reads, *4 * ["*i64"], "*fp64", "*fp64", "*i64", *3 * ["i32"]],
        groups | {"BLOCK": 64},
        4,
    ),
    (path_kernels.weigh, [*paths, "i32"], path, 4),
    (path_kernels.sum_rest_along, [*paths, "*i64", "*i64", "i32"], path, 4),
    (path_kernels.finish, [*paths, "*i64", "*i64", "*fp64", "*i64", "*i64", *5 * ["i32"]], path, 4),
    (line_kernels.lay_first, [*6 * ["*i64"], *line, "i32"], {"LENGTH": 8, "LEVELS": 16, "LANES": 64}, 4),
    (line_kernels.put_out, [*4 * ["*i64"], "*i8", *4 * ["*i64"]], {"LENGTH": 8, "LANES": 8}, 4),
    (
        growing_kernels.lay_out,
        ["*i64", "*i64", "i32", "*i64", "*i64", "*i32", "*i64", "*i64", "*fp64", "*i64", "*fp64"],
        laid,
        growing_kernels.LAY_WARPS,
    ),
    (growing_kernels.refine, level, refined, growing_kernels.WARPS),
    (law_kernels.sum_block, ["*bf16", "*fp64", "*fp64"], softmax, 4),
    (law_kernels.divide_block, ["*bf16", *3 * ["*fp64"]], softmax, 4),
    (few_rows_kernels.begin, [*3 * ["*bf16"], "*fp32", "i32"], few, 4),
    (few_rows_kernels.project, ["*bf16", "*fp32", *6 * ["*bf16"], "i32", "i32", "*bf16", "i32"], few, 4),
    (few_rows_kernels.project_back, [*6 * ["*bf16"], "*fp32", "i32"], few, 2),
    (few_rows_kernels.gate_up, ["*bf16", "*fp32", *4 * ["*bf16"], "i32"], few, 4),
    (few_rows_kernels.attend, [*7 * ["*bf16"], "i32", "i32", "*i64", "*bf16", "i32", "i32", "*bf16"], few, 4),
    *(
        (tournament.pick_path, [*4 * ["*i64"], "*fp64", *6 * ["*i64"], *line, *4 * ["i32"], *more], fixed, 1)
        for fixed, more in ((several, ["i32"]), (at_root, []))
    ),
):
    rest = iter(types)
    fixed = {name: value for name, value in fixed.items() if name in kernel.arg_names}
    signature = {name: "constexpr" if name in fixed else next(rest) for name in kernel.arg_names}
    assert next(rest, None) is None
    options = EXACT | {"num_warps": warps}
    compile(ASTSource(kernel, signature, fixed), target=GPUTarget("cuda", 90, 32), options=options)
"""


def test_the_kernels_compile_for_a_gpu(tmp_path: Path) -> None:
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path)}
    environment.pop("TRITON_INTERPRET", None)
    ran = subprocess.run([sys.executable, "-c", COMPILE], env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
