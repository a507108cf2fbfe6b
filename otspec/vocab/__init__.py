"""Drafters with a vocabulary of their own: pruning it, and what to do with the mass it has or lacks.

All functions work on numpy arrays, laws along the last axis.  What they are worth is measured in
`docs/vocab.md`.
"""

from otspec.vocab.acceptance import acceptance_rate, drafter_kernel
from otspec.vocab.affinity import affinity, affinity_from_counts, affinity_from_factor, affinity_from_matrix
from otspec.vocab.counting import PairCounts
from otspec.vocab.estimates import Estimate, load_affinity, load_estimate
from otspec.vocab.intersection import embed, tli
from otspec.vocab.matrices import Affinity
from otspec.vocab.moments import Moments
from otspec.vocab.pruning import frequency_prune
from otspec.vocab.redistribution import rdk, rdk_linear
from otspec.vocab.streaming import gather

__all__ = [
    "Affinity",
    "Estimate",
    "Moments",
    "PairCounts",
    "acceptance_rate",
    "affinity",
    "affinity_from_counts",
    "affinity_from_factor",
    "affinity_from_matrix",
    "drafter_kernel",
    "embed",
    "frequency_prune",
    "gather",
    "load_affinity",
    "load_estimate",
    "rdk",
    "rdk_linear",
    "tli",
]
