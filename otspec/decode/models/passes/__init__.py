"""Passes of models over blocks of tokens: each reader has a cache of the keys and values of what a model has read.

`signature` has what a reader takes and returns, and `reader` chooses one: `fused` is our own forward pass of Llamas and
what is made like them, `transformers_reader` that of transformers, and `static` replays either as CUDA graphs over a
`workspace` of fixed size, whole drafts as a `single_graph`.  `plain` finds whether a model computes what its class does
and nothing else.
"""
