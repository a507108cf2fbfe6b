"""What draft models learn from: text that the target writes, what it says along it, and what the loss is."""

from otspec.extras import require

require("torch")
require("transformers")
