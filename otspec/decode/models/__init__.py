"""What decoding needs of transformers models.

`pairing` checks that two models can decode together.  `passes` has one pass of a model over new tokens, by
transformers' code or by a fused one, with keys and values in a cache; `context` is a model and the texts that it has
read, `target` the target's pass over drafted trees, and `self_check` compares it with plain reading.
`tokens` finds which tokens of two tokenizers mean the same.
"""

from otspec.extras import require

require("torch")
require("transformers")
