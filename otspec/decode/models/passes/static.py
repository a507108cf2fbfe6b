"""Passes of few shapes over a cache of fixed size: on a GPU each is captured as a CUDA graph, and replayed.

The host takes longer to launch the hundreds of kernels of a pass than a GPU takes to run them: it reads 8 billion
weights in 5 ms, and waits 30 to 50 ms for who launches.  A graph is one launch.  It reads and writes the same addresses
every time, so the cache has a size that lasts, a mask hides what is not there yet, and the rows of a pass are filled up
to one of few counts.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any
from weakref import ReferenceType, WeakKeyDictionary, finalize, ref

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import Cache, PreTrainedModel

from otspec.decode.base.graphs import Replayed
from otspec.decode.models.passes.cache import SPARE, FixedBlock, Place, fixed_layers
from otspec.decode.models.passes.fused import Llama
from otspec.decode.models.passes.plain import is_untouched
from otspec.decode.models.passes.signature import UNCONDITIONED, Conditioning, Outputs
from otspec.decode.models.passes.single_graph import Run, Steps
from otspec.decode.models.passes.transformers_reader import TransformersReader
from otspec.laws import IntArray

SWITCH = "OTSPEC_CUDA_GRAPHS"
"""The environment's way to do without: 0."""
LEAST_COLUMNS = 256
"""Of a cache; a longer one is twice as long, or four times, ..."""
MOST_ROWS = 2048
"""Of a pass that is captured, over all texts: its logits are kept, half a gigabyte in half precision at V = 128k."""
MOST_PASSES = 32
"""Captured for one cache at a time: the last ones used; a pace has a dozen shapes, each after one new token or two."""
MOST_ROOMS = 2
"""Caches that are kept for the next text, of each model, with their graphs: these take a while to capture."""

Written = Sequence[tuple[torch.Tensor, torch.Tensor]]
"""Keys and values that layers have written."""


def _of_rows(found: Outputs, batch: int, rows: int, keep: int) -> Outputs:
    """Copies of what belongs to the rows that were asked about, which the next replay does not overwrite."""
    features = None if found.features is None else found.features[:batch, :rows].clone()
    return Outputs(found.logits[:batch, rows - keep : rows].clone(), features)


class FixedPass:
    """A pass over so many rows of so many texts, where it finds its inputs, and the graph once there is one.

    Parameters
    ----------
    batch, rows : int
    columns : int
        Of the cache.
    masked : bool
        Whether it is told what each row sees; if not, all that was read, and all of the pass.
    like : Tensor
        Of the type of the mask, and on the device.
    """

    def __init__(self, batch: int, rows: int, columns: int, masked: bool, like: torch.Tensor) -> None:
        with torch.inference_mode(False):
            self.tokens = torch.zeros(batch, rows, dtype=torch.long, device=like.device)
            self.position = torch.zeros_like(self.tokens)
            self._start = torch.zeros(2, dtype=torch.long, device=like.device)
            self._sees = like.new_zeros(batch, 1, rows, columns) if masked else like.new_zeros(1, 1, 1, columns)
        self._masked = masked
        self.conditioning = UNCONDITIONED
        """Of all rows, where there is some: as large as what came first says."""
        self.replayed: Replayed[Outputs] = Replayed()

    def fill(
        self,
        tokens: torch.Tensor,
        position: torch.Tensor,
        mask: torch.Tensor | None,
        start: int,
        conditioning: Conditioning = UNCONDITIONED,
    ) -> None:
        """Tell it what to read; rows and texts that fill it up read whatever was there, and see all of it.

        Who sees nothing becomes NaN in some implementations, and what is NaN in a cache no mask hides.
        """
        batch, rows = tokens.shape
        self.tokens[:batch, :rows] = tokens
        self.position[:batch, :rows] = position
        self._start[:1].fill_(start)
        self._start[1:].fill_(start + rows)
        if mask is not None:
            self._sees.zero_()
            self._sees[:batch, :, :rows, : start + rows] = mask
        if conditioning == UNCONDITIONED:
            return
        if self.conditioning == UNCONDITIONED:
            with torch.inference_mode(False):
                self.conditioning = Conditioning(*map(self._room, conditioning))
        for mine, theirs in zip(self.conditioning, conditioning, strict=True):
            if mine is not None and theirs is not None:
                mine[..., :batch, :rows, :] = theirs

    def _room(self, one: torch.Tensor | None) -> torch.Tensor | None:
        """For what has the shape (..., B, N, d), of all rows."""
        return None if one is None else one.new_zeros(*one.shape[:-3], *self.tokens.shape, one.shape[-1])

    @property
    def columns(self) -> torch.Tensor:
        """Where it writes, shape (rows,), computed where it is read."""
        return self._start[:1] + torch.arange(self.tokens.shape[1], device=self.tokens.device)

    @property
    def mask(self) -> torch.Tensor:
        """Added to scores, shape (B, 1, rows, columns), computed where it is read."""
        unwritten = torch.arange(self._sees.shape[-1], device=self._sees.device) >= self._start[1:]
        mask = self._sees.masked_fill(unwritten, torch.finfo(self._sees.dtype).min)
        return mask if self._masked else mask.expand(len(self.tokens), -1, self.tokens.shape[1], -1)

    def run(self, forward: Callable[[FixedPass], Outputs], pool: Any) -> Outputs:
        """Launch by launch the first time, captured the second.

        Parameters
        ----------
        forward : callable
        pool : object
            Where graphs put what they need in between; None to launch always.
        """
        return self.replayed.run(lambda _: forward(self), pool)


