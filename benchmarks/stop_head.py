"""Whether a learnt head knows better than the draft model's own probability when to stop drafting.

    python -m benchmarks.stop_head --out report/stop_head

DISCO trains a classifier that ends a draft where the next token would be refused [mamou2024dynamic];
`--draft-confidence` ends it by the product of the draft model's probabilities.  Here both are asked offline, along
paths that are drafted after texts of the target's own, where the chance that each token is accepted is known exactly.
Heads are fitted on four fifths of the texts and asked about the rest, in turn; so are the threshold and the greatest
depth of every way to stop, the oracle's too, which knows the chances themselves.  A head costs nothing here.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

from benchmarks.reporting import Record, finish
from otspec.decode.lessons.texts import continued, own_texts
from otspec.decode.pacing.costs import PassTimes
from otspec.decode.pair.loading import SHIPPED, Models, load_models
from otspec.laws import BoolArray, FloatArray, IntArray
from otspec.reporting.console import progress_as_ours
from otspec.reporting.tables import TextTable

DEPTH, LENGTH, PLACES = 8, 96, (8, 24, 40, 56, 72, 88)
"""Tokens of a path, of a text, and before a path."""
FOLDS, RESAMPLED = 5, 1000
GREEDY = 1e-4
"""The temperature of paths that are drafted greedily."""
THRESHOLDS = np.concatenate(([0.0], np.geomspace(1e-2, 0.98, 24)))
TIMES: Mapping[str, tuple[PassTimes, float]] = {
    "a core": (PassTimes((1, 4, 32), (3.6e-3, 3.9e-3, 7.6e-3)), 0.3e-3),
    "8B/1B on a GPU": (PassTimes((1, 32), (8e-3, 8.2e-3)), 2.4e-3),
}
"""Seconds of the target's pass by its rows, and of the draft model's pass, as docs/measured/decoding.md has them."""
PLAIN, NUMBERS, STATES, NETWORK, ORACLE = "its probability", "numbers", "states", "network", "oracle"
FIXED = "none"
WAYS = {
    FIXED: "a fixed depth",
    PLAIN: "the draft model's probabilities, as `--draft-confidence`",
    NUMBERS: "logistic: probability, the largest, entropy, position",
    STATES: "logistic: these, and the draft model's hidden state",
    NETWORK: "32 hidden units on all of that",
    ORACLE: "the chance of acceptance itself",
}


class Paths(NamedTuple):
    """Drafted paths."""

    text: IntArray
    """Which text each follows, shape (paths,)."""
    accepted: FloatArray
    """The chance that each token is accepted, where those before it were, shape (paths, DEPTH)."""
    probability: FloatArray
    """Of each token, of the draft model's own, without temperature, shape (paths, DEPTH)."""
    numbers: FloatArray
    """What a head may look at, shape (paths, DEPTH, numbers)."""
    states: FloatArray
    """The draft model's last hidden state that each token was drawn from, shape (paths, DEPTH, hidden)."""


@torch.no_grad()
def drafted(models: Models, texts: IntArray, temperature: float) -> Paths:
    """Paths after all places of all texts, and what is known of them."""
    draft = models.draft
    assert draft is not None
    found = []
    for place in PLACES:
        prompts = torch.from_numpy(texts[:, :place])
        torch.manual_seed(place)
        tokens = continued(draft, prompts, torch.full((len(texts),), temperature or GREEDY), place + DEPTH)
        said = draft(tokens[:, :-1], output_hidden_states=True, use_cache=False)
        q = said.logits[:, -DEPTH:].double().softmax(-1)
        p = models.target(tokens[:, :-1], use_cache=False).logits[:, -DEPTH:].double().softmax(-1)
        drawn = tokens[:, -DEPTH:, None]
        own, its = q.gather(-1, drawn)[..., 0], p.gather(-1, drawn)[..., 0]
        accepted = (its / own).clamp(max=1) if temperature else (p.argmax(-1) == drawn[..., 0]).double()
        entropy = torch.special.entr(q).sum(-1)
        position = torch.arange(DEPTH).expand_as(own)
        numbers = torch.stack((own.log(), own, q.amax(-1), entropy, position), -1)
        states = said.hidden_states[-1][:, -DEPTH:]
        found.append([one.double().numpy() for one in (accepted, own, numbers, states)])
    return Paths(np.tile(np.arange(len(texts)), len(PLACES)), *map(np.concatenate, zip(*found, strict=True)))


