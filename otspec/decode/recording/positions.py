"""Logits of a pair of models along the target's own text, written to disk as they come."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn.functional import pad
from transformers import LogitsProcessorList, PreTrainedModel

from otspec.data.recorded import RECORDED_FORMAT, SCHEMA, TOP_FORMAT, PositionFile, Tensor
from otspec.decode.base.draft_laws import draft_law
from otspec.decode.base.sampling import Sampling
from otspec.decode.drafters.catalogue import draft_vocabulary_of, drafter_of, needs_features
from otspec.decode.drafters.levels import LevelDrafter
from otspec.decode.methods.assisted import plain
from otspec.decode.methods.transformers_own import ending_tokens
from otspec.decode.models.context import positions, vocabulary
from otspec.decode.models.fingerprint import fingerprint
from otspec.decode.models.own_config import own_config
from otspec.decode.models.target import Target
from otspec.decode.pair.loading import Models
from otspec.decode.step.strategy import listed
from otspec.errors import ProblemError
from otspec.laws import IntArray
from otspec.reporting.machine import versions
from otspec.settings import Count, Seed, Temperature, check
from otspec.verification.trees.shape import Shape
from otspec.verification.trees.topology import Topology

STORED = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}
"""Types that logits can be stored in, as torch and as safetensors call them."""
BATCH = 8
"""Texts that are written and read together."""


Stored = Mapping[str, torch.Tensor | Sequence[torch.Tensor]]
"""Rows of the tensors of a file, by name."""


class Logits(NamedTuple):
    """Of both models at one place of each of some texts."""

    target: torch.Tensor
    """Shape (texts, V)."""
    draft: torch.Tensor
    """Shape (texts, V)."""


def own_places(
    target: PreTrainedModel, prompts: torch.Tensor, new: int, rng: np.random.Generator, temperature: float = 1.0
) -> tuple[torch.Tensor, IntArray]:
    """Texts that the target goes on with, padded on the right, and how many new tokens are before a place in each.

    Parameters are those of `own_logits`.
    """
    mask = torch.ones_like(prompts)
    written = plain(target, prompts, temperature=temperature, max_new_tokens=new, attention_mask=mask)
    eos = ending_tokens(target, {})
    room = [len(row) - (bool(row) and row[-1] in eos) for row in written.new_tokens]
    after = np.minimum(rng.integers(1, new + 1, size=len(written.sequences)), room)
    return written.sequences, after


def own_logits(
    target: PreTrainedModel,
    draft: PreTrainedModel,
    prompts: torch.Tensor,
    new: int,
    rng: np.random.Generator,
    temperature: float = 1.0,
) -> Logits:
    """Logits at a place of the text that the target goes on with, in torch's global random state.

    The place is after 1 to `new` tokens, uniformly, or before the token that ends the text, where that comes first.

    Parameters
    ----------
    target, draft : PreTrainedModel
    prompts : Tensor of int, shape (texts, S)
    new : int
        Tokens that the target samples, at most.
    rng : Generator
        For the places.
    temperature : float
        At which it samples, from its whole law; the logits are the models' own.
    """
    texts, after = own_places(target, prompts, new, rng, temperature)
    if needs_features(draft):
        return _by_a_drafter(target, draft, begun(texts, prompts, after))
    positions = texts.shape[1] - prompts.shape[1] + 1  # after the prompt, and after each token that follows
    rows = torch.arange(len(texts), device=texts.device)
    places = torch.from_numpy(after).to(texts.device)
    return Logits(*(model(input_ids=texts, logits_to_keep=positions).logits[rows, places] for model in (target, draft)))


def begun(texts: torch.Tensor, prompts: torch.Tensor, after: IntArray) -> list[list[int]]:
    """Texts up to a place in each, as `own_places` gives them."""
    before = prompts.shape[1]
    return [text[: before + more] for text, more in zip(texts.tolist(), after.tolist(), strict=True)]


def drafting(
    target: PreTrainedModel,
    draft: PreTrainedModel,
    texts: Sequence[Sequence[int]],
    shape: Shape,
    sampling: Sampling,
    generator: torch.Generator,
) -> tuple[LevelDrafter, Target]:
    """A drafter that has read texts, with the hidden states of the target that it receives; and the target."""
    models, vocab = (draft,), vocabulary(target)
    drafter = drafter_of(models, shape, draft_law("iid"), sampling, vocab, generator, draft_vocabulary_of(models))
    assert isinstance(drafter, LevelDrafter)
    reading = Target(target, texts, drafter.layers)
    if drafter.layers:
        drafter.observe(reading.features)
    drafter.start(texts)
    return drafter, reading


def _by_a_drafter(target: PreTrainedModel, draft: PreTrainedModel, texts: Sequence[Sequence[int]]) -> Logits:
    """Logits after texts, where the draft model reads more than these."""
    sampling = Sampling(LogitsProcessorList(), do_sample=True)
    drafter, reading = drafting(target, draft, texts, Shape.paths(1, 1), sampling, torch.Generator(target.device))
    root = Topology.merge(Shape(()), np.empty(0, dtype=np.int64))
    return Logits(reading.read(texts, [root] * len(texts)), drafter.logits(texts))


@dataclass(frozen=True, eq=False)
class Recording:
    """What to record: position i of the file follows prompt i modulo their number, in a text of its own.

    Raises
    ------
    ProblemError
        If a number is out of its range, there are no prompts, the texts do not fit a model's context, there is no such
        type, or no so many tokens, or the draft model has another tokenizer.
    """

    models: Models
    names: tuple[str, str]
    """The user's names for target and draft."""
    prompts: Sequence[Sequence[int]]
    """Tokens of each."""
    positions: Count
    new: Count = 32
    """Tokens of a text after its prompt, at most."""
    temperature: Temperature = 1.0
    """Of the texts."""
    seed: Seed = 0
    stored: str = "float16"
    """A name of `STORED`."""
    top_k: int | None = None
    """Store the draft model's likeliest tokens alone, and the mass of the rest."""
    batch: Count = BATCH
    rest_at: Sequence[float] = (1.0,)
    """With `top_k`, the temperatures at which the mass of the rest is stored."""

    def __post_init__(self) -> None:
        check(self)
        if not self.prompts or not all(map(len, self.prompts)):
            raise ProblemError("no prompts, or an empty one; texts go on with prompts, so pass some")
        if not self.rest_at or not all(0 < temperature < math.inf for temperature in self.rest_at):
            raise ProblemError(
                f"the rest is stored at temperatures, and they are {list(self.rest_at)}; pass finite ones above 0"
            )
        if self.stored not in STORED:
            raise ProblemError(f"logits cannot be stored as {self.stored!r}; known: {', '.join(STORED)}")
        if self.top_k is not None and not 1 <= self.top_k < self.vocab:
            raise ProblemError(f"top_k is {self.top_k}; of {self.vocab} tokens store 1 to {self.vocab - 1}, or all")
        if self.models.matching is not None:
            raise ProblemError(
                f"{self.names[1]} has another tokenizer than {self.names[0]}, and its laws are over other tokens; pass "
                "a draft model that shares the target's"
            )
        check_room(self.prompts, self.after_prompt, self.models)

    @property
    def after_prompt(self) -> int:
        """Tokens that the models read after a prompt, at most."""
        return self.new

    @property
    def _draft(self) -> PreTrainedModel:
        assert self.models.draft is not None
        return self.models.draft

    @property
    def vocab(self) -> int:
        """V."""
        return int(self.models.target.config.vocab_size)

    @cached_property
    def about(self) -> dict[str, Any]:
        """Provenance, for the header of the file; what differs in it is another recording."""
        digest = hashlib.sha256(json.dumps([list(row) for row in self.prompts]).encode()).hexdigest()
        return {
            "schema": SCHEMA,
            "format": self.format,
            "target": [self.names[0], fingerprint(self.models.target)],
            "draft": [self.names[1], fingerprint(self._draft)],
            "vocab": self.vocab,
            "dtype": str(self.models.target.dtype).removeprefix("torch."),
            "device": self.models.target.device.type,
            "stored": self.stored,
            "top_k": self.top_k,
            "rest_at": list(self.rest_at),
            "positions": self.positions,
            "prompts": {"count": len(self.prompts), "sha256": digest},
            "new_tokens": self.new,
            "temperature": self.temperature,
            "own_config": own_config(self.models.target, greedy=self.temperature == 0),
            "seed": self.seed,
            "batch": self.batch,
            "versions": versions("numpy", "torch", "transformers"),
        }

    @property
    def format(self) -> str:
        """The format of the file, for its header."""
        return RECORDED_FORMAT if self.top_k is None else TOP_FORMAT

    @property
    def layout(self) -> dict[str, Tensor]:
        """The tensors of the file, each with its type and shape."""
        kind = STORED[self.stored]
        if self.top_k is None:
            whole = Tensor(kind, (self.positions, self.vocab))
            return {"target_logits": whole, "draft_logits": whole}
        top, rest = Tensor(kind, (self.positions, self.top_k)), Tensor("F64", (self.positions, len(self.rest_at)))
        tokens = Tensor("I32", (self.positions, self.top_k))
        return {"target_top": top, "draft_top": top, "tokens": tokens, "target_rest": rest, "draft_rest": rest}

    @property
    def chunks(self) -> list[tuple[int, range]]:
        """Prompt and rows of what is done in one go: texts of one prompt, so that none is padded."""
        step = len(self.prompts)
        rows = [range(prompt, self.positions, step) for prompt in range(min(step, self.positions))]
        return [
            (mine.start, mine[first : first + self.batch]) for mine in rows for first in range(0, len(mine), self.batch)
        ]

    def arrays(self, prompt: int, rows: range, error: StoringError) -> Stored:
        """What the file holds of some rows, all of one prompt, by the names of `layout`; the error counts them."""
        rng, prompts = self._begun(prompt, rows)
        with torch.inference_mode(), torch.random.fork_rng():
            torch.manual_seed(int(rng.integers(2**62)))
            both = own_logits(self.models.target, self._draft, prompts, self.new, rng, self.temperature)
        logs = [logits.double().log_softmax(1).cpu() for logits in both]
        kind = getattr(torch, self.stored)
        if self.top_k is None:
            stored = [less_the_largest(log, kind) for log in logs]
            error.add((logs[0].exp(), logs[1].exp()), (law_of(stored[0]), law_of(stored[1])))
            return dict(zip(("target_logits", "draft_logits"), stored, strict=True))
        tokens = logs[1].topk(self.top_k, dim=1).indices
        parts = [Likeliest.of(log, tokens, kind) for log in logs]
        # Drafts are among these tokens: the draft model's rest is never drawn.
        drawn = [pad(of[:, :-1] / of[:, :-1].sum(1, keepdim=True), (0, 1)) for of in (parts[1].exact, parts[1].held)]
        error.add((parts[0].exact, drawn[0]), (parts[0].held, drawn[1]))
        rests = [
            torch.stack([rest_of((log / temperature).log_softmax(1), tokens) for temperature in self.rest_at], 1)
            for log in logs
        ]
        tops = {"target_top": parts[0].top, "draft_top": parts[1].top, "tokens": tokens.int()}
        return {**tops, "target_rest": rests[0], "draft_rest": rests[1]}

    def _begun(self, prompt: int, rows: range) -> tuple[np.random.Generator, torch.Tensor]:
        """Random numbers of some rows, and their prompt as often as there are rows."""
        tokens = [list(self.prompts[prompt])] * len(rows)
        return np.random.default_rng([self.seed, rows[0]]), torch.tensor(tokens, device=self.models.target.device)


