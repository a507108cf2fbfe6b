"""Statements on which this package stands, by subject."""

from otspec.proofs_check.claims import Source
from otspec.proofs_check.own import all_verifiers, draft_laws, hits, interval, labels, paths, plans, pricing, rivals

SOURCE = Source.of(
    "otspec: statements of our own",
    "otspec",
    *(hits, interval, draft_laws, plans, paths, rivals, pricing, all_verifiers, labels),
)

__all__ = ["SOURCE"]
