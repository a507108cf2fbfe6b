"""What is trained and measured, and how much of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from benchmarks.shipped_pair.recipe import DRAFT, Shape

PRETRAINED = "pretrained"
"""What learns nothing more."""
TARGET = "target"
"""Where what is made of the target begins."""
PLAIN: Mapping[str, Shape] = {"plain": DRAFT, "deep": Shape(width=128, layers=4, heads=4, inner=352)}
"""Draft models that have only seen text, of the shipped draft model's shape and of one with as many weights in four
layers: in one layer no keys or values are behind what steers."""


class Learner(NamedTuple):
    """A draft model, and how it learns."""

    start: str
    """`shipped`, a name of `PLAIN`, or `TARGET`."""
    kind: str
    """A name of `otspec.decode.training.KINDS`, or `PRETRAINED`."""
    loss: str | None = None
    """Where it is not that of the kind."""

    @property
    def name(self) -> str:
        """Of its folder, less the seed."""
        return "-".join([self.start, self.kind, *([self.loss] if self.loss else [])])

    @property
    def learns(self) -> bool:
        """Whether anything is left to learn."""
        return self.kind != PRETRAINED

    def folder(self, out: Path, seed: int) -> Path:
        """Where it is, or its beginning is, of a run."""
        return out / (self.name if self.start in PLAIN and not self.learns else f"{self.name}-{seed}")


class Way(NamedTuple):
    """One way to decode with a drafter."""

    rule: str
    paths: int
    depth: int
    temperature: float


WAYS = (Way("block", 1, 8, 1.0), Way("block", 1, 8, 0.0), Way("nested", 4, 8, 1.0))
"""The first two are those of the paper."""
FREE = ("prompt-lookup", "lookahead")
"""Methods without a draft model that are decoded with beside these, as far as they are installed."""


@dataclass(frozen=True)
class Plan:
    """How much."""

    learners: tuple[Learner, ...]
    ablations: tuple[Learner, ...] = ()
    """Learnt and decoded with as the others, by the first two ways, and reported in a table of their own."""
    seeds: int = 3
    texts: int = 10_112
    """That the target writes to learn from."""
    at_once: int = 2048
    """As many as a GPU writes together; with another number they are other texts."""
    length: int = 256
    held_out: int = 128
    """More of them, which the curves are measured on."""
    steps: int = 1000
    batch: int = 32
    rate: float = 2e-3
    every: int = 250
    pretraining: int = 2000
    """Steps of a plain draft model on text."""
    prompts: int = 64
    prompt: int = 64
    new: int = 128
    """Tokens of each prompt, and new ones."""
    windows: tuple[int, ...] = (32, 32, 32, 32)
    """New tokens of the parts in which acceptance by position is measured, one after the other."""

    def jobs(self) -> list[tuple[Learner, int]]:
        """Every learner with every seed; all with the first seed come first, as a run may be cut short."""
        every = (*self.learners, *self.ablations)
        return [(learner, seed) for seed in range(self.seeds) for learner in every]


FIRST = (Learner("shipped", PRETRAINED), Learner("shipped", "distilled", "tvd"), Learner("shipped", "sd2", "tvd"))
LEARNERS = (
    *FIRST,
    Learner("shipped", "eagle", "tvd"),
    *(Learner("plain", kind) for kind in (PRETRAINED, "distilled", "sd2", "eagle")),
    *(Learner("deep", kind) for kind in (PRETRAINED, "distilled", "sd2", "eagle")),
    *(Learner(TARGET, kind) for kind in ("eagle1", "mlp", "medusa")),
)
ABLATIONS = (
    *(Learner("plain", kind) for kind in ("sd2-frozen", "sd2-blocked", "sd2-after")),
    Learner("plain", "sd2", "tvd"),
)
"""Of [berdozsteering, A.4], and its other loss."""
WHOLE = Plan(LEARNERS, ABLATIONS)
TINY = replace(
    WHOLE,
    learners=(*FIRST, Learner("plain", PRETRAINED), Learner("plain", "eagle"), Learner(TARGET, "medusa")),
    ablations=ABLATIONS[:1],
    seeds=2,
    texts=8,
    at_once=12,
    length=24,
    held_out=4,
    steps=2,
    batch=2,
    every=2,
    pretraining=2,
    prompts=2,
    prompt=8,
    new=12,
    windows=(4, 4),
)
"""All of it at a size for a trial."""
