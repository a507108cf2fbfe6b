"""Seeds of requests: each its own, and others with drafts than without."""

from __future__ import annotations

import numpy as np

LARGEST = 2**31
"""Seeds stay below it: engines hold them in 32 bits, some with a sign."""


def request_seeds(seed: int, count: int, *, drafts: bool) -> range:
    """Seeds of so many requests, one after the other.

    They are consecutive, as engines number the completions of one request from its seed on, so that two requests of one
    call share none.  With drafts and without they differ: texts that are compared must not be drawn by the same coins.
    """
    entropy = np.random.SeedSequence((abs(seed), int(seed < 0), int(drafts)))
    start = int(entropy.generate_state(1)[0]) % max(1, LARGEST - count)
    return range(start, start + count)
