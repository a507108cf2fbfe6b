"""Lossy rules of 2026: Cactus [hao2026cactus] and FLy [li2025fly], and what their outputs are off by.

Their rules are those of the authors' code (Cactus) and of vLLM (FLy); of both papers the abstracts were at hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import entr, rel_entr

from otspec.laws import FloatArray, Seed, as_generator, draw
from otspec.proofs_check.claims import Source, Unchecked, claim
from otspec.proofs_check.instances import model_laws, model_of, pair
from otspec.proofs_check.search import Descent
from otspec.proofs_check.single_draft import accept, overlap, residual
from otspec.verification import PathVerification, Tree, path_law
from otspec.verification.reference.enumeration import drafted_trees

CACTUS, FLY = "hao2026cactus", "li2025fly"
CACTUS_ABSTRACT, FLY_ABSTRACT = f"{CACTUS} (arXiv:2604.04987), abstract", f"{FLY} (arXiv:2511.22972), abstract"
BOTH = Descent("p q")
MOST = 1 << 20


def _pair(rng: np.random.Generator) -> dict[str, Any]:
    return {**pair(rng), "delta": float(10 ** rng.uniform(-3.0, 0.5))}


def divergence(law: FloatArray, p: FloatArray) -> float:
    """KL(law || p)."""
    return float(rel_entr(law, p).sum())


def raised(p: FloatArray, token: int, delta: float) -> FloatArray:
    """A law h with h(x) = p(x) + sqrt(2 delta p(x) (1 - p(x))), at most 1, for a drafted token x: shape (V,).

    The other tokens share the rest in proportion to p.
    """
    share = float(p[token])
    more = min(share + np.sqrt(2 * delta * share * (1 - share)), 1.0)
    law = p * ((1 - more) / (1 - share) if share < 1 else 0.0)
    law[token] = more
    return law


def cactus(p: FloatArray, q: FloatArray, delta: float) -> tuple[FloatArray, float]:
    """The exact law of what Cactus puts out, shape (V,), and how often that is the draft."""
    output, accepted = np.zeros(p.size), 0.0
    for token in np.flatnonzero(q).tolist():
        law = raised(p, token, delta)
        passes = min(1.0, float(law[token] / q[token]))
        after = (1.0 - passes) * residual(law, q)
        after[token] += passes
        output += q[token] * after
        accepted += float(q[token] * after[token])
    return output, accepted


@claim(
    "cactus-divergence", _pair, BOTH, counterexample={"p": np.full(4, 0.25), "q": [0.5, 0.5, 0.0, 0.0], "delta": 0.1}
)
def cactus_divergence(p: FloatArray, q: FloatArray, delta: float) -> float:
    """The output of Cactus diverges from the target's law by delta at most: KL(output || p) <= delta. [hao2026cactus
    (arXiv:2604.04987), abstract: 'guarantees controlled divergence from the verifier distribution']

    Instead: What is controlled is the law h that each draft is verified for (cactus-law). The output has more of every
    draft at once, and is off by what is accepted more (cactus-price): on flat laws of many tokens by up to TV(p, q),
    for any delta.
    Remark: Of the paper the abstract was at hand, and its code, which has the rule; the paper may say delta of h alone.
    In the example the output is (.44, .44, .06, .06), at KL .34.
    Margin: Margin of: the output is at KL delta at most.
    """
    return delta - divergence(cactus(p, q, delta)[0], p)


@claim("cactus-law", _pair, BOTH, mutants={"At KL delta.": {"by_delta": True}})
def law(p: FloatArray, q: FloatArray, delta: float, by_delta: bool = False) -> float:
    """The law h with h(x) = p(x) + sqrt(2 delta p(x) (1 - p(x))), the rest in proportion to p, is at KL log(1 + 2
    delta) and at total variation sqrt(delta / 2) at most. [otspec; on hao2026cactus (arXiv:2604.04987), abstract;
    docs/lossy.md, Theorem 3]

    Beside: cactus-divergence
    Remark: Its chi-square divergence is 2 delta, which is where the rule comes from.
    Margin: How far the laws h are within KL log(1 + 2 delta), or delta, and total variation sqrt(delta / 2).
    """
    laws = [raised(p, token, delta) for token in np.flatnonzero(p).tolist()]
    most = delta if by_delta else float(np.log1p(2 * delta))
    far = max(float(np.abs(law - p).sum()) / 2 for law in laws)
    return min(most - max(divergence(law, p) for law in laws), float(np.sqrt(delta / 2)) - far)


@claim("cactus-price", _pair, BOTH, mutants={"h = p + 0.95 sqrt(...).": {"spread": 0.95}})
def price(p: FloatArray, q: FloatArray, delta: float, spread: float = 1.0) -> float:
    """Cactus accepts the sum over x of (min(q, h) - p)+, h = p + sqrt(2 delta p (1 - p)), more than speculative
    sampling, and its output is off by exactly that. [otspec; on hao2026cactus (arXiv:2604.04987), abstract;
    docs/lossy.md, Theorem 3]

    Beside: cactus-divergence
    Remark: So its efficiency is 1, as that of lenience and of ensembles.
    Margin: Minus how far gain and price are from the sum of (min(q, h) - p)+, with so many times the square root in h.
    """
    output, accepted = cactus(p, q, delta)
    paid = float(np.abs(output - p).sum()) / 2
    more = p + spread * np.sqrt(2 * delta * p * (1 - p))
    gain = float(np.maximum(np.minimum(q, more) - p, 0.0).sum())
    return -max(abs(paid - gain), abs(accepted - overlap(p, q) - gain))


@dataclass(frozen=True)
class FLy:
    """Speculative sampling that keeps a refused draft where the target is unsure and the next drafts pass [li2025fly].

    This is vLLM's `rejection_sample_method="fly"` for drafts that are drawn.  A refused draft is kept if its p is above
    0, the entropy of p's three largest entries is at least `threshold`, and the next `window` drafts, all of which have
    to be there, pass the test of speculative sampling.

    Parameters
    ----------
    window : int
        W; in vLLM 6, or one less than there are drafts.
    threshold : float
        In nats.
    """

    window: int = 6
    threshold: float = 0.3

    exchangeable = False  # it verifies the first path alone

    def verify(self, tree: Tree, rng: Seed) -> PathVerification:
        """Draw a verdict from its law."""
        law = self.stop_law(tree)
        node, token = divmod(int(draw(law.ravel(), as_generator(rng, 1))), law.shape[1])
        return PathVerification(node, len(tree.line(node)), token)

    def stop_law(self, tree: Tree) -> FloatArray:
        """Exact law of the verdict given the tree, shape (N, V).

        Once a refused draft is kept, the window after it is known to pass.
        """
        passes, kept = self._chances(tree)
        law, nodes = np.zeros_like(tree.target), tree.node[0]
        fresh = np.eye(1, len(nodes))[0]  # P(all drafts before are accepted, and nothing is known of those that follow)
        for i, node in enumerate(nodes[:-1]):
            law[node] = fresh[i] * (1.0 - passes[i] - kept[i]) * residual(tree.target[node], tree.draft[node])
            fresh[i + 1] += fresh[i] * passes[i]
            if kept[i] > 0:
                fresh[i + 1 + self.window] += fresh[i] * kept[i]
        law[nodes[-1]] = fresh[-1] * tree.target[nodes[-1]]
        return law

    def paid(self, tree: Tree) -> float:
        """P(a refused draft is kept): the text is off by its mean over drafted trees at most."""
        passes, kept = self._chances(tree)
        return float(np.append(1.0, np.cumprod(passes[:-1])) @ kept)

    def _chances(self, tree: Tree) -> tuple[FloatArray, FloatArray]:
        """P(a draft passes the test), and P(it does not, and is kept if all before it are accepted), shapes (L,)."""
        before, tokens, steps = tree.node[0, :-1], tree.token[tree.node[0, 1:]], np.arange(tree.length)
        p, q = tree.target[before, tokens], tree.draft[before, tokens]
        passes = accept(p, q)
        unsure = entr(np.sort(tree.target[before], axis=1)[:, -3:]).sum(axis=1) >= self.threshold
        after = np.array([np.prod(passes[i + 1 : i + 1 + self.window]) for i in steps])
        return passes, (1.0 - passes) * after * ((p > 0) & unsure & (steps + self.window < tree.length))


PLAIN = FLy(window=MOST)
"""Speculative sampling, token by token: no path is so long that a refused draft is kept."""


def _drafted(rng: np.random.Generator) -> dict[str, Any]:
    vocab, length = ((2, 2), (2, 3), (3, 2))[rng.integers(3)]
    window = int(rng.integers(1, length))
    return {**model_laws(rng, vocab, length), "window": window, "threshold": float(rng.choice([0.0, 0.3]))}


@claim(
    "fly-price",
    _drafted,
    cost=10,
    mutants={"1.05 times as many tokens.": {"times": 1.05}, "Off by 5 % less.": {"share": 0.95}},
)
def fly_price(
    target: FloatArray,
    draft: FloatArray,
    length: int,
    window: int,
    threshold: float,
    times: float = 1.0,
    share: float = 1.0,
) -> float:
    """The text of FLy is off by P(a refused draft is kept) at most, and FLy accepts at least W + 1 times that more.
    [otspec; on li2025fly (arXiv:2511.22972), abstract; docs/lossy.md, Theorem 4]

    Beside: li2025fly, abstract
    Remark: Against speculative sampling, token by token; by enumeration of all paths.
    Margin: How far the text is off by less than P(a refused draft is kept), and gains W + 1 tokens by that; or parts.
    """
    model, rule = model_of(target, draft), FLy(window, threshold)
    found, plain = (path_law(one, model, 1, length) for one in (rule, PLAIN))
    kept = sum(chance * rule.paid(tree) for chance, tree in drafted_trees(model, 1, length, exchangeable=False))
    gain = found.mean_accepted - plain.mean_accepted
    return min(share * kept - found.deviation / 2, gain - times * (window + 1) * kept)


SOURCES = (
    Source(
        "Cactus: Accelerating Auto-Regressive Decoding with Constrained Acceptance Speculative Sampling",
        CACTUS,
        (cactus_divergence, law, price),
    ),
    Source(
        "Training-Free Loosely Speculative Decoding: Accepting Semantically Correct Drafts Beyond Exact Match",
        FLY,
        (fly_price,),
        (
            Unchecked(
                "FLy preserves 99 % of the target model's accuracy.",
                FLY_ABSTRACT,
                "A measurement of large models at temperature 0.  What the text's law pays is checked.",
            ),
        ),
    ),
)
