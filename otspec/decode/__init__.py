"""Lossless multi-draft decoding of transformers models, with any solver plugged in.

`generate` is the function to call, `custom_generate=multi_draft(draft)` the same for transformers' own `generate`;
`run` decodes with any `Strategy`, those of `methods` among them.  Needs torch and transformers.

Inside, from the outside in: `generation`, `harness` (one run), `loop` (one step), and what a step is made of:
`drafters` propose trees of tokens, `models` has the target's pass over them and what each model has read, `laws`
brings both models' laws to the host in one copy, and `verifiers` says which rule of `otspec.paths` verifies; or the
device does, and `on_device` brings what it accepts.
`sampling` turns logits into laws, `text` says when a text ends, `metrics` what decoding took, and `replay` what its
passes alone take.  `strategy` is what a method answers, and `methods` has them; `drafting` has drafters by name, and
`training` what makes those that learn; `pacing` says what each step drafts, `tuning` finds the fastest for a pair
of models, `recording` keeps what they say, and `shipped` is the pair that comes with the package.
"""

from typing import TYPE_CHECKING

from otspec.deprecation import former_names
from otspec.extras import require

require("torch")
require("transformers")

from otspec.decode.drafters.draft_laws import DRAFT_LAWS  # noqa: E402  after the packages that it needs
from otspec.decode.drafters.router import Router  # noqa: E402
from otspec.decode.drafters.shortlists import Budget, Frequent  # noqa: E402
from otspec.decode.generation import MultiDraftOutput, generate, multi_draft  # noqa: E402
from otspec.decode.harness import Generation, run  # noqa: E402
from otspec.decode.methods.multi_draft import MultiDraft  # noqa: E402
from otspec.decode.metrics import Metrics  # noqa: E402
from otspec.decode.models.after import model_after  # noqa: E402
from otspec.decode.models.alignment import aligned_counts  # noqa: E402
from otspec.decode.models.matching import matching_of  # noqa: E402
from otspec.decode.pacing.costs import MeasuredCosts, PassCosts, PassTimes, StepCosts  # noqa: E402
from otspec.decode.pacing.goodput import Goodput  # noqa: E402
from otspec.decode.replay import floor  # noqa: E402
from otspec.decode.strategy import Strategy  # noqa: E402
from otspec.decode.training.routers import train_router  # noqa: E402
from otspec.decode.tuning import Tuned, Tuning, tune  # noqa: E402
from otspec.paths.catalogue import BY_PLAN, JOINT  # noqa: E402

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
