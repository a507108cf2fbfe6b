"""The machinery of the `interval` solver, which decoders call without a plan: sorting, solving, picking, verifying.

`ratio_sort` puts the tokens in order, `lottery` solves, `pick_place` picks a draft, `fast` does all of it for one
position or a batch.  The statement and its proof are in `docs/interval.md`.
"""