def fitted(inputs: FloatArray, accepted: FloatArray, weight: FloatArray, hidden: int) -> nn.Module:
    """A head that gives the logit of acceptance, fitted to chances, shape (...), each as often as it matters."""
    width = inputs.shape[-1]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layers = [nn.Linear(width, hidden), nn.Tanh(), nn.Linear(hidden, 1)] if hidden else [nn.Linear(width, 1)]
        head = nn.Sequential(*layers).double()
    x, y, w = (torch.from_numpy(one) for one in (inputs, accepted, weight / weight.mean()))
    optimiser = torch.optim.AdamW(head.parameters(), lr=1e-2, weight_decay=1e-2)
    for _ in range(200):
        optimiser.zero_grad()
        binary_cross_entropy_with_logits(head(x)[..., 0], y, w).backward()
        optimiser.step()
    return head


def chances(paths: Paths, learnt: BoolArray, inputs: FloatArray, hidden: int) -> FloatArray:
    """What a head that is fitted to some paths says of all tokens, shape (paths, DEPTH)."""
    some = inputs[learnt]
    scaled = (inputs - some.mean((0, 1))) / (some.std((0, 1)) + 1e-9)
    head = fitted(scaled[learnt], paths.accepted[learnt], reach(paths.accepted)[learnt, :-1], hidden)
    with torch.no_grad():
        said: FloatArray = head(torch.from_numpy(scaled))[..., 0].sigmoid().numpy()
    return said


def reach(chances: FloatArray) -> FloatArray:
    """The chance that so many tokens are accepted, from none on, shape (paths, DEPTH + 1)."""
    return np.concatenate((np.ones((len(chances), 1)), np.cumprod(chances, axis=1)), axis=1)


def auc(score: FloatArray, accepted: FloatArray, weight: FloatArray) -> float:
    """The chance that an accepted token has a larger score than a refused one, each as often as it comes."""
    order = np.argsort(score, kind="stable")
    good, bad = (weight * accepted)[order], (weight * (1 - accepted))[order]
    below: FloatArray = np.cumsum(bad) - bad / 2
    return float(good @ below / (good.sum() * bad.sum()))


class Steps:
    """Tokens and seconds of steps that draft so many tokens of some paths.

    Parameters
    ----------
    accepted : ndarray, shape (paths, DEPTH)
        As `Paths` has it.
    times : (PassTimes, float)
        Of the target, and of the draft model.
    """

    def __init__(self, accepted: FloatArray, times: tuple[PassTimes, float]) -> None:
        target, draft = times
        self._tokens = np.cumsum(reach(accepted), axis=1)
        self._seconds = np.array([target(1 + rows) + rows * draft for rows in range(DEPTH + 1)])

    def spent(self, depth: IntArray) -> FloatArray:
        """Tokens and seconds of each step, shape (paths, 2), by its depth."""
        return np.stack((self._tokens[np.arange(len(depth)), depth], self._seconds[depth]), axis=1)

    def best(self, score: FloatArray, learnt: BoolArray) -> IntArray:
        """The depths of all paths, by the threshold and the greatest depth that are best for some.

        A path ends after the first token at which the product of the scores is below the threshold.
        """
        sure = np.cumprod(score, axis=1)
        found = []
        for threshold in THRESHOLDS if (score != 1).any() else THRESHOLDS[:1]:
            low = sure < threshold
            first = np.where(low.any(1), low.argmax(1) + 1, DEPTH)
            found += [np.minimum(first, most) for most in range(1, DEPTH + 1)]
        return max(found, key=lambda depth: np.divide(*self.spent(depth)[learnt].sum(0)))


