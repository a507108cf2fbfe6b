"""What the host has to do in a decoding step at a real vocabulary, with drafts truncated to top-k and a whole target.

    python -m benchmarks.decode_host [--vocab 128256] [--top-k 10,100] [--rules nested,interval,...] [--device cuda]

*Merged* is what decoding does: at each node the tokens that cannot be drafted are one to the verifier.  *Whole* is the
same step with all laws on the host.  Both see the same trees.  The copy to the host itself is not in it: on a CPU there
is none, and *merging* is the work of the device before it.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from benchmarks.measuring import seconds
from benchmarks.random_pair import CORRELATION, SCALE
from benchmarks.reporting import Record, finish
from otspec.decode.base.draft_laws import draft_law
from otspec.decode.base.drafts import Drafts
from otspec.decode.verify.laws import Merged, Rows, local_trees, merged_to_host
from otspec.decode.verify.verifiers import verifier, verify
from otspec.errors import ProblemError
from otspec.paths import PathVerifier
from otspec.reporting.machine import processor
from otspec.reporting.tables import TextTable
from otspec.verification.rules.catalogue import CHAIN, Rule, rule
from otspec.verification.trees.shape import Shape
from otspec.verification.trees.topology import Topology


class Step(NamedTuple):
    """A drafted tree, and its laws on the device."""

    drafts: Drafts
    target: torch.Tensor
    """Shape (nodes, V)."""


def drafted(shape: Shape, vocab: int, k: int, seed: int, device: torch.device) -> Step:
    """A tree of random laws, a function of the prefix; the draft laws are cut to the k likeliest tokens."""
    known: dict[tuple[int, ...], tuple[torch.Tensor, torch.Tensor]] = {}
    generator = torch.Generator(device)
    generator.manual_seed(seed)

    def laws(prefix: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor]:
        if prefix not in known:
            target, noise = SCALE * torch.randn(2, vocab, generator=generator, device=device)
            draft = CORRELATION * target + (1 - CORRELATION**2) ** 0.5 * noise
            kept = draft.topk(k)
            draft = torch.full_like(draft, -torch.inf).scatter(-1, kept.indices, kept.values)
            known[prefix] = target.double().softmax(dim=-1), draft.double().softmax(dim=-1)
        return known[prefix]

    law = draft_law("iid")
    slots: list[tuple[int, ...]] = [()]
    for level, children in enumerate(shape.branching):
        for above in slots[shape.offsets[level] :]:
            tokens = law.draw(laws(above)[1], children, generator).tolist()
            slots += [(*above, token) for token in tokens]
    tree = Topology.merge(shape, np.array([slot[-1] for slot in slots[1:]]))
    nodes = [laws(slots[slot]) for slot in tree.slot]
    draft = torch.stack([law for _, law in nodes[: tree.inner]])
    return Step(Drafts([tree], draft, k), torch.stack([law for law, _ in nodes]))


def measure(
    shape: Shape, vocab: int, ks: list[int], rules: list[str], steps: int, device: torch.device
) -> list[Record]:
    """A record for every truncation and rule: means over steps, each the best of a few runs."""
    made: dict[str, PathVerifier] = {name: verifier(_rule(name), shape, draft_law("iid")) for name in rules}
    records: list[Record] = []
    for k in ks:
        spent: dict[str, list[tuple[float, float, float]]] = {name: [] for name in rules}
        for seed in range(steps):
            step, generator = drafted(shape, vocab, k, seed, device), torch.Generator(device)
            merged = merged_to_host(step.target, step.drafts, generator)
            if not isinstance(merged, Merged):
                raise ProblemError(f"of {vocab} tokens drafts of top-k {k} are not few; pass a smaller --top-k")
            whole = Rows(None, torch.cat((step.target, step.drafts.laws)).cpu().numpy())

            def merging(step: Step = step, generator: torch.Generator = generator) -> None:
                merged_to_host(step.target, step.drafts, generator)

            device_s = seconds(merging)
            for name, one in made.items():
                spent[name].append((device_s, _host_seconds(step, merged, one), _host_seconds(step, whole, one)))
        for name in rules:
            device_s, merged_s, whole_s = np.mean(spent[name], axis=0)
            records.append(
                {"vocab": vocab, "top_k": k, "branching": shape.branching, "rule": name, "steps": steps}
                | {"merging_s": device_s, "merged_s": merged_s, "whole_s": whole_s}
            )
    return records


def _rule(name: str) -> Rule:
    return rule(name, CHAIN)


def _host_seconds(step: Step, laws: Merged | Rows, one: PathVerifier) -> float:
    def host() -> None:
        rng = np.random.default_rng(0)
        for tree, local in zip(step.drafts.trees, local_trees(step.drafts, laws), strict=True):
            verify(one, tree, local, rng)

    host()  # compiled before it is timed
    return seconds(host, 5)


def table(records: list[Record], title: str) -> TextTable:
    """Milliseconds."""
    header = ("draft top-k", "rule", "merging (device)", "host, merged", "host, whole", "whole / merged")
    rows = [
        (
            str(one["top_k"]),
            str(one["rule"]),
            *(f"{1e3 * one[part]:.2f}" for part in ("merging_s", "merged_s", "whole_s")),
            f"{one['whole_s'] / one['merged_s']:.0f}",
        )
        for one in records
    ]
    note = "Milliseconds of a step of one text: the best of five runs, a mean over steps."
    return TextTable(title, header, rows, note, labels=2)


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocab", type=int, default=128_256)
    parser.add_argument("--top-k", default="10,100", help="of the drafts, a list")
    parser.add_argument(
        "--rules", default="nested,interval,traversal,block,kseq,rrs", help="as for otspec bench decode"
    )
    parser.add_argument("--paths", type=int, default=4)
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=Path("report_host"), help="folder for the results")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    device = torch.device(given.device)
    shape, ks = Shape.paths(given.paths, given.depth), [int(k) for k in given.top_k.split(",")]
    try:
        records = measure(shape, given.vocab, ks, given.rules.split(","), given.steps, device)
    except ProblemError as error:
        raise SystemExit(f"error: {error}") from error
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "no GPU"
    title = f"The host's part of a step: V = {given.vocab}, K = {given.paths}, L = {given.depth}; {processor()}, {name}"
    finish(given.out, records, [table(records, title)], [])


if __name__ == "__main__":
    main()
