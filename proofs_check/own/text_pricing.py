"""What a text pays for lossy rules, and the most that a drafted path gains at a price."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from otspec.auditing.lossy_paths import AllOrBlock, PathFigures, measure_paths, most_accepted, prefix_distances
from otspec.laws import FloatArray
from otspec.paths import Model
from otspec.proofs_check.claim import Claim, Mutation, Verdict
from otspec.proofs_check.inequality import Inequality
from otspec.proofs_check.instances import law, model_laws, model_of, path_laws
from otspec.proofs_check.oracles import Program
from otspec.proofs_check.search import Descent
from otspec.verification.reference.enumeration import prefixes, text_law

PAGE = "otspec, docs/theory/lossy.md"


def _outputs(rng: np.random.Generator) -> dict[str, Any]:
    """Laws of the target and of what a rule puts out in their place; some put what they pay on a token without p."""
    vocab, length = int(rng.integers(2, 4)), int(rng.integers(1, 4))
    size = sum(vocab**i for i in range(length))
    target = np.array([law(rng, vocab) for _ in range(size)])
    if rng.random() < 0.5:
        return {"target": target, "output": np.array([law(rng, vocab) for _ in range(size)]), "length": length}
    price = rng.random()
    target[:, 0] = 0.0
    target[:, 1] += 1.0 - target.sum(axis=1)
    return {"target": target, "output": (1 - price) * target + price * np.eye(vocab)[0], "length": length}


def _text(target: FloatArray, output: FloatArray, length: int) -> tuple[float, float]:
    """What a text is off by, and 1 - (1 - e)^L."""
    largest = float(np.abs(output - target).sum(axis=1).max()) / 2
    return float(prefix_distances(model_of(target, output), length)[-1]), 1 - (1 - largest) ** length


TEXT = Inequality(_text, 1e-12)


def _priced(rng: np.random.Generator) -> dict[str, Any]:
    """Both models' laws, and a price: often below what the first token differs by."""
    drawn = path_laws(rng)
    first = float(np.abs(drawn["target"][0] - drawn["draft"][0]).sum()) / 2
    return {**drawn, "price": float(rng.choice([0.0, first * rng.random(), rng.random()]))}


class Texts(NamedTuple):
    """Laws of texts and of drafted paths of L tokens."""

    model: Model
    vocab: int
    length: int

    def best_coupling(self, price: float) -> float:
        """The most that a path and a text have in common, among couplings whose texts are off by the price at most."""
        p, q = (text_law(one, self.vocab, self.length) for one in (self.model.target, self.model.draft))
        many, texts = p.size, np.array(list(np.ndindex(*(self.vocab,) * self.length)))
        common = np.logical_and.accumulate(texts[:, None] == texts[None], axis=2).sum(axis=2)
        by_path = np.kron(np.eye(many), np.ones(many))
        by_text = np.tile(np.eye(many), many)
        none, each = np.zeros((many, many)), np.eye(many)
        equal = np.block([[by_path, none, none], [by_text, -each, each]])  # the text's law less p, its signs apart
        gain = np.concatenate((common.ravel(), np.zeros(2 * many)))
        paid = np.concatenate((np.zeros(many**2), np.ones(many), np.zeros(many)))
        return Program(gain, (paid[None], np.array([price])), (equal, np.concatenate((q, p)))).solve()[0]

    def best_continued(self, price: float) -> float:
        """The same among rules whose text is continued by the target where they stop.

        Variables are A(v), what is accepted, M(v), what is put out, and what M has over p at whole texts; the mass
        M(v) - A(v) is continued by the target, so that M(vx) - A(vx) >= (M(v) - A(v)) p(x | v).
        """
        p, q = (text_law(one, self.vocab, self.length) for one in (self.model.target, self.model.draft))
        listed = [prefix for prefix in prefixes(self.vocab, self.length) if prefix]
        place = {prefix: i for i, prefix in enumerate(listed)}
        many, texts = len(listed), self.vocab**self.length
        drafted = np.concatenate([q.reshape(self.vocab**i, -1).sum(axis=1) for i in range(1, self.length + 1)])
        left, totals, free = [], [], []
        for prefix in prefixes(self.vocab, self.length - 1):
            whole = np.zeros(2 * many + texts)
            whole[[many + place[(*prefix, x)] for x in range(self.vocab)]] = 1.0
            if prefix:
                whole[many + place[prefix]] = -1.0
            left.append(whole)
            totals.append(0.0 if prefix else 1.0)
            for x, chance in enumerate(self.model.target(prefix)):
                row = np.zeros(2 * many + texts)
                row[place[(*prefix, x)]], row[many + place[(*prefix, x)]] = 1.0, -1.0
                if prefix:
                    row[place[prefix]], row[many + place[prefix]] = -chance, chance
                free.append(row)
        within = np.eye(many, 2 * many + texts)
        over = np.hstack((np.zeros((texts, 2 * many - texts)), np.eye(texts), -np.eye(texts)))
        paid = np.concatenate((np.zeros(2 * many), np.ones(texts)))
        sums = np.vstack((within, np.array(free), over, paid))
        most = np.concatenate((drafted, np.zeros(len(free)), p, [price + ROOM]))
        gain = np.concatenate((np.ones(many), np.zeros(many + texts)))
        return Program(gain, (sums, most), (np.array(left), np.array(totals))).solve()[0]


