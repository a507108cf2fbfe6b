"""Arrays of files by name: .npz, .npy, .safetensors and torch's own, in any floating-point type."""

from __future__ import annotations

import json
import pickle
import struct
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from otspec import pickles
from otspec.errors import DataError, MissingExtra
from otspec.extras import require
from otspec.laws import FloatArray

STACKED = ("[0]", "[1]")
"""Names of target and draft in a file that holds one array of both, shape (2, positions, V)."""


@dataclass(frozen=True, eq=False)
class StoredArray:
    """An array of a file."""

    values: Any
    """numpy array or torch tensor, of the bits of types that numpy lacks."""
    kind: str
    """Its type, in words."""
    decode: Callable[[Any], FloatArray] | None
    """Turns a part of the values, of any shape, into numbers; None where they are no floating-point numbers."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return tuple(int(size) for size in self.values.shape)

    def row(self, index: int) -> FloatArray:
        """One entry along the first axis, as float64; shape (V,) of an array of positions."""
        assert self.decode is not None
        return self.decode(self.values[index])


def read(path: Path, names: Collection[str]) -> Mapping[str, StoredArray | None]:
    """The arrays of a file by name.

    Parameters
    ----------
    path : Path
        Of a format of `READERS`, by its suffix.
    names : collection of str
        Arrays that are needed; others may come as None.

    Raises
    ------
    DataError
        If the file has another format, or is damaged.
    MissingExtra
        If it is torch's own, and torch is missing.
    """
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise DataError(f"{path} is not a file of a format that is read here: {', '.join(READERS)}")
    try:
        with pickles.refused():
            return reader(path, names)
    except MissingExtra:
        raise
    except pickle.UnpicklingError as error:
        raise DataError(
            f"{path} cannot be read: it holds more than tensors, or is damaged; save a dict of tensors, which "
            "torch.load(weights_only=True) takes"
        ) from error
    except Exception as error:  # readers of others meet damaged bytes with errors of any kind
        raise DataError(f"{path} cannot be read: {error}") from error


def _of_numpy(array: npt.NDArray[Any]) -> StoredArray:
    floats = np.issubdtype(array.dtype, np.floating)
    return StoredArray(array, str(array.dtype), _as_float64 if floats else None)


def _as_float64(values: Any) -> FloatArray:
    with np.errstate(invalid="ignore"):  # of a NaN, which is refused later with its place
        return np.asarray(values).astype(np.float64)


def _read_npz(path: Path, names: Collection[str]) -> Mapping[str, StoredArray | None]:
    with np.load(path, allow_pickle=False) as archive:
        # Other arrays may be large, and are only named in an error.
        return {name: _of_numpy(archive[name]) if name in names else None for name in archive.files}


def _read_npy(path: Path, names: Collection[str]) -> Mapping[str, StoredArray | None]:
    """One array of target and draft, or one of several files side by side, each named after its array."""
    array = _load_npy(path)
    if array.ndim == 3 and len(array) == 2:
        return {name: _of_numpy(part) for name, part in zip(STACKED, array, strict=True)}
    beside = {name: path.with_name(f"{name}.npy") for name in names if name != path.stem}
    return {path.stem: _of_numpy(array)} | {
        name: _of_numpy(_load_npy(other)) for name, other in beside.items() if other.is_file()
    }


def _load_npy(path: Path) -> npt.NDArray[Any]:
    return cast("npt.NDArray[Any]", np.load(path, mmap_mode="r", allow_pickle=False))


def _read_torch(path: Path, names: Collection[str]) -> Mapping[str, StoredArray | None]:
    torch: Any = require("torch")
    held: Any = torch.load(path, map_location="cpu", weights_only=True)
    if isinstance(held, torch.Tensor) and held.ndim != 3:
        raise ValueError(
            f"it holds one tensor of shape {tuple(held.shape)}; of target and draft it is (2, positions, V)"
        )
    if isinstance(held, torch.Tensor | list | tuple) and len(held) == 2:
        held = dict(zip(STACKED, held, strict=True))
    if not isinstance(held, dict):
        raise ValueError(f"it holds a {type(held).__name__}; save a dict of tensors")

    def decode(values: Any) -> FloatArray:
        return cast(FloatArray, values.detach().double().numpy())

    def stored(value: Any) -> StoredArray:
        dense = value.layout is torch.strided and value.device.type == "cpu"  # neither sparse nor without data
        kind = str(value.dtype).removeprefix("torch.") + ("" if dense else f", {value.layout} on {value.device},")
        return StoredArray(value, kind, decode if dense and value.is_floating_point() else None)

    return {
        str(name): stored(value)
        for name, value in held.items()
        if isinstance(value, torch.Tensor) and not value.is_nested
    }


def _read_safetensors(path: Path, names: Collection[str]) -> Mapping[str, StoredArray | None]:
    """By hand: the package reads types that numpy lacks only into torch, and the format is a header and bytes."""
    data = np.memmap(path, dtype=np.uint8, mode="r")
    header, length = _header(data)
    header.pop("__metadata__", None)
    return {name: _tensor(name, entry, data[8 + length :]) for name, entry in header.items()}


def safetensors_about(path: Path) -> dict[str, Any]:
    """What we wrote about a safetensors file into its header; empty for other files.

    Raises
    ------
    DataError
        If it has no header.
    """
    try:
        header, _ = _header(np.memmap(path, dtype=np.uint8, mode="r"))
        return dict(json.loads(header.get("__metadata__", {}).get("otspec", "{}")))
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error


def _header(data: npt.NDArray[np.uint8]) -> tuple[dict[str, Any], int]:
    """The header of a safetensors file, and its length."""
    (length,) = struct.unpack("<Q", data[:8].tobytes()) if data.size >= 8 else (data.size,)
    if length > data.size - 8:
        raise ValueError("it is cut short, or no safetensors file")
    header = json.loads(data[8 : 8 + length].tobytes())
    if not isinstance(header, dict):
        raise ValueError("its header is no table")
    return header, length


def _tensor(name: str, entry: Any, data: npt.NDArray[np.uint8]) -> StoredArray:
    dtype, shape, (first, last) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
    bits, decode = SAFETENSORS.get(dtype, ("<u1", None))
    if dtype not in SAFETENSORS:
        shape = (last - first,)
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(bits).itemsize
    if not 0 <= first <= last <= data.size or last - first != size:
        raise ValueError(f"the bytes of {name} are {first} to {last} of {data.size}, and its shape takes {size}")
    return StoredArray(data[first:last].view(bits).reshape(shape), dtype, decode)


def _decode_bfloat16(values: Any) -> FloatArray:
    return _as_float64((np.asarray(values).astype(np.uint32) << 16).view(np.float32))


def _by_torch(dtype: str) -> Callable[[Any], FloatArray]:
    """Decoder of a type of eight bits, by way of torch."""

    def decode(values: Any) -> FloatArray:
        torch: Any = require("torch")
        return cast(FloatArray, torch.from_numpy(np.array(values)).view(getattr(torch, dtype)).double().numpy())

    return decode


SAFETENSORS: dict[str, tuple[str, Callable[[Any], FloatArray] | None]] = {
    "F64": ("<f8", _as_float64),
    "F32": ("<f4", _as_float64),
    "F16": ("<f2", _as_float64),
    "BF16": ("<u2", _decode_bfloat16),
    "F8_E4M3": ("<u1", _by_torch("float8_e4m3fn")),
    "F8_E5M2": ("<u1", _by_torch("float8_e5m2")),
    "F8_E4M3FNUZ": ("<u1", _by_torch("float8_e4m3fnuz")),
    "F8_E5M2FNUZ": ("<u1", _by_torch("float8_e5m2fnuz")),
    **{name: (f"<{bits}", None) for name, bits in {"I64": "i8", "I32": "i4", "I16": "i2", "I8": "i1"}.items()},
    **{name: (f"<{bits}", None) for name, bits in {"U64": "u8", "U32": "u4", "U16": "u2", "U8": "u1"}.items()},
    "BOOL": ("<u1", None),
}
"""Types of safetensors: what numpy reads, and how that becomes numbers."""

READERS: dict[str, Callable[[Path, Collection[str]], Mapping[str, StoredArray | None]]] = {
    ".npz": _read_npz,
    ".npy": _read_npy,
    ".safetensors": _read_safetensors,
    ".pt": _read_torch,
    ".pth": _read_torch,
}
