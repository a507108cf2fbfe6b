"""Models by name: the pair that comes with the package, a folder, a GGUF file, or a repository on the hub."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

import otspec.decode.drafters.eagle.model  # noqa: F401
import otspec.decode.drafters.heads.model  # noqa: F401
import otspec.decode.drafters.sd2.model  # noqa: F401  all make their models known to transformers
from otspec.decode import shipped
from otspec.decode.drafters.published.checkpoint import CONFIG
from otspec.decode.drafters.published.formats import read_published
from otspec.decode.drafters.published.layer_settings import with_old_keys
from otspec.decode.models.pairing import pair_up
from otspec.decode.models.passes.packed import pack
from otspec.decode.models.tokens.matching import Matching
from otspec.decode.pair import gguf
from otspec.decode.pair.spreading import DeviceMap, MaxMemory, Spread
from otspec.errors import DataError, ProblemError
from otspec.writing import named, write_text

SHIPPED = "shipped"
"""Name of the package's own pair, of its target and of its draft model."""

DTYPES = ("auto", "float32", "float64", "bfloat16", "float16")
"""Types that weights may be held in; auto is the type that they were saved in."""


class Models(NamedTuple):
    """A target with its tokenizer, and the draft model with its own if there is one, or several."""

    target: PreTrainedModel
    tokenizer: Any
    draft: PreTrainedModel | None = None
    draft_tokenizer: Any = None
    more_drafts: tuple[PreTrainedModel, ...] = ()
    """Draft models besides the first, of one tokenizer with it."""
    matching: Matching | None = None
    """The matching of the target's tokens with the draft model's, where that has another tokenizer."""

    @property
    def drafts(self) -> PreTrainedModel | list[PreTrainedModel] | None:
        """All draft models."""
        return self.draft if self.draft is None or not self.more_drafts else [self.draft, *self.more_drafts]


def load_models(
    target: str,
    draft: str | Sequence[str] | None,
    device: str | None = None,
    dtype: str | None = None,
    *,
    packed: bool = True,
    device_map: DeviceMap | None = None,
    max_memory: MaxMemory | None = None,
) -> Models:
    """Load models for inference.

    Parameters
    ----------
    target, draft : str
        ``"shipped"``, a folder that `save_pretrained` wrote, or one with a draft model in a published format
        (`otspec.decode.drafters.published.formats`), a GGUF file, ``"smollm2"``
        (`otspec.decode.pair.gguf.SMOLLM2`), or a name on the hub; no draft, no draft model.  Several names are several
        draft models.
    device : str, optional
        ``"cpu"``, ``"cuda"``, ``"cuda:1"``; by default a GPU if there is one.
    dtype : str, optional
        One of `DTYPES`; by default float32 on the CPU, and what the weights were saved in elsewhere.
    packed : bool
        Pack the weights of large models (`otspec.decode.models.passes.packed.pack`): faster, and not to be trained.
    device_map, max_memory : optional
        For a target that does not fit one device, as transformers' `from_pretrained` takes them: its layers are on
        several, in memory or on disk, and it is read by transformers' own passes.  Draft models are where its
        embedding is.

    Raises
    ------
    DataError
        If there is no such model, or it cannot be read.
    ProblemError
        If there is no such device or dtype, a device is given beside a map of devices, the target cannot be spread
        by that map, or the two models cannot decode together.
    MissingExtra
        If a target is to be spread, and accelerate is not installed.
    """
    spread = None if device_map is None and max_memory is None else Spread(device_map, max_memory)
    if spread is not None and device is not None:
        raise ProblemError(f"device {device!r} holds all of the target, and device_map spreads it; leave out one")
    place = device_of(device)
    kind = _kind(dtype, place)
    model, tokenizer = _load(target, "target", kind, spread)
    if spread is None:
        model.to(place)
    else:
        place = model.device
    if packed:
        pack(model)  # before what borrows of it
    found: list[tuple[Any, Any]] = []
    matching = None
    for name in [draft] if isinstance(draft, str) else draft or ():
        draft_model, own_tokenizer = _load_draft(name, model, kind)
        draft_tokenizer = own_tokenizer or tokenizer
        draft_model.to(place)
        matching = pair_up(model, draft_model, tokenizer, draft_tokenizer)
        if found and found[0][1].get_vocab() != draft_tokenizer.get_vocab():
            raise ProblemError(f"the draft models do not have one tokenizer: {name!r} has another than the first")
        if packed:
            pack(draft_model)
        found.append((draft_model, draft_tokenizer))
    if not found:
        return Models(model, tokenizer)
    return Models(model, tokenizer, *found[0], tuple(more for more, _ in found[1:]), matching)


def with_named_draft(models: Models, name: str) -> Models:
    """The same target with another draft model, held as the target is.

    Raises
    ------
    DataError
        If there is no such model, or it cannot be read.
    ProblemError
        If it cannot draft for the target.
    """
    draft, tokenizer = _load(name, "draft", str(models.target.dtype).removeprefix("torch."))
    found = with_draft(models, draft, tokenizer or models.tokenizer)
    pack(draft)
    return found


def with_draft(models: Models, draft: PreTrainedModel, tokenizer: Any) -> Models:
    """The same target with another draft model, which comes to where the target is.

    Raises
    ------
    ProblemError
        If it cannot draft for the target.
    """
    draft.to(models.target.device)
    matching = pair_up(models.target, draft, models.tokenizer, tokenizer)
    return models._replace(draft=draft, draft_tokenizer=tokenizer, more_drafts=(), matching=matching)


