"""Targets that do not fit one device: layers on several, in memory or on disk, by accelerate through transformers."""

from __future__ import annotations

import shutil
import warnings
import weakref
from collections.abc import Mapping
from tempfile import mkdtemp
from typing import Any

from transformers import PreTrainedModel

from otspec.decode.models.passes.plain import is_spread
from otspec.errors import ProblemError
from otspec.extras import require

DeviceMap = str | Mapping[str, str | int]
"""``"auto"``, ``"balanced"``, ``"sequential"``, or the device of every module, by the names of `state_dict`."""
MaxMemory = Mapping[str | int, str | int]
"""How much of a model each device may hold, in bytes or as in ``"20GiB"``: GPUs by number, ``"cpu"``."""


class Spread:
    """How a model is spread over devices.

    Parameters
    ----------
    device_map : str or mapping, optional
        As transformers takes it; ``"auto"`` where there is `max_memory` alone.
    max_memory : mapping, optional

    Raises
    ------
    MissingExtra
        If accelerate is not installed.
    """

    def __init__(self, device_map: DeviceMap | None, max_memory: MaxMemory | None) -> None:
        require("accelerate")
        self._map = "auto" if device_map is None else device_map if isinstance(device_map, str) else dict(device_map)
        self._memory = None if max_memory is None else dict(max_memory)
        self._folder = mkdtemp(prefix="otspec-")  # for weights that are saved in another form than they are held in
        self._going = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)

    @property
    def options(self) -> dict[str, Any]:
        """What `from_pretrained` takes."""
        return {"device_map": self._map, "max_memory": self._memory, "offload_folder": self._folder}

    def settle(self, model: PreTrainedModel, name: str) -> None:
        """Check that the model can be decoded with as it is spread, and warn of what that costs.

        Raises
        ------
        ProblemError
            If its embedding is on no device.
        """
        devices = getattr(model, "hf_device_map", {"": model.device}).values()
        places = list(dict.fromkeys(map(str, devices)))
        if model.get_input_embeddings().weight.is_meta:
            raise ProblemError(
                f"the embedding of {name!r}, by which text comes in, is offloaded from its devices "
                f"({', '.join(places)}); give the first device more memory, or name one for it in the device map"
            )
        if self._going.detach():
            weakref.finalize(model, shutil.rmtree, self._folder, ignore_errors=True)
        if is_spread(model):
            warnings.warn(
                f"{name!r} is spread over {', '.join(places)}: its passes are transformers' own, launched layer by "
                "layer, not our fused ones, packed weights or CUDA graphs, and what is offloaded from a device is "
                "loaded anew in each",
                stacklevel=4,
            )