def check_room(prompts: Sequence[Sequence[int]], new: int, models: Models) -> None:
    """Raise unless all models have positions for each prompt and so many tokens after it."""
    longest = max(map(len, prompts), default=0) + new
    if longest > (room := min(map(positions, (models.target, *listed(models.drafts))))):
        raise ProblemError(f"a prompt and {new} tokens after it are {longest}, and a model reads {room}; shorten one")


def less_the_largest(log: torch.Tensor, kind: torch.dtype) -> torch.Tensor:
    """Logits along the last axis as they are stored: what is large is exact to more digits after the point."""
    return (log - log.max(-1, keepdim=True).values).to(kind)


def law_of(stored: torch.Tensor) -> torch.Tensor:
    """The laws that stored logits stand for."""
    return stored.double().softmax(-1)


def rest_of(log: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """The mass of all but some tokens, (rows, k), by the logarithms of laws, (rows, V): shape (rows,)."""
    return (torch.ones_like(log).scatter(1, tokens, 0.0) * log.exp()).sum(1)


class Likeliest(NamedTuple):
    """Some tokens of laws, and the mass of all others."""

    top: torch.Tensor
    """Shape (rows, k): logarithms of their probabilities, as stored."""
    rest: torch.Tensor
    """Shape (rows,)."""
    exact: torch.Tensor
    """Shape (rows, k + 1): the laws of these tokens and the rest, as the models have them."""
    held: torch.Tensor
    """The same as stored, shape (rows, k + 1)."""

    @classmethod
    def of(cls, log: torch.Tensor, tokens: torch.Tensor, kind: torch.dtype) -> Likeliest:
        """Of the logarithms of laws, shape (rows, V), at tokens, (rows, k)."""
        top = log.gather(1, tokens)
        rest = rest_of(log, tokens)
        stored = top.to(kind)
        exact = torch.cat([top.exp(), rest[:, None]], 1)
        held = torch.cat([stored.double().exp(), rest[:, None]], 1)
        return cls(stored, rest, exact, held / held.sum(1, keepdim=True))


@dataclass
class StoringError:
    """How far the laws of what is stored are off those of the models."""

    target_l1_max: float = 0.0
    draft_l1_max: float = 0.0
    acceptance_max: float = 0.0
    """The largest change of sum min(p, q)."""
    acceptance_sum: float = field(default=0.0)
    """Of sum min(p, q) as the models have it."""

    def add(self, exact: tuple[torch.Tensor, torch.Tensor], held: tuple[torch.Tensor, torch.Tensor]) -> None:
        """Count some positions: laws of target and draft, each of shape (positions, tokens)."""
        off = [largest_l1(*laws) for laws in zip(exact, held, strict=True)]
        self.target_l1_max, self.draft_l1_max = max(self.target_l1_max, off[0]), max(self.draft_l1_max, off[1])
        one, two = (torch.minimum(*laws).sum(1) for laws in (exact, held))
        self.acceptance_max = max(self.acceptance_max, (one - two).abs().max().item())
        self.acceptance_sum += one.sum().item()


def largest_l1(exact: torch.Tensor, held: torch.Tensor) -> float:
    """The largest L1 distance of laws, shape (..., V), to what became of them."""
    return (exact - held).abs().sum(-1).max().item()


def record(recording: Recording, path: Path, progress: Callable[[int], None] = lambda rows: None) -> dict[str, Any]:
    """Write positions to a safetensors file, a few at a time; the same call goes on where a killed one stopped.

    Parameters
    ----------
    recording : Recording
    path : Path
        Of the file; until it is whole there are PATH.part and PATH.state instead.
    progress : callable
        Called with the number of positions just dealt with.

    Returns
    -------
    dict
        The header of the file: provenance, the mean acceptance of one draft, and the error of storing.

    Raises
    ------
    DataError
        If PATH.part is of another recording.
    """
    with PositionFile(path, recording.layout, recording.about) as file:
        error = StoringError(**file.state.get("error", {}))
        done = int(file.state.get("chunks", 0))
        for number, (prompt, rows) in enumerate(recording.chunks):
            if number >= done:
                for name, stored in recording.arrays(prompt, rows, error).items():
                    for row, values in zip(rows, stored, strict=True):
                        file.write(name, row, values.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
                file.keep({"chunks": number + 1, "error": asdict(error)})
            progress(len(rows))
        found = asdict(error)
        acceptance = found.pop("acceptance_sum") / recording.positions
        about = {**recording.about, "acceptance": acceptance, "error_of_storing": found}
        file.finish(about)
    return about
