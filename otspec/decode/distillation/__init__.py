"""What draft models learn from: text that the target writes, its laws and hidden states there, and the losses."""

from otspec.extras import require

require("torch")
require("transformers")
