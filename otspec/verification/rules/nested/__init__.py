"""Nested labels: the path of the largest label is picked, and verified as a block.

On the host `labels` defines labels, `sharing` how tokens share those of their parent, `growth` and `winning` how
the largest is found; `ranking` and `powers` are arithmetic for these.  On tensors labels lie on a `grid`.
"""
