"""Marks of this package's own modules, by which forward passes know them without importing the drafters' models."""

from __future__ import annotations


class OwnModule:
    """A module of this package whose class says all that it computes, as those of transformers' architectures do."""


class ConditionedLlama(OwnModule):
    """A Llama that may be told more than tokens, through `Reader.shifts` or `Reader.added`.

    Without these it computes what the Llama of the same weights does.  A pass that was told more cannot be repeated at
    other tokens, so none of such a model is replayed as a graph.
    """
