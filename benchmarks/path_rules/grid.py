"""What the questions range over: rules by name, and laws of models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, NamedTuple

import numpy as np
import typer

from benchmarks.questions import among
from benchmarks.reporting import Record
from otspec.data import PROFILES, ProfileSource
from otspec.paths import (
    REGIMES,
    Block,
    GreedyMultiPath,
    LayerVerification,
    Models,
    Nested,
    PathVerifier,
    TokenWise,
    Traversal,
    Tree,
    scattered,
    synthetic,
)
from otspec.verification.evaluation.walking import Line, target_line

TOKEN_WISE, NESTED = "token-wise interval", "nested"
"""What others are compared with: one token at a time, and ours."""
TOP_K = 1000
"""Draft tokens kept where laws are of a profile."""

Rules = Annotated[list[str] | None, typer.Option("--rule", help="A rule by its name in the table; can be repeated.")]
Laws = Annotated[str, typer.Option(help=f"A list of {', '.join([*REGIMES, *PROFILES])}.")]
Vocab = Annotated[int, typer.Option(min=2, help="V.")]


def rules_of(names: Sequence[str], remember: int = 0) -> dict[str, PathVerifier]:
    """Rules by name; rules of one path verify the first of a tree.

    Parameters
    ----------
    names : sequence of str
    remember : int
        How many plans those keep that solve a problem at every node.
    """
    every: dict[str, PathVerifier] = {
        "block": Block(),
        "token-wise rrs": TokenWise("rrs", remember, exchangeable=False),
        "token-wise kseq": TokenWise("kseq", remember, exchangeable=False),
        TOKEN_WISE: TokenWise("interval", remember),
        "traversal": Traversal(),
        "layer": LayerVerification(remember=remember),
        "greedy multi-path": GreedyMultiPath(),
        "nested, sigma = 0": Nested(sigma=0.0),
        NESTED: Nested(),
    }
    among("rule", names, every)
    return {name: every[name] for name in names}


def names_of(laws: str) -> list[str]:
    """Laws from a list."""
    names = laws.split(",")
    among("laws", names, [*REGIMES, *PROFILES])
    return names


def models_of(laws: str, vocab: int, remember: int = 1024) -> Models:
    """A law of models: by seed a model of its own, of a regime, or of a profile at so many tokens."""
    if laws in PROFILES:
        return partial(scattered, ProfileSource(replace(PROFILES[laws], vocab=vocab)), top_k=TOP_K)
    return partial(synthetic, laws, vocab, remember=remember)


class Cell(NamedTuple):
    """K paths of L tokens from the root, of models of some laws."""

    laws: str
    vocab: int
    length: int
    paths: int

    @classmethod
    def parse(cls, text: str) -> Cell:
        """From laws:V:L:K."""
        laws, *sizes = text.split(":")
        if laws not in (*REGIMES, *PROFILES) or len(sizes) != 3 or not all(size.isdecimal() for size in sizes):
            known = ", ".join([*REGIMES, *PROFILES])
            raise typer.BadParameter(f"{text!r} is no cell laws:V:L:K; laws: {known}")
        return cls(laws, *map(int, sizes))

    @property
    def models(self) -> Models:
        """By seed a model of its own."""
        return models_of(self.laws, self.vocab)

    def tree(self, seed: int) -> Tree:
        """What the model of that seed drafts."""
        model = self.models(seed)
        return model.tree(model.sample(self.paths, self.length, np.random.default_rng((seed, 1))))

    def lines(self, seed: int, count: int) -> list[Line]:
        """So many texts of the target of that seed's model."""
        model, rng = self.models(seed), np.random.default_rng((seed, 2))
        return [target_line(model, self.length, rng) for _ in range(count)]


PLACE = {
    "laws": lambda record: str(record["laws"]),
    "V": lambda record: str(record["vocab"]),
    "L": lambda record: str(record["length"]),
    "K": lambda record: str(record["paths"]),
}
"""Columns of a table that say which cell a record is of."""


def verifier_of(record: Record) -> str:
    """The rule of a record."""
    return str(record["verifier"])
