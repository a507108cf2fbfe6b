"""Statements on which this package stands, by subject."""

from otspec.proofs_check.claims import Source, claims_of
from otspec.proofs_check.own import draft_laws, hits, interval, labels, paths, plans, pricing, reading, rivals

SOURCE = Source(
    "otspec: statements of our own",
    "otspec",
    claims_of(hits, interval, draft_laws, plans, paths, rivals, pricing, reading, labels),
)

__all__ = ["SOURCE"]
