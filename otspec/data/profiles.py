"""Synthetic positions whose statistics follow measured pairs of language models.

A position has an inverse temperature b and a draft noise s, both log-normal and independent; target logits are b times
unit Laplace variables, draft logits add s times a standard normal.  Exponential tails give laws that fall off as a
power of the rank, as real ones do.  Over the first 2048 (llama3) and 1024 (gemma2) positions of seed 0 the optimal
acceptance comes within 0.01 of what [thomas2025global, Table 2] reports for Llama-3 70B/8B and Gemma-2 27B/2B:

    (k, n)            (10, 2)       (10, 3)       (100, 2)
    Llama-3 / llama3  .825 / .822   .839 / .832   .890 / .886
    Gemma-2 / gemma2  .790 / .796   .807 / .809   .858 / .861

On these laws greedy drafts are ahead of i.i.d. ones nearly everywhere, where the paper has i.i.d. drafts ahead for
k >= 100.  `llama3-plateau` and `gemma2-plateau` are calibrated to that as well.  Their most likely tokens, some c of
them, are about equally likely (a law of rank r goes as (r + c)^-b), and the models disagree the more, the more such
tokens there are.  Over the first 256 positions of seed 0 acceptance is .825, .840, .894 and .786, .806, .862, and
i.i.d. drafts less greedy ones, in points:

    n = 4, k = 10, 100, 1000   -0.3 (standard error 0.1), +2.0 (0.3), +2.7 (0.4)   llama3-plateau
                               -0.4 (0.2), +1.9 (0.4), +2.6 (0.5)                  gemma2-plateau

(The paper prints the best acceptance under a time limit; which setting reached it is read off its Tables 1 and 3.)

(b, s) are scrambled Sobol points over the positions, which takes some of the noise out of means over few of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property

import numpy as np
from scipy.special import ndtri

from otspec.data.position import Position, check_index
from otspec.errors import DataError
from otspec.laws import FloatArray

LOG2_POSITIONS = 14


@dataclass(frozen=True)
class Profile:
    """Parameters of the generator; medians are of the log-normal laws, spreads of their logarithms.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from otspec.data import PROFILES, ProfileSource
    >>> small = replace(PROFILES["llama3"], name="small", vocab=1000)  # as calibrated, but for the size
    >>> ProfileSource(small).position(0).target_logits.shape
    (1000,)
    """

    name: str
    vocab: int
    scale_median: float
    scale_spread: float
    noise_median: float
    noise_spread: float
    scale_range: tuple[float, float] = (0.9, 6.0)
    noise_range: tuple[float, float] = (0.2, 2.0)
    plateau_median: float = 0.0
    """How many of the likeliest tokens are about equally likely; at 0 a power of the rank goes all the way up."""
    plateau_spread: float = 0.0
    """Plateau and noise grow together: models disagree more where many tokens are likely."""


PROFILES = {
    profile.name: profile
    for profile in (
        Profile("llama3", 128_256, 1.95, 0.35, 0.41, 1.0),
        Profile("gemma2", 256_000, 1.85, 0.33, 0.53, 1.0),
        Profile("llama3-plateau", 128_256, 5.2, 0.4, 0.67, 0.46, (0.9, 8.0), (0.05, 3.0), 2.1, 2.37),
        Profile("gemma2-plateau", 256_000, 4.5, 0.4, 0.77, 0.46, (0.9, 8.0), (0.05, 3.0), 2.2, 2.4),
    )
}
"""Calibrated profiles by name."""


class ProfileSource:
    """Positions of a profile; each depends on the seed and its index alone.

    Raises
    ------
    DataError
        If the seed is not an integer >= 0.

    Examples
    --------
    >>> from otspec.data import PROFILES, ProfileSource
    >>> source = ProfileSource(PROFILES["llama3"], seed=1)
    >>> source.position(7).problem(n=3, top_k=100)
    <Problem: 128256 tokens, <IID: n = 3 of 100 tokens, V = 128256; draw with sample(rng)>; solve it with otspec.solve>
    """

    def __init__(self, profile: Profile, seed: int = 0) -> None:
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
            raise DataError(f"seed is {seed!r}; pass an integer >= 0")
        self.profile = profile
        self.seed = seed
        self.name = profile.name
        self.vocab = profile.vocab

    @property
    def identity(self) -> Mapping[str, object]:
        """The profile's parameters and the seed."""
        return {"profile": asdict(self.profile), "seed": self.seed}

    def __len__(self) -> int:
        return 1 << LOG2_POSITIONS

    @cached_property
    def _scales(self) -> FloatArray:
        """(b, s, c) of every position, shape (positions, 3)."""
        from scipy.stats import qmc  # a second of import that no other part of the package needs

        profile = self.profile
        normal = ndtri(qmc.Sobol(2, rng=self.seed).random_base2(LOG2_POSITIONS))
        scale = profile.scale_median * np.exp(profile.scale_spread * normal[:, 0])
        noise = profile.noise_median * np.exp(profile.noise_spread * normal[:, 1])
        width = profile.plateau_median * np.exp(profile.plateau_spread * normal[:, 1])
        return np.column_stack((np.clip(scale, *profile.scale_range), np.clip(noise, *profile.noise_range), width))

    def position(self, index: int) -> Position:
        """The position of that index.

        Raises
        ------
        DataError
            If the index is not in 0 .. len - 1.
        """
        index = check_index(index, self)
        scale, noise, width = self._scales[index]
        rng = np.random.default_rng([self.seed, index])
        height = rng.laplace(size=self.vocab)
        if width:
            height = -np.log(np.exp(-height) + 2.0 * width / self.vocab)  # rank r of V has a height near log(V / 2r)
        target = scale * height
        return Position(target, target + noise * rng.standard_normal(self.vocab))
