"""Statements on which this package stands, by subject."""

from otspec.proofs_check.claim import Source
from otspec.proofs_check.own import (
    arithmetic,
    draft_laws,
    hits,
    interval,
    labels,
    last_level,
    paths,
    plans,
    pricing,
    reading,
    rivals,
    training,
)

SOURCE = Source(
    "otspec: statements of our own",
    "otspec",
    (
        *hits.CLAIMS,
        *interval.CLAIMS,
        *draft_laws.CLAIMS,
        *plans.CLAIMS,
        *paths.CLAIMS,
        *arithmetic.CLAIMS,
        *rivals.CLAIMS,
        *training.CLAIMS,
        *pricing.CLAIMS,
        *reading.CLAIMS,
        *labels.CLAIMS,
        *last_level.CLAIMS,
    ),
)

__all__ = ["SOURCE"]
