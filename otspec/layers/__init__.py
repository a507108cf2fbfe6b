"""The machinery of the `layered` solver: one release probability per token, for drafts without replacement.

`sweep` computes the law of the rule, `fit` finds the probabilities for one block, `rule` picks a draft.  The statement
and its proof are in `docs/without_replacement.md`.
"""
