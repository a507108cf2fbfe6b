"""Lossless multi-draft decoding of transformers models, with any solver plugged in.

`generate` is the function to call, `multi_draft` the same for transformers' own ``generate(custom_generate=...)``;
`run` decodes with any `Strategy`, those of ``methods` among them.  Needs torch and transformers.

Inside, from the outside in: `generation`, `harness` (one run), `loop` (one step), and what a step is made of: `drafter`
(trees from the draft model), `target` (one pass over them), `laws` (to the host in one copy), `verification`, and
`context` (what a model has read, kept in `cache`).  `shape` and `tree` say what a drafted tree is, `sampling` and
`draft_laws` what is drawn, `text` when it ends, `metrics` what it took.
"""

from otspec.extras import require

require("torch")
require("transformers")

from otspec.decode.drafters.draft_laws import DRAFT_LAWS  # noqa: E402  after the packages that it needs
from otspec.decode.generation import MultiDraftOutput, generate, multi_draft  # noqa: E402
from otspec.decode.harness import Generation, run  # noqa: E402
from otspec.decode.methods.multi_draft import MultiDraft  # noqa: E402
from otspec.decode.metrics import Metrics  # noqa: E402
from otspec.decode.strategy import Strategy  # noqa: E402
from otspec.decode.verifiers import BY_PLAN, JOINT  # noqa: E402

__all__ = [
    "BY_PLAN",
    "DRAFT_LAWS",
    "JOINT",
    "Generation",
    "Metrics",
    "MultiDraft",
    "MultiDraftOutput",
    "Strategy",
    "generate",
    "multi_draft",
    "run",
]
