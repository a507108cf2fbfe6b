"""What decoding needs of transformers models.

`loading` finds models by name, and `pairing` checks that two of them can decode together.  `reader` is one pass of a
model over new tokens, by transformers' code or by a lean one (`llama`), with keys and values in `cache`; `context` is a
model and the texts that it has read, `target` the target's pass over drafted trees, and `self_check` asks whether that
is what the model reads.  `steered`, `fed` and `heads` are draft models that go by what the target thinks.
"""

from otspec.extras import require

require("torch")
require("transformers")