def measured(paths: Paths, temperature: float) -> Iterator[Record]:
    """A record for every way to stop."""
    everything = np.concatenate((paths.numbers, paths.states), axis=-1)
    heads = {NUMBERS: (paths.numbers, 0), STATES: (everything, 0), NETWORK: (everything, 32)}
    weight = reach(paths.accepted)[:, :-1]
    steps: dict[tuple[str, str], FloatArray] = {}
    scores = {way: np.empty_like(paths.probability) for way in WAYS}
    each = {where: Steps(paths.accepted, times) for where, times in TIMES.items()}
    for fold in range(FOLDS):
        aside = paths.text % FOLDS == fold
        said = {FIXED: np.ones_like(paths.probability), PLAIN: paths.probability, ORACLE: paths.accepted}
        said |= {way: chances(paths, ~aside, *given) for way, given in heads.items()}
        for way, score in said.items():
            scores[way][aside] = score[aside]
            for where, step in each.items():
                spent = step.spent(step.best(score, ~aside))
                steps.setdefault((way, where), np.empty_like(spent))[aside] = spent[aside]
    for way in WAYS:
        record: Record = {"temperature": temperature, "way": way}
        if way not in (FIXED, ORACLE):
            record["auc"] = auc(scores[way].ravel(), paths.accepted.ravel(), weight.ravel())
        for where in TIMES:
            record[where] = _against(paths.text, steps[way, where], steps[PLAIN, where])
        yield record


def _against(text: IntArray, steps: FloatArray, plain: FloatArray) -> list[float]:
    """Tokens a second, and how many times those of another way, with ends of an interval over texts."""
    count = text.max() + 1
    sums = np.stack([[np.bincount(text, column) for column in one.T] for one in (steps, plain)])  # way, number, text
    drawn = np.random.default_rng(0).integers(count, size=(RESAMPLED, count))
    resampled = sums[..., drawn].sum(-1)
    ratio = (resampled[0, 0] / resampled[0, 1]) / (resampled[1, 0] / resampled[1, 1])
    own, other = (one[0].sum() / one[1].sum() for one in sums)
    return [float(one) for one in (own, own / other, *np.quantile(ratio, (0.025, 0.975)))]


def table(records: Sequence[Record], title: str) -> TextTable:
    """Ways to stop by how well they tell what is accepted, and what that is worth."""
    lines = []
    for one in records:
        worth = [
            f"{rate:.1f}, {ratio:.3f} [{low:.3f}, {high:.3f}]" for rate, ratio, low, high in map(one.__getitem__, TIMES)
        ]
        told = f"{one['auc']:.3f}" if "auc" in one else ""
        lines.append((f"{one['temperature']:g}", WAYS[one["way"]], told, *worth))
    note = (
        f"Paths of {DEPTH} tokens at most, token by token verified. AUC: of accepted against refused tokens. Tokens a "
        "second by seconds of passes, over those by the draft model's probabilities, 95 % intervals over texts."
    )
    return TextTable(title, ("temperature", "stops by", "AUC", *TIMES), lines, note, labels=2)


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default=SHIPPED, help="as otspec decode takes it")
    parser.add_argument("--draft", default=SHIPPED, help="a draft model that drafts by itself")
    parser.add_argument("--texts", type=int, default=400, help="that the target writes")
    parser.add_argument("--out", type=Path, default=Path("report_stop_head"), help="folder for everything")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    progress_as_ours()
    models = load_models(asked.target, asked.draft, "cpu", "float32")
    begin = [[models.tokenizer.bos_token_id]]
    texts = own_texts(models.target, begin, asked.texts, LENGTH, path=asked.out / "texts.safetensors")
    records = [
        record for temperature in (1.0, 0.0) for record in measured(drafted(models, texts, temperature), temperature)
    ]
    title = f"When to stop drafting: {asked.target}, {asked.draft}, {asked.texts} texts"
    finish(asked.out, records, [table(records, title)], [])


if __name__ == "__main__":
    main()
