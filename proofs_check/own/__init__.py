"""Statements on which this package stands, by subject."""

from otspec.proofs_check.claim import Source
from otspec.proofs_check.own import (
    draft_laws,
    hits,
    interval,
    labels,
    paths,
    plans,
    pricing,
    reading,
    rivals,
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
        *rivals.CLAIMS,
        *pricing.CLAIMS,
        *reading.CLAIMS,
        *labels.CLAIMS,
    ),
)

__all__ = ["SOURCE"]
