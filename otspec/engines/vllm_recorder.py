"""What a live engine of vLLM's verifies, kept in files of `otspec record`: target laws, draft laws, and the drafts.

With ``OTSPEC_RECORD=FOLDER`` one chain is kept of every step of the first model runner, drawn at random among those
that are whole and were drawn from laws: as a tree of one path for `otspec bench paths`, and its first position for
`otspec bench`.  Whoever verifies, the laws are those that it is given, temperature, top-k and top-p included.

The files of a folder are parts of one recording, which is called after it; their headers are those of `otspec record`
(`otspec schema recording`), and say which models they are of if OTSPEC_RECORD_MODELS=TARGET,DRAFT does.

To keep a chain waits for the device.  After so many chains nothing is kept any more.  Serve no grammars meanwhile: a
chain that one refuses a token of cannot be kept, and the drafts of those that are left have another law.
"""

from __future__ import annotations

import atexit
import functools
import inspect
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from otspec.engines.loading import check_arguments
from otspec.engines.vllm import PLACEHOLDER, rejection_sample
from otspec.errors import ProblemError
from otspec.reporting.machine import versions

FOLDER, CHAINS, MODELS = "OTSPEC_RECORD", "OTSPEC_RECORD_CHAINS", "OTSPEC_RECORD_MODELS"
"""Variables of the environment: where files go, how many chains each process keeps, and of which models they are."""
MOST = 256
"""Chains that are kept if the environment does not say."""
AT_ONCE = 32
"""Chains of a file: so many are held in memory, and lost if the process is killed."""


class Chain(NamedTuple):
    """One request's drafts of one step."""

    tokens: Tensor
    """Shape (L,), int64."""
    target: Tensor
    """Shape (L, V), float32: logarithms of the target's laws before each token, less the largest."""
    draft: Tensor
    """Shape (L, V), float32: the same of the laws that the tokens were drawn from."""


class Recorder:
    """Keeps one chain of every step, and writes them to files.

    Parameters
    ----------
    folder : Path
        It is made if it is not there.
    most : int
        Chains that are kept.
    models : tuple of str
        What target and draft model are called, if that is known.
    """

    def __init__(self, folder: Path, most: int, models: tuple[str, ...] = ()) -> None:
        self.folder, self.most, self.models = folder, most, models
        folder.mkdir(parents=True, exist_ok=True)
        self._held: list[Chain] = []
        self._kept = self._files = 0

    def see(self, given: Mapping[str, Any]) -> None:
        """Take the arguments of `rejection_sample`, by name."""
        draft, lengths = given["draft_probs"], given["num_draft_tokens"]
        if self._kept == self.most or draft is None or given["sampling_metadata"].all_greedy:
            return
        longest = max(lengths, default=0)
        heat = given["sampling_metadata"].temperature
        tokens = given["draft_token_ids"].cpu().split(lengths)
        whole = [
            row
            for row, length in enumerate(lengths)
            if length == longest > 0 and float(heat[row]) > 0 and not (tokens[row] == PLACEHOLDER).any()
        ]
        if not whole or (self._held and len(self._held[0].tokens) != longest):
            return
        row = whole[int(torch.randint(len(whole), (), generator=_coins()))]
        rows = slice(sum(lengths[:row]), sum(lengths[: row + 1]))
        laws = given["target_logits"][rows].cpu().double().log_softmax(1), draft[rows].cpu().double().log()
        target, drawn = ((law - law.max(1, keepdim=True).values).float() for law in laws)
        self._held.append(Chain(tokens[row].long(), target, drawn))
        self._kept += 1
        if len(self._held) == AT_ONCE or self._kept == self.most:
            self.write()

    def write(self) -> None:
        """Write what is held."""
        if not self._held:
            return
        chains, self._held = self._held, []
        name = f"{os.getpid()}-{self._files}.safetensors"
        self._files += 1
        _write_trees(self.folder / f"trees-{name}", chains, self._about(chains))
        _write_positions(self.folder / f"positions-{name}", chains, self._about(chains))

    def _about(self, chains: list[Chain]) -> dict[str, Any]:
        """What headers say.  Texts are not told apart: each chain counts as of a prompt of its own."""
        from otspec.data.recorded import SCHEMA

        return {
            "schema": SCHEMA,
            "recording": self.folder.resolve().name,
            **{role: [name] for role, name in zip(("target", "draft"), self.models, strict=False)},
            "vocab": chains[0].target.shape[1],
            "stored": "float32",
            "top_k": None,
            "positions": len(chains),
            "prompts": {"count": len(chains)},
            "engine": "vLLM",
            "chosen": "a chain of every step, at random",
            "versions": versions("torch") | _engine_version(),
        }