ROOM = 1e-11
"""What rounding adds to a price: a text's probabilities sum to 1 only nearly, and at no price there is no room."""


def _coupling(
    target: FloatArray, draft: FloatArray, length: int, price: float, rate: float = 1.0, last: bool = False
) -> float:
    """Minus how far the best coupling is from the sum of min(1, 1 - D_i + e); or with D_L in place of all D_i."""
    model = model_of(target, draft)
    distances = prefix_distances(model, length)
    found = Texts(model, target.shape[1], length).best_coupling(price)
    return -abs(found - most_accepted(distances[[-1] * length] if last else distances, rate * price))


def _deep(rng: np.random.Generator) -> dict[str, Any]:
    """Both models' laws, and a depth: often a number of drafts, or below one."""
    drawn = path_laws(rng)
    most = drawn["length"]
    return {**drawn, "depth": float(rng.choice([rng.random(), float(rng.integers(most + 1)), most * rng.random()]))}


class AtDepth(NamedTuple):
    """What all-or-block makes of a depth."""

    figures: PathFigures
    distances: FloatArray
    """D_0 = 0 to D_L, shape (L + 1,)."""

    @classmethod
    def of(cls, model: Model, length: int, depth: float) -> AtDepth:
        """By enumeration of all paths and texts."""
        distances = np.append(0.0, prefix_distances(model, length))
        return cls(measure_paths(AllOrBlock(depth), model, length), distances)


def _all_or_block(target: FloatArray, draft: FloatArray, length: int, depth: float, more: float = 0.0) -> float:
    """Minus how far the price is from its line; how far it gains more than it should; and the frontier at its end."""
    found, distances = AtDepth.of(model_of(target, draft), length, depth)
    spent = np.clip(depth - np.arange(length), 0.0, 1.0) * np.diff(distances)
    gain = found.accepted - found.block - (length + more - np.arange(length)) @ spent
    ends = -abs(found.most - found.accepted) if depth >= length - 1 else 0.0
    return min(float(gain), -abs(found.tv - float(spent.sum())), ends)


def _continued(target: FloatArray, draft: FloatArray, length: int, depth: float, before: int = 1) -> float:
    """How far the best is between all-or-block and any rule, and minus how far from that from D_(L - before) on."""
    model = model_of(target, draft)
    found, distances = AtDepth.of(model, length, depth)
    best = Texts(model, target.shape[1], length).best_continued(found.tv)
    bought = found.tv >= distances[max(length - before, 0)]
    return min(best - found.accepted, found.most - best, -abs(found.most - best) if bought else 0.0)


def _two_tokens(rng: np.random.Generator) -> dict[str, Any]:
    length = int(rng.integers(2, 4))
    return {**model_laws(rng, 2, length), "depth": float(rng.choice([rng.random(), float(rng.integers(length + 1))]))}


