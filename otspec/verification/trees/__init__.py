"""Drafted trees, in the same terms everywhere.

A `Shape` is how many children the drafts of each level have.  A `Topology` is what was drafted, equal prefixes merged
into one node each, and a `Tree` a topology with both models' laws at its nodes.  As tensors, a `Layout` is where the
slots of many trees hang, and a `TreeBatch` a layout with tokens and both models' laws, checked once.
"""