class Workspace:
    """A cache of fixed size for a batch, and the passes over it.

    Parameters
    ----------
    key : object
        What passes depend on beside the batch and the columns.
    written : sequence of pairs of Tensors, shape (B, heads, any, size)
        What layers of these shapes have written as keys and values.
    columns : int
    """

    angles: tuple[torch.Tensor, torch.Tensor]
    """Of all positions, shape (columns, size), where the pass is a `Llama`'s."""
    pool: Any
    """Where graphs put what they need in between; None where nothing is captured."""

    def __init__(self, key: object, written: Written, columns: int) -> None:
        self.key, self.batch, self.columns = key, len(written[0][0]), columns
        self.place = Place()
        self.blocks: list[FixedBlock]
        self.blocks, layers = fixed_layers(written, columns, self.place)
        self.cache = Cache(layers=layers)
        self.passes: dict[tuple[int, int, bool, tuple[bool, ...]], FixedPass] = {}
        self.runs: dict[object, Run] = {}
        self.refused: set[object] = set()
        """Runs that cannot be captured."""
        # What a graph leaves there is copied before the next is replayed, so they share it.
        self.pool = torch.cuda.graph_pool_handle() if self.blocks[0].entries.device.type == "cuda" else None

    def take(self, written: Written, columns: int) -> None:
        """Copy the first columns of what layers have written, and forget all else: it might not be finite."""
        for block in self.blocks:
            block.entries.zero_()
        for layer, (keys, values) in zip(self.cache.layers, written, strict=True):
            layer.keys[:, :, :columns] = keys[:, :, :columns]
            layer.values[:, :, :columns] = values[:, :, :columns]

    def a_pass(self, batch: int, rows: int, masked: bool, conditioning: Conditioning = UNCONDITIONED) -> FixedPass:
        """The pass over so many rows of so many texts, or more, which is told as much."""
        batch, rows = min(1 << (batch - 1).bit_length(), self.batch), filled_up(rows)
        like, told = self.blocks[0].entries, tuple(one is not None for one in conditioning)
        key = batch, rows, masked, told
        return _used(self.passes, key, lambda: FixedPass(batch, rows, self.columns, masked, like))

    def a_run(self, key: object, inputs: Sequence[torch.Tensor], batch: int) -> Run:
        """The steps that are known by this."""
        return _used(self.runs, key, lambda: Run(inputs, batch, self.blocks[0].entries.device))

    def refuse(self, key: object) -> None:
        """Capture no run of this key any more; what its passes do can still be captured.

        Into another pool: that of a capture which broke off may be left as if it were recorded to, and takes no other.
        """
        self.refused.add(key)
        self.pool = torch.cuda.graph_pool_handle()

    def launch(self) -> None:
        """Capture nothing from now on: the model does what no graph takes."""
        self.pool = None
        self.passes.clear()
        self.runs.clear()


def _used(kept: dict[Any, Any], key: object, make: Callable[[], Any]) -> Any:
    """One of those kept, or a new one; it is the last used, and the first goes if there are too many."""
    found = kept.pop(key, None) or make()
    while len(kept) >= MOST_PASSES:
        kept.pop(next(iter(kept)))
    kept[key] = found
    return found