def load_draft(name: str, device: str | None = None, dtype: str | None = None) -> tuple[PreTrainedModel, Any]:
    """A draft model alone, and its tokenizer, None where that is its target's; parameters as in `load_models`.

    Raises
    ------
    DataError
        If there is no such model, or it cannot be read, or it is one of the package's for a target.
    ProblemError
        If there is no such device or dtype.
    """
    place = device_of(device)
    if _is_own(name):
        raise DataError(f"{name!r} names the package's draft models for some targets; pass the target, too")
    model, tokenizer = _load(name, "draft", _kind(dtype, place))
    return model.to(place), tokenizer


def load_reader(name: str, device: str | None = None, dtype: str | None = None) -> tuple[PreTrainedModel, Any]:
    """A draft model that reads text by itself, and its tokenizer; the rest as in `load_draft`.

    Raises
    ------
    ProblemError
        If it is in a published format, whose models read their target's hidden states.
    """
    model, tokenizer = load_draft(name, device, dtype)
    if tokenizer is None:
        raise ProblemError(
            f"{name} holds layers that read a target's hidden states; pass a model that reads text alone"
        )
    return model, tokenizer


def save_model(model: PreTrainedModel, tokenizer: Any, folder: Path) -> None:
    """Write a model with its tokenizer as `from_pretrained` wants them, of transformers 4 and of engines too."""
    with named(folder):
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    settings = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    write_text(folder / CONFIG, json.dumps(with_old_keys(settings), indent=2) + "\n")


def encode(tokenizer: Any, prompts: Sequence[str], *, special: bool = True) -> list[list[int]]:
    """The tokens of each prompt, with those that begin a text unless they are in it: then they are not `special`.

    Raises
    ------
    ProblemError
        If a prompt has none, or is no text.
    """
    for number, prompt in enumerate(prompts, start=1):
        try:
            prompt.encode()
        except UnicodeEncodeError as error:
            raise ProblemError(
                f"prompt {number} holds {prompt[error.start]!r} at character {error.start}, half of a pair that stands "
                "for one character; write it in UTF-8"
            ) from error
    rows = [list(tokenizer(prompt, add_special_tokens=special).input_ids) for prompt in prompts]
    for number, row in enumerate(rows, start=1):
        if not row:
            raise ProblemError(f"prompt {number} is empty, and the tokenizer begins no text by itself; write something")
    return rows


def batch_of(rows: Sequence[Sequence[int]], device: torch.device) -> dict[str, torch.Tensor]:
    """Token rows as `input_ids` and `attention_mask`, both of shape (B, length of the longest), padded on the left."""
    width = max(map(len, rows))
    ids = torch.tensor([[0] * (width - len(row)) + list(row) for row in rows], device=device)
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows], device=device)
    return {"input_ids": ids, "attention_mask": mask}


def device_of(name: str | None) -> torch.device:
    """The device of that name; by default a GPU if there is one.

    Raises
    ------
    ProblemError
        If there is no such device.
    """
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ProblemError(f"no device {name!r} here: {_first_line(error)}; cpu is always there") from error
    return device


def _kind(dtype: str | None, place: torch.device) -> str:
    """The type that weights are held in there."""
    kind = ("float32" if place.type == "cpu" else "auto") if dtype is None else dtype
    if kind not in DTYPES:
        raise ProblemError(f"no dtype {kind!r}; known: {', '.join(DTYPES)}")
    return kind


def _load_draft(name: str, target: PreTrainedModel, dtype: str) -> tuple[Any, Any]:
    """A draft model for a target as `_load` finds it, or the package's own where nothing else has that name."""
    return (shipped.drafter(name, target), None) if _is_own(name) else _load(name, "draft", dtype)


def _is_own(name: str) -> bool:
    """Whether a name stands for draft models of the package, each found by its target."""
    return name in shipped.DRAFTERS and not Path(name).exists()


def _load(name: str, role: str, dtype: str, spread: Spread | None = None) -> tuple[Any, Any]:
    """Model and tokenizer of that name; None where it is a published draft model, whose tokenizer is its target's.

    Raises
    ------
    DataError
        If there is no such model, or it cannot be read, or a draft model is to be a target.
    ProblemError
        If it cannot be spread as requested.
    """
    file = gguf.file_of(name)
    place = name if file is None else gguf.unpacked(file)
    if spread is not None and name == SHIPPED:
        place = shipped.FOLDER / role
    if (published := read_published(Path(place))) is not None:
        if role != "draft":
            raise DataError(f"{name} holds layers that draft for another model; pass it as --draft, not as the {role}")
        return published if dtype == "auto" else published.to(getattr(torch, dtype)), None
    try:
        if name == SHIPPED and spread is None:
            return shipped.one_of_pair(role, None if dtype == "auto" else getattr(torch, dtype))
        tokenizer = AutoTokenizer.from_pretrained(place)
        if spread is None:
            return AutoModelForCausalLM.from_pretrained(place, dtype=dtype).eval(), tokenizer
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise DataError(
            f"the {role} {name!r} cannot be loaded: {_first_line(error)} Pass {SHIPPED}, a folder written by "
            f"save_pretrained (model and tokenizer), a {gguf.SUFFIX} file, {gguf.SMOLLM2}, or a name on the hub, which "
            f"needs a connection or an earlier `hf download {name}`"
        ) from error
    try:
        model = AutoModelForCausalLM.from_pretrained(place, dtype=dtype, **spread.options).eval()
    except (OSError, ValueError, KeyError, RuntimeError, AssertionError) as error:
        raise ProblemError(f"the {role} {name!r} cannot be spread over devices: {_first_line(error)}") from error
    spread.settle(model, name)
    return model, tokenizer


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
