"""A selector of shapes: what each of them gives after a text, learnt from text that the target has written itself.

Nothing is drafted for it.  A rule that picks a path accepts d tokens or more with a probability that is a mean over
texts of the target's (docs/paths.md), so that one text and both models' laws along it are labels for all shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import PreTrainedModel

from otspec.decode.harness import run
from otspec.decode.methods.vanilla import Vanilla
from otspec.decode.models.context import positions as positions_of
from otspec.decode.models.context import vocabulary
from otspec.decode.models.fingerprint import fingerprint
from otspec.decode.models.loading import batch_of
from otspec.decode.pacing.menu import USUAL, Branching, menu_of, prefixes
from otspec.decode.pacing.selector import OF_TEXT, Selector, remembered, signs_of_law, standardised, terms
from otspec.errors import ProblemError
from otspec.laws import FloatArray, as_count, as_float
from otspec.paths import Nested
from otspec.paths.shape import Shape
from otspec.paths.walking import Line, reach_along

AT_ONCE = 16
"""Texts that are written together."""
RIDGE = 30.0
"""How many positions the weights are held to 0 by."""


class Places(NamedTuple):
    """Where in a text drafting may begin."""

    shared: list[float]
    """sum min(p, q) of the text's new tokens, in order."""
    known: list[int]
    """How many of these are known at each place."""
    of_law: FloatArray
    """Shape (places, 2): signs of the draft model's law there."""
    reach: FloatArray
    """Shape (places, branchings): what is accepted there, given the text."""

    def signs(self, start: float) -> FloatArray:
        """All signs, shape (places, 5), where nothing is known of a text at first but what texts share on average."""
        past = [[start] * OF_TEXT]
        for value in self.shared:
            past.append(remembered(past[-1], value))
        return np.concatenate((np.array(past)[self.known], self.of_law), axis=1)


