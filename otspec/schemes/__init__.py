"""Draft schemes: the law of the n drafted tokens, and what a problem needs to know of it."""

from otspec.schemes.draft_sets import DraftSets
from otspec.schemes.iid import IID
from otspec.schemes.protocol import DraftScheme, Support
from otspec.schemes.table import Table

__all__ = ["IID", "DraftScheme", "DraftSets", "Support", "Table"]
