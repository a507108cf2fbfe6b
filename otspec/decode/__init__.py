"""Lossless multi-draft decoding of transformers models, with any solver plugged in.

`generate` is the function to call, `custom_generate=multi_draft(draft)` the same for transformers' own `generate`;
`run` decodes with any `Strategy`, those of `methods` among them.  Needs torch and transformers, which are loaded when
a name is first used.

Inside, from the ground up: `base` has settings, laws, texts and clocks, `models` the passes over drafted trees and what
each model has read, `distillation` what draft models learn from.  `drafters` propose trees of tokens, a family in one
place: its model, its drafter and its training.  `verify` chooses the rule of `otspec.verification`, on the host
or on the device, and `step` is the loop.  `shipped` is the pair that comes with the package, `pair` loads others, and
`methods` has the strategies by name.  `tuning` finds the fastest for a pair, `training` makes draft models, `recording`
stores models' laws, and `generation` is the one call.
"""

from typing import TYPE_CHECKING, Any

from otspec.extras import require
from otspec.lazy import attach

if TYPE_CHECKING:
    from otspec.decode.base.draft_laws import DRAFT_LAWS
    from otspec.decode.base.metrics import Metrics
    from otspec.decode.drafters.shortlists.router import Router
    from otspec.decode.drafters.shortlists.shortlists import Budget, Frequent
    from otspec.decode.drafters.shortlists.training import train_router
    from otspec.decode.generation import MultiDraftOutput, generate, multi_draft
    from otspec.decode.methods.multi_draft import MultiDraft
    from otspec.decode.models.as_model import model_after
    from otspec.decode.models.tokens.alignment import aligned_counts
    from otspec.decode.models.tokens.matching import matching_of
    from otspec.decode.settings import DraftOptions, DraftSettings, RunOptions, RunSettings
    from otspec.decode.step.harness import Generation, run
    from otspec.decode.step.strategy import Strategy
    from otspec.decode.tuning import Tuned, Tuning, tune
    from otspec.verification.rules.catalogue import BY_PLAN, JOINT

__all__ = [
    "BY_PLAN",
    "DRAFT_LAWS",
    "JOINT",
    "Budget",
    "DraftOptions",
    "DraftSettings",
    "Frequent",
    "Generation",
    "Metrics",
    "MultiDraft",
    "MultiDraftOutput",
    "Router",
    "RunOptions",
    "RunSettings",
    "Strategy",
    "Tuned",
    "Tuning",
    "aligned_counts",
    "generate",
    "matching_of",
    "model_after",
    "multi_draft",
    "run",
    "train_router",
    "tune",
]

_find, __dir__ = attach(__name__)


def __getattr__(name: str) -> Any:
    if name in __all__:
        require("torch")
        require("transformers")
    return _find(name)