def train_selector(
    target: PreTrainedModel,
    draft: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    *,
    menu: Sequence[Sequence[int]] = USUAL,
    temperatures: Sequence[float] = (1.0,),
    max_new_tokens: int = 96,
    positions: int = 4000,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Selector:
    """Learn what nested labels accept of each shape, from how alike both models' laws were and how sure the draft is.

    The target writes a text after each prompt at each temperature.  At places of these, drawn at random, the expected
    acceptance of every shape is computed from both models' laws, and a ridge regression on the signs and their
    products is fitted to it.

    Parameters
    ----------
    target, draft : PreTrainedModel
        Of one tokenizer.
    prompts : sequence of lists of int
        Such as will be decoded; some dozens.
    menu : sequence of sequences of int
        The branchings that are to be chosen among.
    temperatures : sequence of float
        At which texts are written and drafted, above 0; one selector serves them all.
    max_new_tokens : int
        Of each text.
    positions : int
        How many places are learnt from, about; each takes some milliseconds a shape, more for large vocabularies.
    seed : int
    progress : callable
        Told how many texts are done, and of how many.

    Raises
    ------
    ProblemError
        If there are no prompts, the models have different tokens, or a number is out of its range.

    Examples
    --------
    >>> from otspec.decode import shipped, train_selector
    >>> target, draft, _ = shipped.load()
    >>> small = {"max_new_tokens": 12, "positions": 30}  # some dozens of prompts and thousands of places are better
    >>> selector = train_selector(target, draft, shipped.held_out(8)[:6], menu=[(1, 1, 1), (2, 1)], **small)
    >>> len(selector.branchings), selector.about["texts"]
    (5, 6)
    """
    shapes = menu_of(menu)
    longest = max(shape.depth for shape in shapes)
    new, count = as_count("max_new_tokens", max_new_tokens), as_count("positions", positions)
    _check(target, draft, prompts, temperatures, new, longest)
    rng = np.random.default_rng(seed)
    texts = list(_written(target, draft, prompts, temperatures, new, longest, seed))
    share = min(count / max(sum(len(text) - begin - longest + 1 for text, begin, _ in texts), 1), 1.0)
    found = list[Places]()
    for number, (text, begin, temperature) in enumerate(texts):
        chosen = [at for at in range(begin, len(text) - longest + 1) if rng.random() < share]
        found.append(_places(target, draft, text, begin, chosen, temperature, shapes))
        progress(number + 1, len(texts))
    start = float(np.mean([value for one in found for value in one.shared]))
    signs, reach = [one.signs(start) for one in found], [one.reach for one in found]
    learnt, accepted = (np.concatenate(each) for each in (signs, reach))
    if len(learnt) < 2:
        raise ProblemError(f"texts end too soon to draft {longest} tokens in them; pass other prompts, or more of them")
    mean, scale = learnt.mean(axis=0), learnt.std(axis=0) + 1e-9
    mean[:OF_TEXT] = start  # so that a text of which nothing is known is an average one
    known = terms(standardised(learnt, mean, scale))
    free = RIDGE * np.eye(known.shape[1])
    free[0, 0] = 0.0  # the mean is not held
    weights = np.linalg.solve(known.T @ known + free, known.T @ accepted).T.astype(np.float64)
    about = {
        "target": fingerprint(target),
        "draft": fingerprint(draft),
        "temperatures": list(temperatures),
        "texts": len(texts),
        "positions": len(learnt),
    }
    return Selector([shape.branching for shape in shapes], weights, mean, scale, about)


def _check(
    target: PreTrainedModel,
    draft: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    temperatures: Sequence[float],
    new: int,
    longest: int,
) -> None:
    if not prompts or not all(prompts):
        raise ProblemError("no prompts, or an empty one; pass some, such as will be decoded")
    if vocabulary(target) != vocabulary(draft):
        raise ProblemError(
            f"the target has {vocabulary(target)} tokens, and the draft model {vocabulary(draft)}; pass a pair of one "
            "vocabulary"
        )
    if not temperatures or not all(0 < as_float(one) < np.inf for one in temperatures):
        raise ProblemError(f"temperatures are {list(temperatures)}; pass one or more above 0, where drafts are drawn")
    if new <= longest:
        raise ProblemError(f"max_new_tokens is {new}, and the menu drafts {longest}; ask for more, 96 or so")


def _written(
    target: PreTrainedModel,
    draft: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    temperatures: Sequence[float],
    new: int,
    longest: int,
    seed: int,
) -> Iterator[tuple[list[int], int, float]]:
    """Texts that the target writes, where each prompt ends, and the temperature."""
    room = int(min(positions_of(target), positions_of(draft), 1 << 30)) - new
    if room < 1:
        raise ProblemError(f"max_new_tokens is {new}, and the models leave no position for a prompt; ask for fewer")
    rows = [list(prompt[-room:]) for prompt in prompts]
    for number, temperature in enumerate(temperatures):
        for first in range(0, len(rows), AT_ONCE):
            some = rows[first : first + AT_ONCE]
            settings: dict[str, Any] = {
                **batch_of(some, target.device),
                "max_new_tokens": new,
                "seed": seed + number * len(rows) + first,
            }
            written = run(target, Vanilla(), temperature=temperature, **settings)
            for row, more in zip(some, written.new_tokens, strict=True):
                if len(more) >= longest:
                    yield [*row, *more], len(row), temperature


@torch.no_grad()
def _places(
    target: PreTrainedModel,
    draft: PreTrainedModel,
    text: Sequence[int],
    begin: int,
    chosen: Sequence[int],
    temperature: float,
    shapes: Sequence[Shape],
) -> Places:
    """What is seen, and what is accepted, where the next token is one of those chosen; new tokens begin somewhere."""
    ids = torch.tensor([list(text[:-1])], device=target.device)
    laws = [
        (model(input_ids=ids, use_cache=False).logits[0].double() / temperature).softmax(dim=-1)
        for model in (target, draft)
    ]
    shared = torch.minimum(*laws).sum(dim=-1)[begin - 1 :].tolist()
    of_law = signs_of_law(laws[1])
    said, drawn = (each.cpu().numpy() for each in laws)
    tokens = np.array(text)
    reach = [_reach(Line(said[at - 1 :], drawn[at - 1 :], tokens[at:]), shapes) for at in chosen]
    # Of the token at a place nothing is known but the draft model's law.
    known = [at - begin for at in chosen]
    return Places(shared, known, of_law[[at - 1 for at in chosen]], np.array(reach).reshape(-1, len(prefixes(shapes))))


def _reach(line: Line, shapes: Sequence[Shape]) -> list[float]:
    """P(as many tokens as the branching has levels are accepted) given a text, for all that the shapes begin with."""
    rule, found = Nested(), dict[Branching, float]()
    for shape in sorted(shapes, key=lambda shape: shape.depth, reverse=True):  # the longest tell of the others
        if shape.branching not in found:
            depth = shape.depth
            begin = Line(line.target[:depth], line.draft[:depth], line.tokens[:depth])
            each = reach_along(rule, begin, shape)
            for level, chance in enumerate(each.tolist(), start=1):
                found.setdefault(shape.branching[:level], chance)
    return [found[branching] for branching in prefixes(shapes)]
