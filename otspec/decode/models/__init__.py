"""What decoding needs of transformers models.

`loading` finds models by name, and `pairing` checks that two of them can decode together.  `context` is a model and the
texts that it has read, with its keys and values in `cache`; `target` is the target's pass over drafted trees, and
`self_check` asks whether that is what the model reads.
"""
