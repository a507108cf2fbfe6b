"""Models that come with the package: a small pair, and drafters for a larger target; see README.md beside this file.

Target and draft are Llamas with one byte-pair tokenizer, trained on the sources of Python's standard library:

    target, draft, tokenizer = otspec.decode.shipped.load()

`FOLDER` has them as `from_pretrained` wants them, in ``target`` and ``draft``; in ``eagle`` the draft model that was
trained further, with the target's hidden states to go by, and in ``foreign`` another one, which has a tokenizer of its
own: `eagle` and `foreign` load them.

``smollm2`` has drafters for a target that is a package of its own: `drafter` finds them by the target's weights.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from otspec.errors import DataError, ProblemError
from otspec.extras import require
from otspec.laws import IntArray
from otspec.vocab import Affinity, frequency_prune, load_affinity

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from otspec.decode.drafters.shortlists.router import Router
    from otspec.decode.drafters.shortlists.shortlists import Frequent

FOLDER = Path(__file__).parent
"""Where the package has its pair: folders ``target`` and ``draft``, each with the tokenizer."""
EAGLE = "eagle"
"""Beside them: the EAGLE-style draft model."""
FOREIGN = "foreign"
"""And a draft model with another tokenizer, and `AFFINITY`."""
AFFINITY = "affinity.safetensors"
"""Where the mass of its tokens goes, for `draft_kernel`."""
TRAINING, HELD_OUT_ROWS, FREQUENCIES = "training.json", "held_out.npz", "frequencies.npz"
"""Files beside them: the record of the training run, the held-out sequences that its curve is measured on, and how
often each token occurs in the text that was trained on."""
DRAFTERS = {"eagle": "shared", "parallel": "parallel"}
"""Draft models that it has for some targets, `drafter`, and what `otspec train` calls such models of any other."""
QUESTIONS = "questions.jsonl"
"""Forty prompts of our own in Spec-Bench's thirteen categories, some of two turns, for targets that answer."""
ROUTER = "router.safetensors"
"""Another: the clusters of the draft model's tokens, and the router among them (`otspec.decode.Router`)."""
SHORTLISTS = ("pa-fr", "dynaspec")
"""Names that `shortlist` knows."""


class Pair(NamedTuple):
    """Two models of one vocabulary, and its tokenizer."""

    target: PreTrainedModel
    draft: PreTrainedModel
    tokenizer: PreTrainedTokenizerFast


class ForeignDraft(NamedTuple):
    """A draft model with another tokenizer than the pair's."""

    draft: PreTrainedModel
    tokenizer: PreTrainedTokenizerFast
    affinity: Affinity
    """The matrix of Redistributing Drafter Kernels for it, over the pair's tokens."""


def held_out(tokens: int = 64) -> list[list[int]]:
    """Prompts that neither model was trained on: the first tokens of the package's held-out sequences."""
    with np.load(FOLDER / HELD_OUT_ROWS) as file:
        rows: list[list[int]] = file["rows"][:, :tokens].astype(int).tolist()
    return rows


def frequencies() -> IntArray:
    """How often each token occurs in the text that the pair was trained on, shape (V,)."""
    with np.load(FOLDER / FREQUENCIES) as file:
        counts: IntArray = file["counts"].astype(np.int64)
    return counts


def shortlist(name: str, size: int | None = None) -> Frequent | Router:
    """A value of ``draft_shortlist`` for the package's draft model.

    Parameters
    ----------
    name : str
        ``"pa-fr"``: the most frequent tokens, fewer the deeper a slot is.  ``"dynaspec"``: clusters that a router
        chooses by the context, fewer the deeper a slot is.
    size : int, optional
        The most that a shortlist holds: tokens, by default 3 of 8, or clusters, by default as in the router's file.

    Raises
    ------
    ProblemError
        If there is no shortlist of that name, or there is not so much to choose from.
    """
    from otspec.decode.drafters.shortlists.router import Router
    from otspec.decode.drafters.shortlists.shortlists import Budget, Frequent

    if name not in SHORTLISTS:
        raise ProblemError(f"no shortlist {name!r}; known: {', '.join(SHORTLISTS)}")
    if name == "dynaspec":
        router = Router.load(FOLDER / ROUTER)
        return router if size is None else router.within(replace(router.budget, most=size))
    counts = frequencies()
    most = 3 * counts.size // 8 if size is None else size
    return Frequent(frequency_prune(counts, most), Budget(most, falling=1))


