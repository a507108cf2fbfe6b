"""Models by name, a target with what drafts for it; `save` writes one as a folder."""

from otspec.extras import require

require("torch")
require("transformers")

from otspec.decode.pair.saving import save  # noqa: E402

__all__ = ["save"]