def _best_of_two(target: FloatArray, draft: FloatArray, length: int, depth: float) -> float:
    """Minus how far all-or-block is from the best."""
    model = model_of(target, draft)
    found, _ = AtDepth.of(model, length, depth)
    return -abs(found.accepted - Texts(model, 2, length).best_continued(found.tv))


def _best_of_all(target: FloatArray, draft: FloatArray, length: int, depth: float) -> float:
    found, _ = AtDepth.of(model_of(target, draft), length, depth)
    return -abs(found.accepted - found.most)


def _by_length(target: FloatArray, draft: FloatArray, length: int, depth: float) -> float:
    found, _ = AtDepth.of(model_of(target, draft), length, depth)
    return length * found.tv - (found.accepted - found.block)


CLAIMS = (
    Claim(
        "own-lossy-text",
        "A text of L tokens, each at total variation e at most after every prefix, is off by 1 - (1 - e)^L at most.",
        f"{PAGE}, Theorem 4",
        _outputs,
        TEXT.margin,
        search=Descent(laws=("target", "output")),
        tightness=TEXT.tightness,
        remark="Attained where what is paid goes to a token that the target never puts out.",
        mutations=(Mutation("By 5 % less.", TEXT.with_left(1.05)),),
    ),
    Claim(
        "own-lossy-path-frontier",
        "The most that any rule accepts of a drafted path, its text at total variation e at most, is the sum over i of "
        "min(1, 1 - D_i + e), D_i being the total variation of the first i tokens of path and text.",
        f"{PAGE}, Theorem 5",
        _priced,
        _coupling,
        tol=1e-8,
        cost=10,
        remark="By a linear program over all couplings of paths and texts.",
        mutations=(
            Mutation("At half the price.", lambda **i: _coupling(**i, rate=0.5)),
            Mutation("With D_L at every depth.", lambda **i: _coupling(**i, last=True)),
        ),
    ),
    Claim(
        "own-lossy-path-all",
        "All-or-block of the depth k + s, s in [0, 1], is off by D_k + s (D_(k + 1) - D_k), gains L - i tokens or more "
        "by the price between D_i and D_(i + 1), and is on the frontier from the price D_(L - 1) on.",
        f"{PAGE}, Theorem 6",
        _deep,
        _all_or_block,
        cost=10,
        mutations=(Mutation("0.05 tokens more.", lambda **i: _all_or_block(**i, more=0.05)),),
    ),
    Claim(
        "own-lossy-path-continued",
        "Of rules whose text is continued by the target the best accepts no less than all-or-block, and from the price "
        "D_(L - 1) on as much as any rule.",
        f"{PAGE}, Theorem 7",
        _deep,
        _continued,
        tol=1e-8,
        cost=10,
        remark="By a linear program over what is accepted and what is put out.",
        mutations=(Mutation("From the price D_(L - 2) on.", lambda **i: _continued(**i, before=2)),),
    ),
    Claim(
        "own-lossy-path-two-tokens",
        "With two tokens, all-or-block is the best of these rules up to the price D_1, and at every D_k.",
        f"{PAGE}, conjecture after Theorem 7",
        _two_tokens,
        _best_of_two,
        tol=1e-8,
        cost=10,
        remark="Not proved.  With more tokens the best rule chooses where to put out what it does not accept.",
        mutations=(Mutation("It accepts as much as any rule.", _best_of_all),),
    ),
    Claim(
        "own-lossy-path-length",
        "All-or-block gains at most L tokens by the price.",
        f"{PAGE}, Theorem 7",
        _deep,
        _by_length,
        tol=1e-8,
        cost=10,
        expected=Verdict.FAILS,
        counterexample={
            "target": np.array([[0.5, 0.5], [0.5, 0.5], [0.5, 0.5], *[[0.5, 0.5]] * 4]),
            "draft": np.array([[0.75, 0.25], [0.5, 0.5], [1.0, 0.0]]),
            "length": 2,
            "depth": 0.4,
        },
        remedy="At most the sum of min(1, 1 - D_i + e) less what block verification accepts: what is paid also frees "
        "the rule from the target's continuation, which costs a lossless one up to the sum of 1 - D_i less that.",
        remark="The price 0.1 buys 0.25 tokens of two.",
    ),
)
