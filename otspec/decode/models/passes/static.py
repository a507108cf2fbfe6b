"""Passes of few shapes over a cache of fixed size: on a GPU each is captured as a CUDA graph, and replayed.

The host takes longer to launch the hundreds of kernels of a pass than a GPU takes to run them: it reads 8 billion
weights in 5 ms, and waits 30 to 50 ms for the host.  A graph is one launch.  It reads and writes the same addresses
every time, so the cache has a size that lasts, a mask hides what is not there yet, and the rows of a pass are filled up
to one of few counts.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from threading import Lock
from weakref import ReferenceType, WeakKeyDictionary, finalize, ref

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import PreTrainedModel

from otspec.decode.models.passes.cache import SPARE, FixedBlock, outputs_at
from otspec.decode.models.passes.few_rows import Cache, FewRows
from otspec.decode.models.passes.fused import Llama
from otspec.decode.models.passes.plain import is_untouched
from otspec.decode.models.passes.signature import Inputs, Outputs
from otspec.decode.models.passes.single_graph import GraphedSequence, Steps
from otspec.decode.models.passes.transformers_reader import TransformersReader
from otspec.decode.models.passes.workspace import FixedPass, Workspace, Written, filled_up
from otspec.extras import installed
from otspec.laws import IntArray

SWITCH = "OTSPEC_CUDA_GRAPHS"
"""The environment's way to do without: 0."""
LEAST_COLUMNS = 256
"""Of a cache; a longer one is twice as long, or four times, ..."""
SHORT = 256
"""Tokens of prompts at most that are read as a tree is, in a pass that is captured."""
MOST_ROWS = 2048
"""Of a pass that is captured, over all texts: its logits are stored, half a gigabyte in half precision at V = 128k."""
MOST_ROOMS = 2
"""Caches that are kept for the next text, of each model, with their graphs: these take a while to capture."""


def _of_rows(found: Outputs, batch: int, rows: int, keep: int) -> Outputs:
    """Copies of what belongs to the requested rows, which the next replay does not overwrite."""
    features = None if found.features is None else found.features[:batch, :rows].clone()
    return Outputs(found.logits[:batch, rows - keep : rows].clone(), features)


