"""Passes of models over blocks of tokens: each reader keeps the keys and values of what a model has read.

`signature` says what a reader takes and gives, and `reader` chooses one: `fused` is our own forward pass of Llamas and
what is made like them, `transformers_reader` that of transformers, and `static` replays either as CUDA graphs over a
`workspace` of fixed size, whole drafts as a `single_graph`.  `plain` tells whether a model computes what its class says
and nothing else.
"""
