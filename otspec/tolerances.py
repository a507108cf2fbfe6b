"""Every tolerance of the package, each with its reason."""

MASS_TOL = 1e-5
"""How far the total of a law given by the user may be from 1.

A float32 softmax over 256 000 tokens drifts by 2e-7 when its sum is pairwise, as in numpy and torch.  The way out for a
law that drifts more (a sequential float32 sum reaches 2e-4) is to hand over its logits, or to divide by its sum.
"""

FLOAT32_MASS_TOL = 1e-3
"""The same for rows of float32 tensors, whose totals are divided out, and where no caller can correct them.

torch's softmax on a CPU was seen to be 2.2e-5 off over 131 072 tokens; a sequential sum over as many is 2e-4 off.
"""

TOL = 1e-9
"""What is required of a solver that calls itself exact: gap and deviation, both probabilities, at most this.

Float64 sums over a million cells are good to 1e-13; HiGHS reports a basis as feasible within 1e-9.
"""

RELATIVE_TOL = 1e-6
"""What is required besides: a gap of at most this share of the bound, or of `ROUNDING`.

A solver with a larger `tol` than `TOL` may leave a share that is as many times larger.

Where all that can be accepted is 1e-9, a plan that accepts nothing has a gap of 1e-9.
"""

ROUNDING = 1e-12
"""A gap that float64 explains, however little can be accepted: sums over a million cells are good to 1e-13, and what
programs solve by iteration was seen to be 1e-13 off where 1e-9 and less can be accepted."""

TIE_TOL = 1e-12
"""Below this a token counts as neither over- nor under-drafted.

A slope g/p that exceeds 1 by less is rounding, and leaving its token out of H* costs at most as much in the bound.
"""