def load(dtype: torch.dtype | None = None, folder: Path = FOLDER) -> Pair:
    """The pair, ready for inference on the CPU; nothing outside the folder is read.

    Parameters
    ----------
    dtype : torch.dtype, optional
        Of the weights in memory, float32 by default; the files hold float16.
    folder : Path
        With ``target`` and ``draft``; the package's own by default.

    Raises
    ------
    MissingExtra
        If torch or transformers is not installed.
    """
    target, draft = (_model(folder / name, dtype) for name in ("target", "draft"))
    return Pair(target, draft, tokenizer(folder))


def one_of_pair(
    role: str, dtype: torch.dtype | None = None, folder: Path = FOLDER
) -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    """The pair's target, or its draft model, and the tokenizer of both; as `load` otherwise.

    Raises
    ------
    MissingExtra
        If torch or transformers is not installed.
    """
    return _model(folder / role, dtype), tokenizer(folder)


def tokenizer(folder: Path = FOLDER) -> PreTrainedTokenizerFast:
    """The pair's tokenizer, without its models.

    Raises
    ------
    MissingExtra
        If transformers is not installed.
    """
    found: PreTrainedTokenizerFast = _tokenizer(folder / "target")
    return found


def eagle(dtype: torch.dtype | None = None, folder: Path = FOLDER) -> PreTrainedModel:
    """The pair's EAGLE-style draft model, which reads the target's hidden states too; all else is as in `load`.

    Raises
    ------
    MissingExtra
        If torch or transformers is not installed.
    """
    import otspec.decode.drafters.eagle.model  # noqa: F401  # makes its class known to transformers

    found: PreTrainedModel = _model(folder / EAGLE, dtype)
    return found


def foreign(dtype: torch.dtype | None = None, folder: Path = FOLDER) -> ForeignDraft:
    """A draft model for the pair's target that has another tokenizer; as `load` otherwise.

    Raises
    ------
    MissingExtra
        If torch, transformers or safetensors is not installed.
    """
    place = folder / FOREIGN
    return ForeignDraft(_model(place, dtype), _tokenizer(place), load_affinity(place / AFFINITY))


def drafter(kind: str, target: PreTrainedModel) -> PreTrainedModel:
    """A draft model of the package that was trained for a target, held as that is, on the CPU.

    Parameters
    ----------
    kind : str
        One of `DRAFTERS`.  ``"eagle"``: token by token from the target's states.  ``"parallel"``: all depths in one
        pass.
    target : PreTrainedModel
        Known by its weights, in whatever precision.

    Raises
    ------
    DataError
        If the package has none for that target.
    """
    import otspec.decode.drafters.eagle.model  # noqa: F401  # makes its class known to transformers
    from otspec.decode.models.fingerprint import fingerprint

    mark = fingerprint(target)
    for config in sorted(FOLDER.glob(f"**/{kind}/config.json")):
        if json.loads(config.read_text())["target"] == mark:
            found: PreTrainedModel = _model(config.parent, target.dtype)
            return found
    raise DataError(
        f"no draft model {kind!r} of this target comes with the package; `otspec train {DRAFTERS[kind]}` trains one, "
        "which is passed as --draft FOLDER"
    )


def _model(place: Path, dtype: torch.dtype | None) -> Any:
    wanted = require("torch").float32 if dtype is None else dtype
    found: Any = require("transformers").AutoModelForCausalLM
    return found.from_pretrained(place, dtype=wanted, local_files_only=True).eval()


def _tokenizer(place: Path) -> Any:
    return require("transformers").AutoTokenizer.from_pretrained(place, local_files_only=True)
