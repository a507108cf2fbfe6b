"""Draft schemes: the law of the n drafted tokens, and what a problem needs to know of it."""

from otspec.schemes.checking import SchemeCheck, check_scheme
from otspec.schemes.draft_sets import DraftSets
from otspec.schemes.fixed_plus_one import FixedPlusOne
from otspec.schemes.greedy import Greedy
from otspec.schemes.hub_pairs import HubPairs
from otspec.schemes.iid import IID
from otspec.schemes.independent import Independent
from otspec.schemes.protocol import DraftScheme, Support
from otspec.schemes.table import Enumerated, Table
from otspec.schemes.top_k import TopK
from otspec.schemes.without_replacement import WithoutReplacement

__all__ = [
    "IID",
    "DraftScheme",
    "DraftSets",
    "Enumerated",
    "FixedPlusOne",
    "Greedy",
    "HubPairs",
    "Independent",
    "SchemeCheck",
    "Support",
    "Table",
    "TopK",
    "WithoutReplacement",
    "check_scheme",
]
