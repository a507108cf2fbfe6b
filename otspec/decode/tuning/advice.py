"""What tuning measured of one text, said for servers: how many tokens to draft by the number of requests in a batch."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

from otspec.decode.pacing.costs import PassCosts, PassTimes, Step
from otspec.decode.tuning.candidates import Family
from otspec.decode.tuning.tuner import Tuning
from otspec.errors import ProblemError
from otspec.reporting.tables import TextTable

SHOWN = (1, 4, 16)
"""Batches whose gain is told."""
LARGEST = 256
"""The largest batch that a schedule goes to: vLLM's default of requests at once."""


@dataclass(frozen=True)
class Advice:
    """How many tokens to draft in chains, and what that gains, by the batch.

    A step of B requests and K tokens is K passes of the draft model over B rows, and one of the target over B (K + 1).
    It gives each request 1 token and those that are accepted; plain decoding gives it 1 for the target's pass over B
    rows.  What a server does besides passes is not counted.

    Parameters
    ----------
    target, draft : PassTimes
    acceptance : tuple of float
        Entry d - 1: how often d tokens or more were accepted of as many or more.

    Examples
    --------
    >>> from otspec.decode import PassTimes
    >>> from otspec.decode.tuning.advice import Advice
    >>> rising = PassTimes((1, 4, 64), (1.0, 1.0, 16.0))  # four rows cost what one does
    >>> advice = Advice(rising, PassTimes((1, 64), (0.1, 0.1)), acceptance=(0.8, 0.5, 0.3))
    >>> advice.schedule(most=8)
    [(1, 1, 3), (2, 3, 1), (4, 8, 0)]
    >>> round(advice.speed_up(batch=1, depth=3), 6)
    2.0
    """

    target: PassTimes
    draft: PassTimes
    acceptance: tuple[float, ...]

    @classmethod
    def of(cls, tuning: Tuning) -> Advice:
        """From the trial of one whole path.

        Raises
        ------
        ProblemError
            If there was none, as servers draft chains; or no pass of the draft model was timed.
        """
        if tuning.model.draft is None:
            raise ProblemError(
                "the draft model has no pass of its own to be timed by rows, so that nothing can be said of batches; "
                "tune another one, or measure in the server"
            )
        trial = tuning.model.trials.get(Family(1, "block"))
        if trial is None:
            raise ProblemError("servers draft one path, and none was tried; add 1 to paths")
        return cls(tuning.model.target, tuning.model.draft, trial.acceptance)

    def tokens(self, depth: int) -> float:
        """Of a step, for each request."""
        return 1.0 + sum(self.acceptance[:depth])

    def speed_up(self, batch: int, depth: int) -> float:
        """Over plain decoding of the same batch; 1 without drafts."""
        costs = PassCosts(self.target, self.draft)
        return self.tokens(depth) * costs(Step(batch, ())) / costs(Step(batch, (1,) * depth))

    def best(self, batch: int) -> int:
        """The depth that gains most, the least of several; 0 where none gains."""
        return max(range(len(self.acceptance) + 1), key=lambda depth: self.speed_up(batch, depth))

    def schedule(self, most: int = LARGEST) -> list[tuple[int, int, int]]:
        """The best depth from batch to batch: first, last, depth."""
        found = []
        for depth, same in groupby(range(1, most + 1), self.best):
            batches = list(same)
            found.append((batches[0], batches[-1], depth))
        return found

    def stops(self, most: int = LARGEST) -> int | None:
        """The least batch from which on no drafts pay; None if they still do at the most."""
        last = max((last for _, last, depth in self.schedule(most) if depth), default=0)
        return last + 1 if last < most else None

    @property
    def measured_to(self) -> int:
        """How many requests of plain decoding, and of one drafted token, lie within what was timed."""
        return min(self.target.rows[-1] // 2, self.draft.rows[-1])


class DraftModel(NamedTuple):
    """What a server is to draft with."""

    name: str
    """As the server is to find it."""
    eagle: bool = False
    """Whether it reads the target's hidden states."""
    sampled: bool = True
    """Whether drafts are drawn, at a temperature above 0."""


def _vllm(advice: Advice, draft: DraftModel) -> str:
    """Its schedule is of triples; a batch beyond the last has the last one's depth, and the largest sizes buffers."""
    schedule = advice.schedule()
    given: dict[str, Any] = {
        "method": "eagle3" if draft.eagle else "draft_model",
        "model": draft.name,
        "num_speculative_tokens": max(depth for *_, depth in schedule),
    }
    if len(schedule) > 1:
        given["num_speculative_tokens_per_batch_size"] = schedule
    if draft.sampled:
        given |= {"draft_sample_method": "probabilistic", "rejection_sample_method": "block"}
    return f"--speculative-config {shlex.quote(json.dumps(given))}"


def _sglang(advice: Advice, draft: DraftModel) -> str:
    """A chain of so many steps; the root counts as a draft token."""
    depth = advice.best(1)
    return (
        f"--speculative-algorithm {'EAGLE3' if draft.eagle else 'STANDALONE'} "
        f"--speculative-draft-model-path {shlex.quote(draft.name)} "
        f"--speculative-num-steps {depth} --speculative-eagle-topk 1 --speculative-num-draft-tokens {depth + 1}"
    )


def _llama_cpp(advice: Advice, draft: DraftModel) -> str:
    """Its older names --draft-max and --draft-min have been removed."""
    drawn = " --spec-draft-sampling probabilistic" if draft.sampled else ""
    return (
        f"--spec-type {'draft-eagle3' if draft.eagle else 'draft-simple'} "
        f"--spec-draft-model {shlex.quote(draft.name)} "
        f"--spec-draft-n-max {advice.best(1)} --spec-draft-n-min 0 --spec-draft-p-min 0{drawn}"
    )


SERVERS: Mapping[str, Callable[[Advice, DraftModel], str]] = {
    "vllm": _vllm,
    "sglang": _sglang,
    "llama.cpp": _llama_cpp,
}
"""What says the settings of a server."""


def settings_for(server: str, advice: Advice, draft: DraftModel) -> str:
    """The command-line settings of a server, a name of `SERVERS`; or a sentence where it had better not draft."""
    if advice.stops() == 1:
        return f"none: no number of drafted tokens pays at any batch, so leave {server}'s speculation off"
    if server != "vllm" and advice.best(1) == 0:
        return f"none: drafts do not pay at batch 1, which is what {server}'s single number is chosen for"
    return SERVERS[server](advice, draft)


def advice_table(advice: Advice) -> TextTable:
    """Predicted gains by the batch, and what they were predicted from."""
    fixed = advice.best(1)
    rows: list[tuple[str, ...]] = [
        (
            str(batch),
            str(best := advice.best(batch)),
            f"{advice.tokens(best):.2f}",
            f"{advice.speed_up(batch, best):.2f}",
            f"{advice.speed_up(batch, fixed):.2f}",
            "yes" if batch * (best + 1) <= advice.target.rows[-1] and batch <= advice.draft.rows[-1] else "no",
        )
        for batch in SHOWN
    ]
    accepted = ", ".join(f"{share:.2f}" for share in advice.acceptance)
    note = (
        f"Measured by us, on this machine: passes over up to {advice.target.rows[-1]} rows of the target and "
        f"{advice.draft.rows[-1]} of the draft model, and how often 1, 2, ... drafted tokens in a row were accepted "
        f"({accepted}), by block verification; a token-wise rule accepts a little less behind the first. Predicted: "
        "all of this table, from these alone. K is the best number of drafted tokens; timed says whether its passes "
        f"lie within what was timed, others are on a line beyond it. {_ending(advice)} A server's own passes, and what "
        "it does besides, differ: measure there before you rely on it."
    )
    header = ("batch", "K", "tokens/step", "speed-up", f"with K = {fixed}", "timed")
    return TextTable("Predicted for a server", header, rows, note, labels=1)


def _ending(advice: Advice) -> str:
    """From which batch on it does not pay, in a sentence."""
    stops = advice.stops()
    if stops is None:
        return f"Drafts pay up to {LARGEST} requests, the most that were looked at."
    beyond = "" if stops <= advice.measured_to else ", which lies beyond what was timed"
    return f"Drafts stop paying at {stops} request{'s' * (stops > 1)}{beyond}."
