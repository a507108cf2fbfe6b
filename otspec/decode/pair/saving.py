"""A model, by its name, as a folder that transformers and engines read."""

from __future__ import annotations

from pathlib import Path

from otspec.decode.drafters.published.writing import write_published
from otspec.decode.pair.loading import load_draft, load_models, save_model
from otspec.errors import DataError, ProblemError


def save(
    name: str,
    folder: str | Path,
    *,
    form: str | None = None,
    target: str | None = None,
    ahead: int | None = None,
    dtype: str | None = None,
) -> None:
    """Write a model and its tokenizer as `from_pretrained` and vLLM read them: a GGUF file becomes a folder.

    Parameters
    ----------
    name : str
        The model, as in `otspec.decode.pair.loading.load_models`.
    folder : str or Path
        The folder to write, which is not there yet or empty.
    form : str, optional
        The format of a draft model that engines serve, ``"eagle"`` or ``"speculators"``: for ``eagle1`` and ``eagle3``
        of `otspec train`, and for published ones.  No tokenizer is written then: it is the target's.
    target : str, optional
        The folder of the target that speculators name.
    ahead : int, optional
        How many drafts in a row speculators name; by default 3.
    dtype : str, optional
        The type of the weights, ``"float32"`` by default; ``"bfloat16"`` takes half the room.

    Raises
    ------
    DataError
        If there is no such model, or something is in the folder already.
    ProblemError
        If there is no such format or dtype, the model cannot be written in the format, or a target is named without
        a format.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from otspec.decode import pair
    >>> with TemporaryDirectory() as folder:
    ...     pair.save("shipped", f"{folder}/target", dtype="bfloat16")
    ...     [file.name for file in Path(folder).glob("*/*.safetensors")]
    ['model.safetensors']
    """
    place = Path(folder)
    if place.is_file() or (place.is_dir() and any(place.iterdir())):
        raise DataError(f"{place} is there already; delete it, or name another folder")
    if form is None and (target is not None or ahead is not None):
        raise ProblemError("target and ahead are settings of the format speculators; pass form as well")
    if form is None:
        models = load_models(name, None, "cpu", dtype, packed=False)
        save_model(models.target, models.tokenizer, place)
    else:
        write_published(load_draft(name, "cpu", dtype)[0], place, form, target, ahead)