def asked_for() -> Recorder | None:
    """The recorder that the environment asks for, if it does.

    Raises
    ------
    ProblemError
        If the number of chains is none, or the folder is a file, or models are not two.
    """
    if not (folder := os.environ.get(FOLDER)):
        return None
    most = os.environ.get(CHAINS, str(MOST))
    if not most.isdecimal() or int(most) < 1:
        raise ProblemError(f"the environment has {CHAINS}={most}; it is how many chains to keep, 1 or more")
    if Path(folder).exists() and not Path(folder).is_dir():
        raise ProblemError(f"the environment has {FOLDER}={folder}, which is a file; name a folder")
    models = tuple(name.strip() for name in os.environ.get(MODELS, "").split(",") if name.strip())
    if len(models) not in (0, 2):
        raise ProblemError(f"the environment has {MODELS}={os.environ[MODELS]}; it names two models, TARGET,DRAFT")
    return Recorder(Path(folder), int(most), models)


def put_in_place(module: ModuleType, recorder: Recorder) -> None:
    """Let a recorder see what the module's `rejection_sample` is called with, whosever it is; once.

    Raises
    ------
    ProblemError
        If the function takes arguments that we do not know.
    """
    theirs = module.rejection_sample
    if hasattr(theirs, "__otspec_recorder__"):
        return
    check_arguments(f"{module.__name__}.rejection_sample", theirs, rejection_sample)
    signature = inspect.signature(theirs)

    @functools.wraps(theirs)
    def seen(*positional: Any, **named: Any) -> Any:
        recorder.see(signature.bind(*positional, **named).arguments)
        return theirs(*positional, **named)

    seen.__otspec_recorder__ = recorder  # type: ignore[attr-defined]
    module.rejection_sample = seen  # type: ignore[attr-defined]
    atexit.register(recorder.write)


@functools.cache
def _coins() -> torch.Generator:
    """Of our own, so that texts are the same with and without a recorder."""
    return torch.Generator().manual_seed(os.getpid())


def _engine_version() -> dict[str, str]:
    """Of the engine in this process, whatever its distribution is called."""
    found = getattr(sys.modules.get("vllm"), "__version__", None)
    return {} if found is None else {"vllm": str(found)}


def _write_trees(path: Path, chains: list[Chain], about: Mapping[str, Any]) -> None:
    """Chains as trees of one path each; after a whole path the target's law is not known, and even in the file."""
    from otspec.data.recorded import Tensor as Stored
    from otspec.data.trees import TREES_FORMAT

    depth, vocab = chains[0].target.shape
    count = len(chains)
    layout = {
        "paths": Stored("I32", (count, 1, depth)),
        "nodes": Stored("I32", (count, 1, depth + 1)),
        "target_logits": Stored("F32", (count, depth + 1, vocab)),
        "draft_logits": Stored("F32", (count, depth, vocab)),
    }
    shape = {"paths": 1, "depth": depth, "law_after_a_path": "not known to the verifier: even"}
    rows = [
        {
            "paths": chain.tokens.int(),
            "nodes": torch.arange(depth + 1, dtype=torch.int32),
            "target_logits": chain.target,  # the last row is zeros
            "draft_logits": chain.draft,
        }
        for chain in chains
    ]
    _write(path, layout, {"format": TREES_FORMAT, **about, **shape}, rows)


def _write_positions(path: Path, chains: list[Chain], about: Mapping[str, Any]) -> None:
    """The first position of each chain."""
    from otspec.data.recorded import RECORDED_FORMAT
    from otspec.data.recorded import Tensor as Stored

    count, vocab = len(chains), chains[0].target.shape[1]
    layout = dict.fromkeys(("target_logits", "draft_logits"), Stored("F32", (count, vocab)))
    rows = [{"target_logits": chain.target[0], "draft_logits": chain.draft[0]} for chain in chains]
    _write(path, layout, {"format": RECORDED_FORMAT, **about}, rows)


def _write(path: Path, layout: Mapping[str, Any], about: Mapping[str, Any], rows: list[dict[str, Tensor]]) -> None:
    from otspec.data.recorded import PositionFile

    with PositionFile(path, layout, about) as file:
        for number, row in enumerate(rows):
            for name, values in row.items():
                file.write(name, number, values.contiguous().numpy().tobytes())
        file.finish(about)
