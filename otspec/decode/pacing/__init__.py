"""What to draft, decided before every step: what a step is expected to give, over what it is expected to take.

`acceptance` keeps estimates of what is accepted at each depth, `costs` says what steps take, and `goodput` chooses how
deep to draft.  What is chosen depends on the past alone, so that every step is lossless given the past
(`docs/decoding.md`).  No models here: `otspec.decode.drafters.paced` puts a pacer before a drafter.
"""