class StaticReader:
    """A reader, as `otspec.decode.models.passes.reader.Reader` describes it, of a model on a GPU.

    Parameters
    ----------
    model : PreTrainedModel
        One that `takes` says yes to.
    layers : sequence of int
        After how many layers hidden states are wanted.
    """

    def __init__(self, model: PreTrainedModel, layers: Sequence[int] = ()) -> None:
        self._plain = TransformersReader(model, layers)
        # In float64 transformers' own norms are in float32, and a leaner pass would be another model.
        self._llama = Llama(model, layers) if Llama.takes(model) and model.dtype != torch.float64 else None
        self._held: list[Workspace] = []
        # A workspace outlives its text, and waits for the next one.
        finalize(self, _give_back, ref(model), self._held).atexit = False

    @staticmethod
    def takes(model: PreTrainedModel) -> bool:
        """Whether what a pass does depends on its inputs alone, which are here, and a GPU is there to replay it."""
        return model.device.type == "cuda" and os.environ.get(SWITCH) != "0" and can_stand(model)

    def begin(
        self,
        tokens: torch.Tensor,
        present: torch.Tensor,
        position: torch.Tensor,
        *,
        keep: int = 1,
        conditioning: Conditioning = UNCONDITIONED,
    ) -> Outputs:
        """Read texts from their starts, launch by launch: prompts have many lengths, and keep a GPU busy."""
        found = self._plain.begin(tokens, present, position, keep=keep, conditioning=conditioning)
        self._move_in(tokens.shape[1])
        return found

    def read(
        self,
        tokens: torch.Tensor,
        position: torch.Tensor,
        mask: torch.Tensor | None,
        start: int,
        keep: int,
        conditioning: Conditioning = UNCONDITIONED,
    ) -> Outputs:
        """As `Reader.read`."""
        batch, rows = tokens.shape
        if not self._held:  # the prompts were empty
            found = self._plain.read(tokens, position, mask, start, keep, conditioning)
            self._move_in(rows)
            return found
        self._reserve(start, start + filled_up(rows))
        workspace = self._held[0]
        one = workspace.a_pass(batch, rows, mask is not None, conditioning)
        one.fill(tokens, position, mask, start, conditioning)
        try:
            found = one.run(self._forward, workspace.pool if one.tokens.numel() <= MOST_ROWS else None)
        except RuntimeError as error:
            self._check_refusal(error)
            workspace.launch()
            name, why = type(self._plain.model).__name__, str(error).partition("\n")[0]
            warnings.warn(f"passes of {name} cannot be captured as CUDA graphs, and are launched: {why}", stacklevel=2)
            return self.read(tokens, position, mask, start, keep, conditioning)
        return _of_rows(found, batch, rows, keep)

    def do(
        self,
        key: object,
        steps: Callable[[Run], Steps],
        inputs: Sequence[torch.Tensor],
        place: tuple[IntArray, int, int],
        generator: torch.Generator,
    ) -> tuple[Run, tuple[torch.Tensor, ...]] | None:
        """Do several passes, and what is between them, in one: what they gave, or None if they are to be launched.

        Parameters
        ----------
        key : object
            What the steps are known by: they do the same at inputs of the same shapes.
        steps : callable
            Those of a run.
        inputs : sequence of Tensors
        place : triple of an array and two ints
            Tokens read of each text, columns that are settled, and how many the steps add.
        generator : torch.Generator
        """
        length, end, more = place
        if not self._held or not can_be_one(self._held[0]) or len(length) != self._held[0].batch:
            return None
        self._reserve(end, end + more)
        workspace = self._held[0]
        if key in workspace.refused:
            return None
        run = workspace.a_run(key, inputs, len(length))
        run.fill(inputs, length, end)
        try:
            return run, run.do(steps(run), generator, workspace.pool)
        except RuntimeError as error:
            self._check_refusal(error)
            workspace.refuse(key)
            return None

    def read_at(
        self,
        run: Run,
        tokens: torch.Tensor,
        position: torch.Tensor,
        sees: torch.Tensor | None,
        trial: int,
        conditioning: Conditioning = UNCONDITIONED,
    ) -> Outputs:
        """What comes after a block within a run, logits of shape (B, N, V): only the device knows where it is.

        Parameters
        ----------
        run : Run
        tokens, position : Tensor of int, shape (B, N)
        sees : Tensor of bool, shape (B or 1, N, trial + N), optional
            As `otspec.decode.models.context.Context.read` takes it.
        trial : int
            Columns on trial before the block.
        conditioning : Conditioning
        """
        workspace, rows = self._held[0], tokens.shape[1]
        workspace.place.columns = run.end + trial + torch.arange(rows, device=tokens.device)
        column = torch.arange(workspace.columns, device=tokens.device)
        since = column - run.end
        on_trial = (since >= 0) & (since < trial + rows)
        if sees is not None:
            on_trial = on_trial & sees[..., since.clamp(0, trial + rows - 1)]
        visible = (column < run.length[:, None]).unsqueeze(1) | on_trial
        mask = torch.zeros(visible.shape, dtype=workspace.blocks[0].entries.dtype, device=tokens.device)
        mask = mask.masked_fill(~visible, torch.finfo(mask.dtype).min).unsqueeze(1)
        return self._pass(tokens, mask.expand(len(tokens), -1, rows, -1), position, conditioning)

    def _forward(self, one: FixedPass) -> Outputs:
        self._held[0].place.columns = one.columns
        return self._pass(one.tokens, one.mask, one.position, one.conditioning)

    def _pass(
        self, tokens: torch.Tensor, mask: torch.Tensor, position: torch.Tensor, conditioning: Conditioning
    ) -> Outputs:
        """Logits of all rows, whose keys and values go where the workspace says."""
        batch, rows = tokens.shape
        if self._llama is None:
            return self._plain.forward(tokens, mask, position, rows, conditioning)
        layers, (cosine, sine) = self._held[0].cache.layers, self._held[0].angles
        key_heads = self._llama.key_heads
        mask = mask.repeat(1, 1, self._llama.heads // key_heads, 1)

        def attend(number: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
            keys, values = layers[number].update(key, value)
            rows_of_keys = query.reshape(batch, key_heads, -1, query.shape[-1])  # heads of one key as so many queries
            return scaled_dot_product_attention(rows_of_keys, keys, values, attn_mask=mask).reshape(query.shape)

        return self._llama.read(tokens, (cosine[position], sine[position]), rows, attend, conditioning)

    def _check_refusal(self, error: RuntimeError) -> None:
        """Raise unless the error may be about a capture."""
        if self._held[0].pool is None or isinstance(error, torch.OutOfMemoryError):
            raise error

    @property
    def blocks(self) -> Sequence[FixedBlock]:
        """All of the cache."""
        return self._held[0].blocks if self._held else []

    def _move_in(self, columns: int) -> None:
        """From the cache of a first pass to one of fixed size: one that is free and fits, or a new one."""
        written = [
            (keys.entries[0], values.entries[0]) for keys, values in (one.blocks for one in self._plain.cache.layers)
        ]
        key = _state(self._plain.model), tuple(self._plain.layers)
        self._enter(self._workspace(key, written, columns + SPARE), written, columns)

    def _reserve(self, written: int, columns: int) -> None:
        """Move to a longer cache if a text outgrows its own."""
        old = self._held[0]
        if columns > old.columns:
            layers = [(layer.keys, layer.values) for layer in old.cache.layers]
            self._enter(self._workspace(old.key, layers, columns), layers, written)
            _FREE[self._plain.model].append(old)

    def _workspace(self, key: object, written: Written, columns: int) -> Workspace:
        """A workspace that is free and has so many columns, or a new one."""
        batch = len(written[0][0])
        with _ONE_AT_A_TIME:
            free = _FREE.setdefault(self._plain.model, [])
            for workspace in sorted(free, key=lambda workspace: workspace.columns):
                if (workspace.key, workspace.batch) == (key, batch) and workspace.columns >= columns:
                    free.remove(workspace)
                    return workspace
        room = max(LEAST_COLUMNS, 1 << (columns - 1).bit_length())
        try:
            workspace = Workspace(key, written, room)
        except torch.OutOfMemoryError as error:
            name = type(self._plain.model).__name__
            raise torch.OutOfMemoryError(
                f"the GPU has no memory left for keys and values of {name} at {room} tokens of each of {batch} texts; "
                "decode fewer texts at a time, or shorter ones"
            ) from error
        if self._llama is not None:
            with torch.inference_mode(False):
                workspace.angles = self._llama.angles(workspace.columns)
        return workspace

    def _enter(self, workspace: Workspace, written: Written, columns: int) -> None:
        workspace.take(written, columns)
        self._held[:] = [workspace]
        self._plain.cache = workspace.cache


def can_stand(model: PreTrainedModel) -> bool:
    """Whether a pass of the model can be repeated at other inputs: what it depends on is what `Reader.read` takes."""
    shared = getattr(model.config.get_text_config(), "num_kv_shared_layers", None)  # these look into others' caches
    return not model.training and not shared and is_untouched(model)


def can_be_one(workspace: Workspace) -> bool:
    """Whether steps can be captured here: with what they draw, which torch has from 2.4 on."""
    return workspace.pool is not None and hasattr(torch.cuda.CUDAGraph, "register_generator_state")


def filled_up(rows: int) -> int:
    """Rows of the pass that reads so many: few counts, so that few passes are captured."""
    return 1 << (rows - 1).bit_length() if rows <= 8 else -(-rows // 8) * 8


def _state(model: PreTrainedModel) -> object:
    """What a graph took for granted: where the weights are, and how they are used."""
    weights = (*model.parameters(), *model.buffers())
    return model.config._attn_implementation, tuple((one.data_ptr(), one.dtype) for one in weights)


_FREE: WeakKeyDictionary[PreTrainedModel, list[Workspace]] = WeakKeyDictionary()
_ONE_AT_A_TIME = Lock()
"""Threads that decode with one model do not take one workspace."""


def _give_back(model: ReferenceType[PreTrainedModel], held: list[Workspace]) -> None:
    """Keep a workspace for the next text of its model; those that waited longest make place."""
    free = _FREE.get(model()) if held and model() is not None else None
    if free is not None:
        free += held
        del free[:-MOST_ROOMS]
