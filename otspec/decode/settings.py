"""The settings of decoding, each defined once: `DraftSettings` are those of drafts, `RunSettings` those of a run.

A setting is a field with a type, a default and a docstring: `otspec.generate`, `MultiDraft`, the commands and these
pages take it from there.  The typed dictionaries repeat names and types for type checkers alone, which read keywords
from nothing else.  This module loads neither torch nor numpy, so that `otspec decode --help` can list the settings at
once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Self, TypedDict

from otspec.errors import ProblemError
from otspec.settings import (
    COUNT,
    Conflict,
    Count,
    CountOrAll,
    Mass,
    Probability,
    Seed,
    Temperature,
    Whole,
    check,
    refuse,
)

if TYPE_CHECKING:
    from otspec.decode.base.text import Streamer
    from otspec.decode.drafters.shortlists.selection import Selection
    from otspec.verification.rules.catalogue import Rule


class DraftModelOptions(TypedDict, total=False):
    """The keywords of `DraftSettings` for how the draft model draws, from which tokens, and what is drafted beside."""

    draft_temperature: float | None
    draft_top_k: int | None
    draft_top_p: float | None
    draft_tokens: Any
    draft_kernel: Any
    draft_shortlist: Selection | None
    draft_confidence: float | None
    prompt_lookup: int | None


class DraftOptions(DraftModelOptions, total=False):
    """The keywords of `DraftSettings`, for functions that pass them on as ``**drafts: Unpack[DraftOptions]``.

    Examples
    --------
    >>> from typing import Unpack
    >>> from otspec.decode import DraftOptions, DraftSettings
    >>> def widened(**drafts: Unpack[DraftOptions]) -> DraftSettings:
    ...     return DraftSettings(**{"paths": 4, **drafts})
    >>> widened(depth=2).changed
    {'paths': 4, 'depth': 2}
    """

    paths: int | None
    depth: int | None
    solver: Rule
    branching: Sequence[int] | None
    tree: str | Sequence[Sequence[int]] | None
    law: str


CONFLICTS = (
    *(Conflict("tree", name, "both set the shape of the drafts") for name in ("paths", "depth", "branching")),
    *(Conflict("branching", name, "both set the shape of the drafts") for name in ("paths", "depth")),
    Conflict(
        "draft_kernel",
        "draft_confidence",
        "the second goes by the draft model's own probabilities, which the first moves to tokens that it may not have",
    ),
    *(
        Conflict("draft_shortlist", name, "both set which tokens the draft model computes")
        for name in ("draft_tokens", "draft_kernel")
    ),
)
"""The settings of drafts that contradict each other."""


@dataclass(frozen=True, eq=False, kw_only=True)
class DraftSettings:
    """What a draft model drafts, how, and the rule that verifies it.

    Raises
    ------
    ProblemError
        If a setting is out of its range, or two of them contradict each other.

    Examples
    --------
    >>> from otspec.decode import DraftSettings
    >>> DraftSettings(paths=4, depth=2).changed
    {'paths': 4, 'depth': 2}
    >>> DraftSettings(draft_confidence=2.0)
    Traceback (most recent call last):
        ...
    otspec.errors.ProblemError: draft_confidence is 2.0; it is a probability in [0, 1]
    """

    paths: Count | None = None
    """How many independent paths are drafted, K; by default 1, or one for each of several draft models.

    [sun2023spectr]
    """

    depth: Count | None = None
    """How many tokens a path has, L; by default 3.

    `otspec tune` finds what is fastest for two models on the machine at hand.
    """

    solver: Rule = None
    """The rule that verifies: a joint one, a solver that is applied token by token, or a list, each for where those
    before it fail; by default nested for i.i.d. drafts, which is block for one path.

    Nested labels with block verification are ``"nested"``, see `docs/paths.md`; the joint rules are those of
    `otspec.decode.JOINT` (``"block"``, ``"traversal"``, ...), the solvers those of the registry (``"interval"``), and
    ``["global_resolution", "interval"]`` is a chain where the first may fail.
    """

    branching: Sequence[int] | None = None
    """How many children the nodes of each level have, a list, in place of paths and depth.

    (n, n, n) is an n-ary tree.
    """

    tree: str | Sequence[Sequence[int]] | None = None
    """The static tree, in place of paths, depth and branching: a list of choices, such as 0,1,0.0,0.1, where 0.1 is the
    second child of the first; on the command line also a file with one, as Medusa and EAGLE have it.

    It is a text or a sequence, ``[[0], [1], [0, 0]]`` [cai2024medusa; li2024eagle].  A node has the number of drafted
    children in the list, and the i-th that is drawn is child i: with ``law="top_k"`` the i-th likeliest.  Where
    nodes of a level have different numbers of children, solvers verify it node by node, and of the joint rules
    ``"traversal"`` and ``"match"``.
    """

    law: str = "iid"
    """How siblings are drawn: iid, without_replacement, greedy, top_k, hub_pairs or independent.

    A name of `otspec.decode.DRAFT_LAWS`; ``"independent"`` is for paths of several draft models.  Siblings of another
    law than ``"iid"`` are verified for the scheme of that name.
    """

    draft_temperature: Temperature | None = None
    """The temperature of the draft model, by default the target's; 0 makes drafts certain.

    The text has the target's law whatever this and the next two are.
    """

    draft_top_k: CountOrAll | None = None
    """Keep the k likeliest tokens of the draft model, by default as for the target; 0 keeps all.

    ``draft_top_k=10`` makes verification cheap, see `docs/decoding.md`.
    """

    draft_top_p: Mass | None = None
    """Keep the draft model's likeliest tokens that have this mass, by default as for the target; 1 keeps all."""

    draft_tokens: Any = None
    """The only tokens that are drafted, array_like of int, shape (k,), or a mask of bool over the draft model's tokens.

    The draft model's head is computed for no others [zhao2025frspec].  ``otspec.vocab.frequency_prune`` finds the most
    frequent ones; `docs/vocab.md` shows where that pays.
    """

    draft_kernel: Any = None
    """A row-stochastic matrix M that the draft laws are multiplied by, once sampling has made them: an `Affinity`, or
    an array or sparse array of shape (V, V).

    Drafts have the law ``otspec.vocab.rdk(q, M)`` [timor2025out].  Of an `Affinity` with rows for some tokens only,
    these are the ``draft_tokens``.  Softmaxes of covariances have to be made sparse, by ``M.nearest``.
    """

    draft_shortlist: Selection | None = None
    """The tokens that the draft model computes at each node, in place of these two settings [zhang2025dynaspec].

    An `otspec.decode.Frequent` takes the most frequent ones, fewer the deeper a node is; an `otspec.decode.Router`
    chooses clusters of tokens by the context.  `docs/shortlists.md` has what each gains.
    """

    draft_confidence: Probability | None = None
    """End a path after the token at which the product of the draft model's probabilities of its tokens falls below
    this; 0 drafts whole paths.

    The probabilities are without temperature and truncations, and the law of the text is the same.  It is for one path,
    or for the stem of a `branching`, which is then all there is of the tree.
    """

    prompt_lookup: Count | None = None
    """Add to the drafts one path of at most so many tokens, copied from the text where its ending occurs earlier.

    The law of the text is the same [saxena2023prompt]: see `docs/decoding.md`.
    """

    def __post_init__(self) -> None:
        check(self)
        refuse(CONFLICTS, {**self.all, "draft_confidence": self.draft_confidence or None})

    @property
    def all(self) -> dict[str, Any]:
        """All of them, by name."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @property
    def changed(self) -> dict[str, Any]:
        """Those that are not as by default, by name."""
        default = {one.name: one.default for one in fields(self)}
        return {
            name: value
            for name, value in self.all.items()
            if value is not None and not (isinstance(value, str) and value == default[name])
        }


class RunOptions(TypedDict, total=False):
    """The keywords of `RunSettings`, and those of transformers' `generate` that decoding knows.

    Examples
    --------
    >>> from otspec.decode import RunOptions
    >>> options: RunOptions = {"temperature": 0.7, "max_new_tokens": 8}
    """

    temperature: float | None
    top_k: int | None
    top_p: float | None
    seed: int | None
    streamer: Streamer | None
    tokenizer: Any
    draft_tokenizer: Any
    verify_on: str | None
    transcript: bool
    logprobs: int | None
    own_config: bool

    attention_mask: Any
    max_new_tokens: int
    max_length: int
    do_sample: bool
    eos_token_id: int | list[int] | None
    pad_token_id: int | None
    stop_strings: str | list[str] | None
    stopping_criteria: Any
    logits_processor: Any
    generation_config: Any
    min_p: float | None
    typical_p: float
    epsilon_cutoff: float
    eta_cutoff: float
    repetition_penalty: float
    no_repeat_ngram_size: int
    bad_words_ids: list[list[int]] | None
    suppress_tokens: list[int] | None
    num_beams: int
    past_key_values: Any


@dataclass(frozen=True, eq=False, kw_only=True)
class RunSettings:
    """How a run samples, where it verifies, and what it returns; all else belongs to transformers' `generate`.

    Temperature, top-k and top-p that are not given are those of `generation_config` if one is passed, and otherwise
    temperature 1 without truncation.

    Examples
    --------
    >>> from otspec.decode import RunSettings
    >>> settings, others = RunSettings.split({"temperature": 0.7, "max_new_tokens": 8})
    >>> settings.temperature, others
    (0.7, {'max_new_tokens': 8})
    """

    temperature: Temperature | None = None
    """The temperature of both models, where the draft model has none of its own; 0 decodes greedily.

    So does ``do_sample=False``.
    """

    top_k: CountOrAll | None = None
    """Keep the k likeliest tokens of both models."""

    top_p: Mass | None = None
    """Keep the likeliest tokens of both models that have this mass."""

    seed: Seed | None = None
    """The seed of the run, which makes it repeatable; by default torch's global generator gives one.

    All texts of a batch draw from one generator.
    """

    streamer: Streamer | None = None
    """One of transformers' streamers."""

    tokenizer: Any = None
    """The target's tokenizer, needed for `stop_strings`; with `draft_tokenizer`, to compare the two."""

    draft_tokenizer: Any = None
    """The draft model's tokenizer.

    Where the two do not agree, tokens are matched by their text, and all token ids are the target's, those of
    ``draft_tokens`` and ``draft_kernel`` too.
    """

    verify_on: str | None = None
    """``"device"`` or ``"host"``: where trees are verified.

    By default on the device of the models where that is no CPU, if it has the rule (nested, block or token-wise
    interval, of i.i.d. drafts), and otherwise on the host.
    """

    transcript: bool = False
    """Return what each step drafted, accepted and added, as `Generation.blocks`."""

    logprobs: Whole | None = None
    """Return the target's log-probabilities of the new tokens, and of so many likeliest ones beside each.

    They are `Generation.logprobs`, `raw_logprobs` and `top_logprobs`.
    """

    own_config: bool = True
    """Let the target's own generation_config.json act beside the settings here, as transformers does:
    repetition_penalty, suppress_tokens, min_p, and so on.

    Its temperature, top-k and top-p never act, and the tokens that end a text always.
    """

    def __post_init__(self) -> None:
        check(self)

    @classmethod
    def split(cls, options: Mapping[str, Any]) -> tuple[Self, dict[str, Any]]:
        """The settings among some options, and the others."""
        return _split(cls, options)


def check_lengths(options: Mapping[str, Any]) -> None:
    """Raise unless the options of transformers' `generate` for the length of texts are counts.

    Raises
    ------
    ProblemError
        If one is no integer, or less than 1.
    """
    for name in ("max_new_tokens", "max_length"):
        value = options.get(name)
        if value is not None and value not in COUNT:
            raise ProblemError(f"{name} is {value!r}; {COUNT.rule}")


class GenerateOptions(DraftOptions, RunOptions, total=False):
    """All keywords of `otspec.generate`."""


def drafts_among(options: Mapping[str, Any]) -> tuple[DraftSettings, dict[str, Any]]:
    """The settings of drafts among some options, and the others.

    Raises
    ------
    ProblemError
        If a setting is out of its range.
    """
    return _split(DraftSettings, options)


def _split(kind: Any, options: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    names = {one.name for one in fields(kind)}
    mine = {name: value for name, value in options.items() if name in names}
    return kind(**mine), {name: value for name, value in options.items() if name not in names}
