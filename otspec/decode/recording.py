"""Logits of a pair of models along the target's own text, written to disk as they come."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import PreTrainedModel

from otspec.data.recorded import RECORDED_FORMAT, TOP_FORMAT, PositionFile, Tensor
from otspec.decode.methods.measured import ending_tokens
from otspec.decode.methods.plain import plain
from otspec.decode.models.fingerprint import fingerprint
from otspec.decode.models.loading import Models
from otspec.errors import ProblemError
from otspec.reporting.machine import versions

STORED = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}
"""Types that logits can be stored in, as torch and as safetensors call them."""
BATCH = 8
"""Texts that are written and read together."""


class Logits(NamedTuple):
    """Of both models at one place of each of some texts."""

    target: torch.Tensor
    """Shape (texts, V)."""
    draft: torch.Tensor
    """Shape (texts, V)."""


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
        At which it samples, from its whole law; the logits are what the models say.
    """
    mask = torch.ones_like(prompts)
    written = plain(target, prompts, temperature=temperature, max_new_tokens=new, attention_mask=mask)
    eos = ending_tokens(target, {})
    room = [len(row) - (bool(row) and row[-1] in eos) for row in written.new_tokens]
    texts, length = written.sequences, prompts.shape[1]
    after = np.minimum(rng.integers(1, new + 1, size=len(texts)), room)
    kept = texts.shape[1] - length + 1  # after the prompt, and after each token that follows
    rows = torch.arange(len(texts), device=texts.device)
    places = torch.from_numpy(after).to(texts.device)
    return Logits(*(model(input_ids=texts, logits_to_keep=kept).logits[rows, places] for model in (target, draft)))


@dataclass(frozen=True, eq=False)
class Recording:
    """What to record: position i of the file follows prompt i modulo their number, in a text of its own.

    Raises
    ------
    ProblemError
        If the texts do not fit a model's context, or there is no such type, or no so many tokens.
    """

    models: Models
    names: tuple[str, str]
    """What the user calls target and draft."""
    prompts: Sequence[Sequence[int]]
    """Tokens of each."""
    positions: int
    new: int = 32
    """Tokens of a text after its prompt, at most."""
    temperature: float = 1.0
    """Of the texts."""
    seed: int = 0
    stored: str = "float16"
    """A name of `STORED`."""
    top_k: int | None = None
    """Keep the draft model's likeliest tokens alone, and the mass of the rest."""
    batch: int = BATCH

    def __post_init__(self) -> None:
        if self.stored not in STORED:
            raise ProblemError(f"logits cannot be stored as {self.stored!r}; known: {', '.join(STORED)}")
        if self.top_k is not None and not 1 <= self.top_k < self.vocab:
            raise ProblemError(f"top_k is {self.top_k}; of {self.vocab} tokens keep 1 to {self.vocab - 1}, or all")
        longest = max(map(len, self.prompts)) + self.new
        for model in (self.models.target, self._draft):
            context = getattr(model.config, "max_position_embeddings", None)
            if context is not None and longest > context:
                raise ProblemError(
                    f"a prompt and {self.new} tokens after it are {longest}, and a model reads {context}; shorten the "
                    "prompts or the texts"
                )

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
            "format": RECORDED_FORMAT if self.top_k is None else TOP_FORMAT,
            "target": [self.names[0], fingerprint(self.models.target)],
            "draft": [self.names[1], fingerprint(self._draft)],
            "vocab": self.vocab,
            "dtype": str(self.models.target.dtype).removeprefix("torch."),
            "device": self.models.target.device.type,
            "stored": self.stored,
            "top_k": self.top_k,
            "positions": self.positions,
            "prompts": {"count": len(self.prompts), "sha256": digest},
            "new_tokens": self.new,
            "temperature": self.temperature,
            "seed": self.seed,
            "batch": self.batch,
            "versions": versions("numpy", "torch", "transformers"),
        }

    @property
    def layout(self) -> dict[str, Tensor]:
        """The tensors of the file."""
        kind = STORED[self.stored]
        if self.top_k is None:
            whole = Tensor(kind, (self.positions, self.vocab))
            return {"target_logits": whole, "draft_logits": whole}
        top, rest = Tensor(kind, (self.positions, self.top_k)), Tensor("F64", (self.positions,))
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
        off = [(mine - theirs).abs().sum(1).max().item() for mine, theirs in zip(exact, held, strict=True)]
        self.target_l1_max, self.draft_l1_max = max(self.target_l1_max, off[0]), max(self.draft_l1_max, off[1])
        one, two = (torch.minimum(*laws).sum(1) for laws in (exact, held))
        self.acceptance_max = max(self.acceptance_max, (one - two).abs().max().item())
        self.acceptance_sum += one.sum().item()


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
        What the header of the file says: provenance, the mean acceptance of one draft, and the error of storing.

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
                _record_chunk(recording, file, prompt, rows, error)
                file.keep({"chunks": number + 1, "error": asdict(error)})
            progress(len(rows))
        found = asdict(error)
        acceptance = found.pop("acceptance_sum") / recording.positions
        about = {**recording.about, "acceptance": acceptance, "error_of_storing": found}
        file.finish(about)
    return about


def _record_chunk(recording: Recording, file: PositionFile, prompt: int, rows: range, error: StoringError) -> None:
    rng = np.random.default_rng([recording.seed, rows[0]])
    device = recording.models.target.device
    prompts = torch.tensor([list(recording.prompts[prompt])] * len(rows), device=device)
    with torch.inference_mode(), torch.random.fork_rng():
        torch.manual_seed(int(rng.integers(2**62)))
        both = own_logits(recording.models.target, recording._draft, prompts, recording.new, rng, recording.temperature)
    logs = [logits.double().log_softmax(1).cpu() for logits in both]
    kind = getattr(torch, recording.stored)
    if recording.top_k is None:
        kept = [(log - log.max(1, keepdim=True).values).to(kind) for log in logs]
        arrays = dict(zip(("target_logits", "draft_logits"), kept, strict=True))
        exact, held = [log.exp() for log in logs], [one.double().softmax(1) for one in kept]
    else:
        tokens = logs[1].topk(recording.top_k, dim=1).indices
        top = [log.gather(1, tokens) for log in logs]
        rest = [torch.ones_like(log).scatter(1, tokens, 0.0) * log.exp() for log in logs]
        masses = [one.sum(1) for one in rest]
        kept = [one.to(kind) for one in top]
        arrays = dict(zip(("target_top", "draft_top"), kept, strict=True))
        arrays |= {"tokens": tokens.int(), "target_rest": masses[0], "draft_rest": masses[1]}
        exact = [torch.cat([one.exp(), mass[:, None]], 1) for one, mass in zip(top, masses, strict=True)]
        held = [torch.cat([one.double().exp(), mass[:, None]], 1) for one, mass in zip(kept, masses, strict=True)]
        held = [one / one.sum(1, keepdim=True) for one in held]
    error.add((exact[0], exact[1]), (held[0], held[1]))
    for name, tensor in arrays.items():
        for row, values in zip(rows, tensor, strict=True):
            file.write(name, row, values.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
