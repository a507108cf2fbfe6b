"""Which rule accepts most of the same drafted trees of language models, exactly given each tree.

    python -m benchmarks.decode_rules [--target shipped --draft shipped] [--prompts 20] [--temperature 1] [--top-k 100]

Block efficiencies of `otspec bench decode` come from texts that diverge, so they carry the noise of sampling.  Here
the prompts are continued once for every K, and each rule says how many tokens of every tree on the way it accepts in
the mean.  The trees are those that `nested` decoding meets.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.paths import accepted
from benchmarks.reporting import Record, finish
from otspec.decode import MultiDraft, run
from otspec.decode.base.draft_laws import draft_law
from otspec.decode.pair.loading import Models, batch_of, load_models
from otspec.decode.shipped import held_out
from otspec.decode.verify.verifiers import verifier
from otspec.laws import FloatArray
from otspec.paths import Nested, PathVerification, Tree
from otspec.reporting.console import progress_as_ours
from otspec.reporting.tables import TextTable
from otspec.verification.rules.catalogue import CHAIN, rule
from otspec.verification.trees.shape import Shape

RULES = "block,nested,pick_then_block,greedy_multi_path,traversal,interval,kseq,rrs,naive,global_resolution/naive"
REFERENCE = "interval"


@dataclass(frozen=True)
class Recording:
    """`nested`, which remembers the trees that it verified."""

    trees: list[Tree] = field(default_factory=list)
    rule: Nested = field(default_factory=Nested)
    exchangeable: bool = True

    def verify(self, tree: Tree, rng: np.random.Generator) -> PathVerification:
        """Remember, and verify."""
        self.trees.append(tree)
        return self.rule.verify(tree, rng)

    def stop_law(self, tree: Tree) -> FloatArray:
        """That of `nested`."""
        return self.rule.stop_law(tree)


def trees_of(models: Models, tokens: Sequence[int], paths: int, depth: int, seed: int, **settings: Any) -> list[Tree]:
    """The full-depth trees on the way of one text."""
    assert models.draft is not None
    recording = Recording()
    run(
        models.target,
        MultiDraft(models.draft, paths=paths, depth=depth, solver=recording),
        seed=seed,
        **_inputs(models, tokens),
        **settings,
    )
    return [tree for tree in recording.trees if tree.length == depth]


def measure(
    models: Models, prompts: Sequence[Sequence[int]], paths: int, depth: int, rules: Sequence[str], **settings: Any
) -> list[Record]:
    """A record for every rule: mean tokens per target call, the gain over `REFERENCE`, and errors across prompts."""
    shape, law = Shape.paths(paths, depth), draft_law("iid")
    verifiers = {name: verifier(rule(name, CHAIN), shape, law) for name in rules}
    lengths: dict[str, list[list[float]]] = {name: [] for name in rules}
    for seed, tokens in enumerate(prompts):
        trees = trees_of(models, tokens, paths, depth, seed, **settings)
        for name, one in verifiers.items():
            lengths[name].append([1.0 + accepted(one, tree) for tree in trees])
    steps = np.array([len(mine) for mine in lengths[rules[0]]])
    records = []
    for name in rules:
        sums = np.array([sum(mine) for mine in lengths[name]])
        gains = sums - np.array([sum(mine) for mine in lengths[REFERENCE]]) if REFERENCE in lengths else sums * np.nan
        records.append(
            {"rule": name, "paths": paths, "depth": depth, "prompts": len(prompts), "trees": int(steps.sum())}
            | dict(zip(("tokens", "error"), ratio(sums, steps), strict=True))
            | dict(zip(("gain", "gain_error"), ratio(gains, steps), strict=True))
        )
    return records


def _inputs(models: Models, tokens: Sequence[int]) -> dict[str, Any]:
    return batch_of([tokens], models.target.device)


def ratio(sums: FloatArray, steps: Any) -> tuple[float, float]:
    """Ratio of sums, and its standard error across prompts to first order."""
    ratio = sums.sum() / steps.sum()
    if steps.size < 2:
        return float(ratio), float("nan")
    return float(ratio), float((sums - ratio * steps).std(ddof=1) / steps.mean() / np.sqrt(steps.size))


def table(records: Sequence[Record], title: str) -> TextTable:
    """Rules by K."""
    counts = list(dict.fromkeys(one["paths"] for one in records))
    cells = {(one["rule"], one["paths"]): one for one in records}
    rows: list[tuple[str, ...]] = []
    for name in dict.fromkeys(one["rule"] for one in records):
        mine = [cells[name, count] for count in counts]
        rows.append(
            (
                name,
                *(f"{one['tokens']:.3f} ± {one['error']:.3f}" for one in mine),
                *("-" if name == REFERENCE else f"{one['gain']:+.3f} ± {one['gain_error']:.3f}" for one in mine),
            )
        )
    header = ("rule", *(f"K = {count}" for count in counts), *(f"over {REFERENCE}, K = {count}" for count in counts))
    note = (
        "Mean tokens per target call, exact given each tree and the same trees for all rules of a column, ± standard "
        "error across prompts; that of a gain is of the differences."
    )
    return TextTable(title, header, rows, note, labels=1)


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="shipped")
    parser.add_argument("--draft", default="shipped")
    parser.add_argument("--prompts", type=int, default=20, help="how many held-out texts of the shipped pair")
    parser.add_argument("--paths", default="2,3,4", help="K, a list")
    parser.add_argument("--depth", type=int, default=8, help="L")
    parser.add_argument("--rules", default=RULES, help="as for otspec bench decode")
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--top-k", type=int)
    parser.add_argument("--new", type=int, default=64, help="new tokens of every text")
    parser.add_argument("--out", type=Path, default=Path("report_rules"), help="folder for the results")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    progress_as_ours()
    models = load_models(given.target, given.draft, "cpu")
    settings = {"temperature": given.temperature, "top_k": given.top_k, "max_new_tokens": given.new}
    prompts, rules = held_out()[: given.prompts], given.rules.split(",")
    records = [
        record
        for paths in map(int, given.paths.split(","))
        for record in measure(models, prompts, paths, given.depth, rules, **settings)
    ]
    cut = f", top-k {given.top_k}" if given.top_k else ""
    title = f"Tokens per target call on the same trees: L = {given.depth}, temperature {given.temperature:g}{cut}"
    finish(given.out, [record | settings for record in records], [table(records, title)], [])


if __name__ == "__main__":
    main()
