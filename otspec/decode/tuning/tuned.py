"""The outcome of tuning: settings in a small file, with the models, sampling and machine that they are for."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import PreTrainedModel

from otspec.decode.base.saved import read_saved
from otspec.decode.methods.catalogue import method_of, strategy_of
from otspec.decode.models.fingerprint import fingerprint
from otspec.decode.models.tokens.matching import Matching, matching_of
from otspec.decode.step.harness import Generation, run
from otspec.decode.step.strategy import Strategy
from otspec.decode.tuning.identity import differences, machine
from otspec.errors import ProblemError
from otspec.writing import write_text

FORMAT = 1
"""Of the file; a later one may have other fields."""
METHODS_OF = ("multi-draft", "dynamic-tree", "prompt-lookup", "vanilla")
"""What tuning chooses among."""
SAMPLING = ("temperature", "top_k", "top_p")


class Mark(NamedTuple):
    """Which model was measured."""

    name: str
    """The user's name for it."""
    fingerprint: str

    @classmethod
    def of(cls, name: str, model: PreTrainedModel) -> Mark:
        """The mark of a model."""
        return cls(name, fingerprint(model))


@dataclass(frozen=True)
class Tuned:
    """The fastest lossless way to decode that was found for a pair of models, and the conditions that it is for.

    Examples
    --------
    >>> from otspec.decode import Tuned
    >>> from otspec.decode.tuning.tuned import Mark
    >>> marks = Mark("a-target", "0123abcd"), Mark("a-draft", "4567cdef")  # as `otspec tune` leaves them in its file
    >>> tuned = Tuned("multi-draft", {"paths": 2, "depth": 5}, "the fastest of 12", *marks, {"temperature": 0.7})
    >>> tuned.for_generate
    {'paths': 2, 'depth': 5, 'temperature': 0.7}
    """

    method: str
    """One of `METHODS_OF`: ``"vanilla"`` where drafts do not pay."""
    settings: Mapping[str, Any]
    """Those of the method that are set: paths, depth, solver, law, draft_temperature, draft_top_k."""
    why: str
    """The reason, a sentence."""
    target: Mark
    draft: Mark
    sampling: Mapping[str, Any]
    """Those that are set of temperature, top_k and top_p."""
    machine: Mapping[str, Any] = field(default_factory=dict)
    figures: Mapping[str, Any] = field(default_factory=dict)
    """Speed-up over plain decoding, predicted and measured, and times."""

    @property
    def for_generate(self) -> dict[str, Any]:
        """Settings and sampling, for `otspec.generate(target, draft, input_ids, **tuned.for_generate)`.

        Plain decoding is a tree without levels there.

        Raises
        ------
        ProblemError
            If the method is prompt lookup, or a dynamic tree, which that function has no settings for.
        """
        if self.method not in ("multi-draft", "vanilla"):
            raise ProblemError(
                f"otspec.generate draws drafts from a draft model's laws, and the fastest here is {self.method}; call "
                "tuned.generate(target, draft, input_ids), or `otspec decode --settings`"
            )
        plain: dict[str, Any] = {"branching": []}
        return {**(plain if self.method == "vanilla" else self.settings), **self.sampling}

    def strategy(self, draft: PreTrainedModel, matching: Matching | None = None) -> Strategy:
        """The strategy that decodes so; where the draft model has another tokenizer, with what is in common."""
        return strategy_of(self.method, draft, self.settings, matching)

    def generate(
        self, target: PreTrainedModel, draft: PreTrainedModel, input_ids: torch.Tensor, **settings: Any
    ) -> Generation:
        """Decode prompts, shape (B, length), with these settings; all else is as `otspec.generate` takes it.

        Temperature, top_k and top_p are those that were measured, unless one of them is passed.  Where something
        differs from what was measured there is a warning: the text still has its law, but another choice may be faster.

        Raises
        ------
        ProblemError
            If these are other models, or as `otspec.generate` does.
        """
        self.check_models(target, draft)
        sampled = {name: value for name, value in settings.items() if name in SAMPLING and value is not None}
        if not sampled:
            settings |= self.sampling
        if changed := self.changes(target, sampled or self.sampling):
            warnings.warn(f"these settings were tuned for something else: {', '.join(changed)}", stacklevel=2)
        matching = matching_of(settings.get("tokenizer"), settings.get("draft_tokenizer"))
        return run(target, self.strategy(draft, matching), input_ids, **settings)

    def check_models(self, target: PreTrainedModel, draft: PreTrainedModel | None) -> None:
        """Raise unless these are the models that were measured; without a draft model, the target alone.

        Raises
        ------
        ProblemError
            If one is another model.
        """
        for role, mark, model in (("target", self.target, target), ("draft model", self.draft, draft)):
            if model is not None and fingerprint(model) != mark.fingerprint:
                raise ProblemError(
                    f"these settings were tuned for the {role} {mark.name!r} (fingerprint {mark.fingerprint}), and "
                    f"this one has the fingerprint {fingerprint(model)}; tune again with `otspec tune`"
                )

    def changes(self, target: PreTrainedModel, sampling: Mapping[str, Any]) -> list[str]:
        """In what sampling and machine differ from what was measured, each in a few words."""
        then = {name: self.sampling.get(name) for name in SAMPLING}
        now = {name: sampling.get(name) for name in SAMPLING}
        return [*differences(then, now), *differences(self.machine, machine(target))]

    def save(self, path: Path | str) -> None:
        """Write the file: JSON."""
        record = {"format": FORMAT, **asdict(self), "target": self.target._asdict(), "draft": self.draft._asdict()}
        write_text(Path(path), json.dumps(record, indent=2) + "\n")

    @classmethod
    def load(cls, path: Path | str) -> Tuned:
        """Read what `save` wrote.

        Raises
        ------
        DataError
            If there is no such file, or it is none of these.
        """
        return read_saved(path, "file of tuned settings", "otspec tune", cls._of)

    @classmethod
    def _of(cls, record: Any) -> Tuned:
        if not isinstance(record, dict):
            raise ProblemError(f"it holds a {type(record).__name__}, and no settings")
        if record["format"] != FORMAT:
            raise ProblemError(f"its format is {record['format']!r}, and this version reads {FORMAT}")
        if record["method"] not in METHODS_OF:
            raise ProblemError(f"its method is {record['method']!r}, which is not {' or '.join(METHODS_OF)}")
        for name in ("settings", "sampling", "machine", "figures", "target", "draft"):
            if not isinstance(record[name], dict):
                raise ProblemError(f"its {name} are {record[name]!r}, and no names with values")
        method_of(record["method"], record["settings"])
        if unknown := record["sampling"].keys() - set(SAMPLING):
            raise ProblemError(f"its sampling has {', '.join(sorted(unknown))}; there is {', '.join(SAMPLING)}")
        names = ("method", "settings", "why", "sampling", "machine", "figures")
        values = {name: record[name] for name in names}
        return cls(**values, target=Mark(**record["target"]), draft=Mark(**record["draft"]))