class StaticReader:
    """A reader, as `otspec.decode.models.passes.signature.Reader` describes it, of a model on a GPU.

    Parameters
    ----------
    model : PreTrainedModel
        One that `takes` accepts.
    layers : sequence of int
        After how many layers hidden states are wanted.
    """

    def __init__(self, model: PreTrainedModel, layers: Sequence[int] = ()) -> None:
        self._plain = TransformersReader(model, layers)
        # In float64 transformers' own norms are in float32, and a leaner pass would be another model.
        self._llama = Llama(model, layers) if Llama.takes(model) and model.dtype != torch.float64 else None
        self._few = None if self._llama is None else FewRows.of(self._llama)
        self._remembers = has_no_head(model)
        self._held: list[Workspace] = []
        # A workspace outlives its text, and waits for the next one.
        finalize(self, _give_back, ref(model), self._held).atexit = False

    @staticmethod
    def takes(model: PreTrainedModel) -> bool:
        """Whether what a pass does depends on its inputs alone, which are here, and a GPU is there to replay it."""
        return model.device.type == "cuda" and os.environ.get(SWITCH) != "0" and can_stand(model)

    def read(self, inputs: Inputs) -> Outputs:
        """As `Reader.read`; long prompts launch by launch: they have many lengths, and keep a GPU busy."""
        batch, rows = inputs.tokens.shape
        if not self._held and not self._begin(batch, rows):
            found = self._plain.read(inputs._replace(keep=rows if self._remembers else inputs.keep))
            self._move_in(rows, found.logits if self._remembers else None)
            return found._replace(logits=found.logits[:, -inputs.keep :])
        if inputs.present is not None:
            inputs = inputs._replace(mask=self._causal(rows), present=None)
        self._reserve(inputs.start, inputs.start + filled_up(rows))
        workspace = self._held[0]
        one = workspace.a_pass(inputs)
        one.fill(inputs)
        try:
            pool = workspace.pool if one.tokens.numel() <= MOST_ROWS else None
            found = one.replayed.run(lambda _: self._forward(one), pool)
        except RuntimeError as error:
            self._check_refusal(error)
            workspace.launch()
            name, why = type(self._plain.model).__name__, str(error).partition("\n")[0]
            warnings.warn(f"passes of {name} cannot be captured as CUDA graphs, and are launched: {why}", stacklevel=2)
            return self.read(inputs)
        return _of_rows(found, batch, rows, inputs.keep)

    def do(
        self,
        key: object,
        steps: Callable[[GraphedSequence], Steps],
        inputs: Sequence[torch.Tensor],
        place: tuple[IntArray, int, int],
        generator: torch.Generator | None,
    ) -> tuple[GraphedSequence, tuple[torch.Tensor, ...]] | None:
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
        generator : torch.Generator, optional
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

    def read_at(self, run: GraphedSequence, inputs: Inputs, sees: torch.Tensor | None) -> Outputs:
        """What comes after a block within a run: only the device knows where it is.

        Parameters
        ----------
        run : GraphedSequence
        inputs : Inputs
            Without a mask; its start is the number of columns on trial before it.
        sees : Tensor of bool, shape (B or 1, N, start + N), optional
            As `otspec.decode.models.context.Context.read` takes it.
        """
        workspace, rows = self._held[0], inputs.tokens.shape[1]
        stop = inputs.start + rows
        workspace.place.columns = workspace.column[inputs.start : stop] + run.end
        mask = _mask_of(run, workspace, sees, rows, stop)
        return self._pass(inputs._replace(mask=mask.expand(len(inputs.tokens), -1, rows, -1)))

    def _forward(self, one: FixedPass) -> Outputs:
        self._held[0].place.columns = one.columns
        return self._pass(one.inputs)

    def outputs_at(self, columns: torch.Tensor) -> torch.Tensor:
        """What a model without a head gave, as `otspec.decode.models.passes.cache.outputs_at`."""
        outputs = self._held[0].outputs
        assert outputs is not None
        return outputs_at(outputs[: len(columns)], columns)

    def _pass(self, inputs: Inputs) -> Outputs:
        """The outputs of a pass, cached where the workspace does, with keys and values written to its columns."""
        found = self._plain.forward(inputs) if self._llama is None else self._read_by(self._llama, inputs)
        self._held[0].cache_outputs(found.logits)
        return found

    def _read_by(self, llama: Llama, inputs: Inputs) -> Outputs:
        """The same by a lean pass."""
        assert inputs.mask is not None
        workspace, shifts = self._held[0], inputs.conditioning.shifts
        angles = workspace.angles[0][inputs.position], workspace.angles[1][inputs.position]
        batch, rows = inputs.tokens.shape
        layers = workspace.cache.layers
        if self._few is not None and self._few.takes(batch, rows, workspace.columns):
            cache = Cache(layers, workspace.place.columns, inputs.mask)
            return llama.read(inputs, self._few.through(angles, shifts, cache))
        key_heads = llama.key_heads
        mask = inputs.mask.repeat(1, 1, llama.heads // key_heads, 1)

        def attend(number: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
            keys, values = layers[number].update(key, value)
            rows_of_keys = query.reshape(batch, key_heads, -1, query.shape[-1])  # heads of one key as so many queries
            return scaled_dot_product_attention(rows_of_keys, keys, values, attn_mask=mask).reshape(query.shape)

        return llama.read(inputs, llama.through(angles, shifts, attend))

    def _check_refusal(self, error: RuntimeError) -> None:
        """Raise unless the error may be about a capture."""
        if self._held[0].pool is None or isinstance(error, torch.OutOfMemoryError):
            raise error

    @property
    def blocks(self) -> Sequence[FixedBlock]:
        """All of the cache."""
        return self._held[0].blocks if self._held else []

    def _begin(self, batch: int, rows: int) -> bool:
        """Take a cache of fixed size at once, where it is known what the layers write, and the prompts are short."""
        if self._llama is None or rows > SHORT or batch * filled_up(rows) > MOST_ROWS:
            return False
        nothing = self._llama.embedding.new_empty(batch, self._llama.key_heads, 0, self._llama.size)
        outputs = self._llama.embedding.new_empty(batch, 0, self._llama.embedding.shape[1]) if self._remembers else None
        self._enter(self._key, Written([(nothing, nothing)] * self._llama.count, outputs), 0, rows + SPARE)
        return True

    def _causal(self, rows: int) -> torch.Tensor:
        """The mask of texts that are read from their starts, shape (1, 1, rows, rows); padding on the right hides."""
        dtype = self._plain.model.dtype
        mask = torch.full((rows, rows), torch.finfo(dtype).min, dtype=dtype, device=self._plain.model.device)
        return mask.triu(1)[None, None]

    @property
    def _key(self) -> object:
        """What passes depend on beside the batch and the columns."""
        return _state(self._plain.model), tuple(self._plain.layers)

    def _move_in(self, columns: int, outputs: torch.Tensor | None) -> None:
        """From the cache of a first pass to one of fixed size: one that is free and fits, or a new one."""
        layers = [
            (keys.entries[0], values.entries[0]) for keys, values in (one.blocks for one in self._plain.cache.layers)
        ]
        self._enter(self._key, Written(layers, outputs), columns, columns + SPARE)

    def _reserve(self, written: int, columns: int) -> None:
        """Move to a longer cache if a text outgrows its own."""
        old = self._held[0]
        if columns > old.columns:
            layers = [(layer.keys, layer.values) for layer in old.cache.layers]
            self._enter(old.key, Written(layers, old.outputs), written, columns)
            _FREE[self._plain.model].append(old)

    def _workspace(self, key: object, written: Written, columns: int) -> Workspace:
        """A workspace that is free and has so many columns, or a new one."""
        batch = len(written.layers[0][0])
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

    def _enter(self, key: object, written: Written, columns: int, room: int) -> None:
        """Go on in a workspace that has room for so many columns, with the first ones of what is written."""
        workspace = self._workspace(key, written, room)
        workspace.take(written, columns)
        self._held[:] = [workspace]
        self._plain.cache = workspace.cache


def _mask_of(
    run: GraphedSequence, workspace: Workspace, sees: torch.Tensor | None, rows: int, stop: int
) -> torch.Tensor:
    """What is added to scores, shape (B or 1, 1, rows or 1, columns), by the arguments of `StaticReader.read_at`."""
    if workspace.column.is_cuda and installed("triton"):
        from otspec.decode.models.passes.mask_kernels import mask_of  # Triton is wanted on a GPU alone

        return mask_of(run.length, run.end, sees, rows, stop, workspace.columns, workspace.shown.dtype)
    since = workspace.column - run.end
    on_trial = (since >= 0) & (since < stop)
    if sees is not None:
        on_trial = on_trial & sees[..., since.clamp(0, stop - 1)]
    visible = (workspace.column < run.length[:, None]).unsqueeze(1) | on_trial
    return torch.where(visible, workspace.shown, workspace.hidden).unsqueeze(1)


def has_no_head(model: PreTrainedModel) -> bool:
    """Whether a model gives what comes before its head, as `otspec.decode.models.head.without_head` makes it."""
    return isinstance(model.get_output_embeddings(), nn.Identity)


def can_stand(model: PreTrainedModel) -> bool:
    """Whether a pass of the model can be repeated at other inputs: it depends on nothing but those of `Reader.read`."""
    shared = getattr(model.config.get_text_config(), "num_kv_shared_layers", None)  # these read others' caches
    return not model.training and not shared and is_untouched(model)


def can_be_one(workspace: Workspace) -> bool:
    """Whether steps can be captured here: with what they draw, which torch has from 2.4 on."""
    return workspace.pool is not None and hasattr(torch.cuda.CUDAGraph, "register_generator_state")


def _state(model: PreTrainedModel) -> object:
    """What a graph relies on: where the weights are, and how they are used."""
    tensors = (one for module in model.modules() for one in (*module._parameters.values(), *module._buffers.values()))
    weights = tuple((one.data_ptr(), one.dtype) for one in tensors if one is not None)
    return model.config._attn_implementation, weights


_FREE: WeakKeyDictionary[PreTrainedModel, list[Workspace]] = WeakKeyDictionary()
_ONE_AT_A_TIME = Lock()
"""Threads that decode with one model do not take one workspace."""


def _give_back(model: ReferenceType[PreTrainedModel], held: list[Workspace]) -> None:
    """Keep a workspace for the next text of its model; those that waited longest make place."""
    free = _FREE.get(model()) if held and model() is not None else None
    if free is not None:
        free += held
        del free[:-MOST_ROOMS]
