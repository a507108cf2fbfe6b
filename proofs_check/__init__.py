"""The papers' claims as executable checks: numeric evidence with a replayable worst case, not proof."""

from otspec.proofs_check.claim import Claim, Evidence, check
from otspec.proofs_check.multi_draft import CLAIMS as MULTI_DRAFT

__all__ = ["MULTI_DRAFT", "Claim", "Evidence", "check"]
