"""A folder that transformers decodes by: ``model.generate(custom_generate=FOLDER, trust_remote_code=True)``.

transformers hands the function in the folder what was passed to `generate`, and nothing of the folder: so the draft
model's name and the settings are written into the function's own file, which calls `decode_as_exported`.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from otspec.decode.pair.loading import SHIPPED, load_draft
from otspec.decode.settings import DraftOptions, DraftSettings
from otspec.errors import DataError, ProblemError
from otspec.verification.rules.catalogue import is_lossless
from otspec.writing import write_text

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_GENERATE = '''"""Multi-draft speculative decoding: a smaller model drafts, whole trees are verified at once.

Written by `otspec export-generate`, of otspec-toolkit {version}.
"""

import importlib

DRAFT = {draft!r}
"""The draft model: shipped, a folder, or a name on the hub; None if it is always passed as `assistant_model`."""
DRAFTS = {settings!r}
"""What is drafted, and who verifies it: the fields of `otspec.decode.DraftSettings`."""


def generate(model, **options):
    """Decode with drafts.

    Parameters are those of transformers' own `generate`.  `assistant_model` takes the place of DRAFT, and keywords that
    are settings of the drafts take that of DRAFTS; `seed` makes the text repeatable.
    """
    # Loaded here, so that a package that is missing is named as requirements.txt has it.
    exporting = importlib.import_module("otspec.decode.exporting")
    return exporting.decode_as_exported(model, DRAFT, DRAFTS, options)
'''

_README = """---
library_name: transformers
tags:
- custom_generate
---

# Multi-draft speculative decoding

{drafted}. {law}

```python
text = model.generate(**inputs, custom_generate="{name}", trust_remote_code=True, do_sample=True{assistant})
```

It needs `pip install "otspec-toolkit[decode]"`. All arguments of `generate` keep their meaning, and these are new:

- `assistant_model`: another draft model, already loaded; `tokenizer` and `assistant_tokenizer` if it has other tokens.
- `seed`: makes the text repeatable.
- `paths`, `depth`, `solver`, ...: settings of the drafts, in place of {settings}.
"""

_REQUIREMENTS = """otspec-toolkit>={version}
transformers>=5.0
"""


def export(folder: Path, draft: str | None = SHIPPED, **drafts: Unpack[DraftOptions]) -> tuple[Path, ...]:
    """Write a folder for `custom_generate`.

    Parameters
    ----------
    folder : Path
        It may be there, and have other files, such as those of a model.
    draft : str, optional
        The draft model: ``"shipped"``, a folder that `save_pretrained` wrote, or a name on the hub; None if it will be
        passed as `assistant_model`.
    **drafts
        Settings of `otspec.decode.DraftSettings` that can be spelled: numbers, words and lists of them.

    Returns
    -------
    tuple of Path
        The files that were written.

    Raises
    ------
    DataError
        If one of the files is there already, or there is no such draft model.
    ProblemError
        If a setting is out of its range, or cannot be spelled.
    """
    settings = _checked(DraftSettings(**drafts))
    own = folder / "custom_generate"
    named = None if draft is None else _place(draft)
    law = "The text has the law of the model's own text, whatever the drafts are."
    if not is_lossless(settings.get("solver")):
        law = f"The solver {settings['solver']} may deviate from the model's own law."
    told = {
        "drafted": f"Drafts are from {named}" if named else "Pass the model that drafts as `assistant_model`",
        "law": law,
        "name": folder.resolve().name,
        "assistant": "" if named else ", assistant_model=draft",
        "settings": f"`{settings}`" if settings else "one path of three tokens",
    }
    version = importlib.import_module("otspec").__version__
    texts = {
        own / "generate.py": _GENERATE.format(version=version, draft=named, settings=settings),
        own / "requirements.txt": _REQUIREMENTS.format(version=version),
        folder / "README.md": _README.format(**told),
    }
    for file in texts:
        if file.exists():
            raise DataError(f"{file} is there already; delete it, or name another folder")
    own.mkdir(parents=True, exist_ok=True)
    for file, text in texts.items():
        write_text(file, text)
    return tuple(texts)


def decode_as_exported(
    model: PreTrainedModel, draft: str | None, drafts: Mapping[str, Any], options: Mapping[str, Any]
) -> Any:
    """What the function in an exported folder does.

    Parameters
    ----------
    model : PreTrainedModel
        Whose text it is.
    draft : str, optional
        The name of the draft model.
    drafts : mapping
        Settings of the drafts.
    options : mapping
        All that was passed to `generate`: settings of the drafts, and a seed, may be among them.

    Returns
    -------
    Tensor of int64, shape (B, length), or MultiDraftOutput
        As `generate` returns it.

    Raises
    ------
    ProblemError
        If there is no draft model, or as `otspec.generate` does.
    """
    from otspec.decode.generation import multi_draft

    given = {name: value for name, value in options.items() if value is not None}
    loaded, own_tokenizer = given.pop("assistant_model", None), given.pop("assistant_tokenizer", None)
    if loaded is None:
        if draft is None:
            raise ProblemError("no draft model was exported; pass one to generate() as assistant_model")
        loaded, own_tokenizer = _loaded(draft, str(model.device), str(model.dtype).removeprefix("torch."))
    ours = {one.name for one in fields(DraftSettings)} | {"seed", "streamer", "verify_on"}
    mine = {name: given.pop(name) for name in ours & given.keys()}
    # One of the two ways to say how large a tree is takes the place of the other.
    instead = ("paths", "depth") if "branching" in mine else ("branching",) if {"paths", "depth"} & mine.keys() else ()
    method = {name: value for name, value in drafts.items() if name not in instead} | mine
    if "tokenizer" in given:
        method |= {"tokenizer": given["tokenizer"], "draft_tokenizer": own_tokenizer or given["tokenizer"]}
    # Of the class: a model that was loaded from a folder with a `custom_generate` has that as its own `generate`.
    return type(model).generate(model, **given, custom_generate=multi_draft(loaded, **method))


@lru_cache(maxsize=2)
def _loaded(draft: str, device: str, dtype: str) -> tuple[PreTrainedModel, Any]:
    """The draft model of that name, and its tokenizer, kept for the next text."""
    return load_draft(draft, device, dtype)


def _checked(drafts: DraftSettings) -> dict[str, Any]:
    """The settings that are given, if a file can spell them and the shipped draft model can draft by them."""
    if drafts.branching is not None and not drafts.paths is drafts.depth is None:
        raise ProblemError("branching says how many paths there are and how deep; leave out paths and depth")
    for name, value in drafts.given.items():
        if name == "pace" and value != "goodput":
            raise ProblemError(f"pace is {value}, whose costs are of one machine; export pace='goodput', or none")
        try:
            json.dumps(value)
        except TypeError as error:
            raise ProblemError(
                f"{name} is a {type(value).__name__}, which cannot be spelled in a file; leave it out, and pass it to "
                "generate()"
            ) from error
    import torch

    from otspec.decode import shipped
    from otspec.decode.base.sampling import Sampling
    from otspec.decode.methods.multi_draft import MultiDraft

    model = shipped.load().draft
    MultiDraft.of(model, drafts).prepare(model.config.vocab_size, Sampling([], True), torch.Generator())
    return drafts.given


def _place(draft: str) -> str:
    """A draft model's name, as it can be found from elsewhere on this machine."""
    if draft == SHIPPED:
        return draft
    path = Path(draft)
    if draft and (path / "config.json").is_file():
        return str(path.resolve())
    if not draft or path.exists() or path.is_absolute() or draft.startswith(".") or draft.count("/") > 1:
        raise DataError(
            f"there is no draft model in {draft!r}; pass {SHIPPED}, a folder written by save_pretrained, or a name on "
            "the hub"
        )
    return draft
