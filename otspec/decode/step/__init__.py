"""One step of decoding and the run that is made of them: draft, one pass of the target, verify, commit."""

from otspec.extras import require

require("torch")
require("transformers")
