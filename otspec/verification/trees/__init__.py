"""Drafted trees, by the same words everywhere.

A `Shape` says how many children the drafts of each level have.  A `Topology` is what was drafted, equal prefixes merged
into one node each, and a `Tree` a topology with both models' laws at its nodes.  A `Layout` is a batch of trees as
tensors, and `tree_laws` says where the laws of its slots are.
"""
