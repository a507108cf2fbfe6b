"""The machinery of the `interval` solver, which decoders call without a plan: sorting, solving, picking.

`ratio_sort` puts the tokens in order, `exchange` solves, `picking` picks a draft; `otspec.verification` does it all for
one position or a batch.  The statement and its proof are in `docs/interval.md`.
"""
