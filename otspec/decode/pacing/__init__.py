"""What to draft, decided before every step: what a step is expected to give, over what it is expected to take.

`menu` has the shapes that are chosen among, `acceptance` keeps estimates of what is accepted of each, a `selector`
foretells it from what the models say, `costs` says what steps take, and `goodput` chooses.  What is chosen depends on
the past alone, so that every step is lossless given the past (`docs/decoding.md`).  No models here:
`otspec.decode.drafters.paced` puts a pacer before a drafter.
"""
