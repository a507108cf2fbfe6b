"""The ground of decoding: what is drawn and how, texts and when they end, clocks, graphs, files; no models.

`sampling` turns logits into laws, `draft_laws` draws siblings from them, and `drafts` is what a drafter returns.
`text` decides when a text ends, `metrics` counts what decoding took; `transfers` and `graphs` spare the device's time,
and `saved` reads the files that commands leave.
"""

from otspec.extras import require

require("torch")
require("transformers")
