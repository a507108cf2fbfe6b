"""Lossless multi-draft decoding of transformers models, with any solver plugged in.

`generate` is the function to call, `custom_generate=multi_draft(draft)` the same for transformers' own `generate`;
`run` decodes with any `Strategy`, those of `methods` among them.  Needs torch and transformers.

Inside, from the ground up: `base` has laws, texts and clocks, `models` the passes over drafted trees and what each
model has read, `pacing` how deep to draft, and `lessons` what draft models learn from.  `drafters` propose trees of
tokens, a family in one place: its model, its drafter and its training.  `verify` says which rule of `otspec.paths`
verifies, on the host or on the device, and `step` is the loop.  `shipped` is the pair that comes with the package,
`pair` loads others, and `methods` has the strategies by name.  `tuning` finds the fastest for a pair, `training` makes
draft models, `recording` keeps what models say, and `generation` is the one call.
"""

from typing import TYPE_CHECKING

from otspec.deprecation import former_names
from otspec.extras import require

require("torch")
require("transformers")

from otspec.decode.base.draft_laws import DRAFT_LAWS  # noqa: E402  after the packages that it needs
from otspec.decode.base.metrics import Metrics  # noqa: E402
from otspec.decode.drafters.shortlists.router import Router  # noqa: E402
from otspec.decode.drafters.shortlists.shortlists import Budget, Frequent  # noqa: E402
from otspec.decode.drafters.shortlists.training import train_router  # noqa: E402
from otspec.decode.generation import MultiDraftOutput, generate, multi_draft  # noqa: E402
from otspec.decode.methods.multi_draft import MultiDraft  # noqa: E402
from otspec.decode.models.after import model_after  # noqa: E402
from otspec.decode.models.replay import floor  # noqa: E402
from otspec.decode.models.tokens.alignment import aligned_counts  # noqa: E402
from otspec.decode.models.tokens.matching import matching_of  # noqa: E402
from otspec.decode.pacing.costs import MeasuredCosts, PassCosts, PassTimes, StepCosts  # noqa: E402
from otspec.decode.pacing.goodput import Goodput  # noqa: E402
from otspec.decode.step.harness import Generation, run  # noqa: E402
from otspec.decode.step.strategy import Strategy  # noqa: E402
from otspec.decode.tuning import Tuned, Tuning, tune  # noqa: E402
from otspec.verification.rules.catalogue import BY_PLAN, JOINT  # noqa: E402

__all__ = [
    "BY_PLAN",
    "DRAFT_LAWS",
    "JOINT",
    "Budget",
    "Frequent",
    "Generation",
    "Goodput",
    "MeasuredCosts",
    "Metrics",
    "MultiDraft",
    "MultiDraftOutput",
    "PassCosts",
    "PassTimes",
    "Router",
    "StepCosts",
    "Strategy",
    "Tuned",
    "Tuning",
    "aligned_counts",
    "floor",
    "generate",
    "matching_of",
    "model_after",
    "multi_draft",
    "run",
    "train_router",
    "tune",
]

if not TYPE_CHECKING:
    _CHOSEN = "to choose a shape for every step gained nothing over its depth, pace='goodput'; see docs/tried.md"
    __getattr__ = former_names(__name__, {}, {"Selector": _CHOSEN, "train_selector": _CHOSEN})
