"""Models by name, a target with what drafts for it."""

from otspec.extras import require

require("torch")
require("transformers")
