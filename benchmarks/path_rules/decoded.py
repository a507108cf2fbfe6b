"""Which rule accepts most of the same drafted trees of language models, exactly given each tree.

Block efficiencies of `otspec bench decode` come from texts that diverge, so they carry the noise of sampling.  Here
the prompts are continued once for every K, and each rule says how many tokens of every tree on the way it accepts in
the mean.  The trees are those that `nested` decoding meets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from benchmarks.comparing import ratio
from benchmarks.path_rules.lengths import accepted
from benchmarks.questions import Out, Question, answer
from benchmarks.reporting import Record
from benchmarks.tables import pivot, with_error
from otspec.laws import FloatArray
from otspec.paths import Nested, PathVerification, Tree
from otspec.reporting.columns import NOTHING
from otspec.reporting.console import numbers, progress_as_ours
from otspec.reporting.tables import TextTable
from otspec.verification.rules.catalogue import CHAIN, rule
from otspec.verification.trees.shape import Shape

if TYPE_CHECKING:
    from otspec.decode.pair.loading import Models

RULES = "block,nested,pick_then_block,greedy_multi_path,traversal,interval,kseq,rrs,naive,global_resolution/naive"
REFERENCE = "interval"


def decoded(
    target: Annotated[str, typer.Option(help="As for `otspec bench decode`.")] = "shipped",
    draft: Annotated[str, typer.Option(help="Likewise.")] = "shipped",
    prompts: Annotated[int, typer.Option(min=1, help="How many held-out texts of the shipped pair.")] = 20,
    paths: Annotated[str, typer.Option(help="K, a list.")] = "2,3,4",
    depth: Annotated[int, typer.Option(min=1, help="L.")] = 8,
    rules: Annotated[str, typer.Option(help="A list as for `otspec bench decode`.")] = RULES,
    temperature: Annotated[float, typer.Option(help="Of both models.")] = 1.0,
    top_k: Annotated[int | None, typer.Option(help="Of both models.")] = None,
    new: Annotated[int, typer.Option(min=1, help="New tokens of every text.")] = 64,
    out: Out = None,
) -> None:
    """Every rule on the drafted trees of language models, exactly given each tree."""
    from otspec.decode.pair.loading import load_models
    from otspec.decode.shipped import held_out

    progress_as_ours()
    models = load_models(target, draft, "cpu")
    settings = {"temperature": temperature, "top_k": top_k, "max_new_tokens": new}
    texts, counts = held_out()[:prompts], numbers("--paths", paths)
    measured = (one for count in counts for one in measure(models, texts, count, depth, rules.split(","), **settings))
    answer(DECODED, measured, out)


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
    from otspec.decode import MultiDraft, run
    from otspec.decode.pair.loading import batch_of

    assert models.draft is not None
    recording = Recording()
    inputs: dict[str, Any] = batch_of([tokens], models.target.device)
    run(
        models.target,
        MultiDraft(models.draft, paths=paths, depth=depth, solver=recording),
        seed=seed,
        **inputs,
        **settings,
    )
    return [tree for tree in recording.trees if tree.length == depth]


def measure(
    models: Models, prompts: Sequence[Sequence[int]], paths: int, depth: int, rules: Sequence[str], **settings: Any
) -> Iterator[Record]:
    """A record for every rule: mean tokens per target call, the gain over `REFERENCE`, and errors across prompts."""
    from otspec.decode.base.draft_laws import draft_law
    from otspec.decode.verify.verifiers import verifier

    shape, law = Shape.paths(paths, depth), draft_law("iid")
    verifiers = {name: verifier(rule(name, CHAIN), shape, law) for name in rules}
    lengths: dict[str, list[list[float]]] = {name: [] for name in rules}
    for seed, tokens in enumerate(prompts):
        trees = trees_of(models, tokens, paths, depth, seed, **settings)
        for name, one in verifiers.items():
            lengths[name].append([1.0 + accepted(one, tree) for tree in trees])
    steps = np.array([len(mine) for mine in lengths[rules[0]]])
    sums = {name: np.array([sum(each) for each in mine]) for name, mine in lengths.items()}
    place = {"paths": paths, "depth": depth, "prompts": len(prompts), "trees": int(steps.sum())} | settings
    for name, mine in sums.items():
        gains = mine - sums[REFERENCE] if REFERENCE in sums else mine * np.nan
        yield (
            {"rule": name}
            | place
            | dict(zip(("tokens", "error"), ratio(mine, steps), strict=True))
            | dict(zip(("gain", "gain_error"), ratio(gains, steps), strict=True))
        )


def tables(records: Sequence[Record]) -> list[TextTable]:
    """Rules by K, for every length of the paths and all settings of the texts."""
    cells = dict.fromkeys((one["depth"], one["temperature"], one["top_k"]) for one in records)
    return [
        each
        for cell in cells
        for each in _tables(cell, [r for r in records if (r["depth"], r["temperature"], r["top_k"]) == cell])
    ]


def _tables(cell: tuple[int, float, int | None], records: Sequence[Record]) -> list[TextTable]:
    depth, temperature, top_k = cell
    cut = f", top-k {top_k}" if top_k else ""
    title = f"on the same trees: L = {depth}, temperature {temperature:g}{cut}"
    note = (
        "Mean tokens per target call, exact given each tree and the same trees for all rules of a column, ± standard "
        "error across prompts; that of a gain is of the differences."
    )
    rules = {"rule": lambda r: str(r["rule"])}
    tokens = pivot(f"Tokens per target call {title}", records, rules, _paths, _tokens, note)
    return [tokens, pivot(f"Gain over {REFERENCE} {title}", records, rules, _paths, _gain, note)]


def _paths(record: Record) -> str:
    return f"K = {record['paths']}"


def _tokens(record: Record) -> str:
    return with_error(record["tokens"], record["error"], ".3f")


def _gain(record: Record) -> str:
    return NOTHING if record["rule"] == REFERENCE else with_error(record["gain"], record["gain_error"], ".3f", sign="+")


DECODED = Question("decoded", [decoded], ("rule", "paths", "depth", "temperature", "top_k", "max_new_tokens"), tables)
