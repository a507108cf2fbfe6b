"""The settings of decoding, each spelled once: `DraftSettings` says what is drafted, `RunSettings` how a run goes.

`otspec.generate`, `MultiDraft` and the commands take their fields as keywords; the two typed dictionaries beside them
are for type checkers.  This module loads neither torch nor numpy, so that `otspec decode --help` can list the settings
at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Self, TypedDict, TypeGuard

from otspec.errors import ProblemError

if TYPE_CHECKING:
    from otspec.decode.base.text import Streamer
    from otspec.decode.drafters.shortlists.selection import Selection
    from otspec.decode.pacing.goodput import Goodput
    from otspec.verification.rules.catalogue import Rule


_LAWS = "iid, without_replacement, greedy, top_k, hub_pairs or independent"


def option(summary: str, kind: str, shown: str | None = None) -> dict[str, str | None]:
    """What the commands have to know of a field that they offer as an option.

    Parameters
    ----------
    summary : str
        The help text.
    kind : str
        What values it takes, a name of `otspec.cli.groups.KINDS`.
    shown : str, optional
        What is told of the default where none is given.
    """
    return {"help": summary, "kind": kind, "shown": shown}


class DraftModelOptions(TypedDict, total=False):
    """The keywords of `DraftSettings` that say how the draft model draws, from which tokens, and what is beside."""

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
    >>> widened(depth=2).given
    {'paths': 4, 'depth': 2}
    """

    paths: int | None
    depth: int | None
    solver: Rule
    branching: Sequence[int] | None
    tree: str | Sequence[Sequence[int]] | None
    law: str
    pace: str | Goodput | None


@dataclass(frozen=True, eq=False, kw_only=True)
class DraftSettings:
    """What a draft model drafts, how, and who verifies it.

    Parameters
    ----------
    paths : int, optional
        K, the number of independent paths [sun2023spectr]; by default 1, or one for each of several draft models.
    depth : int, optional
        L, the tokens of each path; by default 3, and 8 with a pace.  `otspec tune` finds what is fastest for two models
        on the machine at hand.
    solver : Rule, optional
        Who verifies.  By default nested labels with block verification (``"nested"``, see `docs/paths.md`; for one path
        that is ``"block"``); another joint rule of `otspec.decode.JOINT` (``"block"``, ``"traversal"``, ...), a solver
        of the registry node by node (``"interval"``), or a chain of solvers where the first may fail
        (``["global_resolution", "interval"]``).
    branching : sequence of int, optional
        In place of paths and depth: the children that a node of each level has; (n, n, n) is an n-ary tree.
    tree : str or sequence of sequences of int, optional
        In place of these three: any static tree, as the list of choices that Medusa and EAGLE have
        [cai2024medusa; li2024eagle], ``[[0], [1], [0, 0]]``, or ``"0,1,0.0"``; (0, 1) is the second child of the first
        child of the text.  A node has as many drafted children as the list says, and the i-th that is drawn is child
        i: with ``law="top_k"`` the i-th likeliest.  Where nodes of a level have different numbers of children, solvers
        verify it node by node, and of the joint rules ``"traversal"`` and ``"match"``.
    law : str
        How siblings are drawn, a name of `otspec.decode.DRAFT_LAWS`: ``"iid"``, ``"without_replacement"``,
        ``"greedy"``, ``"top_k"``, ``"hub_pairs"``; or ``"independent"``, for paths of several draft
        models.  Siblings of another law than ``"iid"`` are verified for the scheme of that name.
    draft_temperature, draft_top_k, draft_top_p : optional
        Of the draft model, in place of the target's: one that is None is as for the target.  The text keeps the
        target's law whatever they are; ``draft_top_k=10`` makes verification cheap, see `docs/decoding.md`.
        ``draft_top_k=0`` and ``draft_top_p=1`` keep all tokens, ``draft_temperature=0`` makes drafts certain.
    draft_tokens : array_like of int, shape (k,), or a mask of bool over the draft model's tokens, optional
        The only tokens that are drafted: the draft model's head is computed for no others [zhao2025frspec].
        ``otspec.vocab.frequency_prune`` finds the most frequent ones; `docs/vocab.md` says where that pays.
    draft_kernel : Affinity, or array or sparse array of shape (V, V), optional
        A row-stochastic matrix M that the draft laws are multiplied by, once sampling has made them: drafts have the
        law ``otspec.vocab.rdk(q, M)`` [timor2025out].  Of an `Affinity` with rows for some tokens only, these are the
        ``draft_tokens``.  Softmaxes of covariances have to be made sparse, by ``M.nearest``.
    draft_shortlist : Frequent or Router, optional
        In place of these two: which tokens the draft model computes differs from node to node [zhang2025dynaspec].  An
        `otspec.decode.Frequent` takes the most frequent ones, fewer the deeper a node is; an `otspec.decode.Router`
        chooses clusters of tokens by the context.  `docs/shortlists.md` says what each is worth.
    draft_confidence : float, optional
        A path ends after the first token at which the product of the draft model's probabilities of its tokens, without
        temperature and truncations, falls below this; the text keeps its law.  It is for one path, or for the stem of a
        `branching`, which is then all there is of the tree.
    pace : str or Goodput, optional
        ``"goodput"``: before each step the depth is chosen, 0 included and L at most, that promises the most tokens a
        second, from what was accepted and how long steps took so far; the text keeps its law.  An
        `otspec.decode.Goodput` has settings of its own, such as costs, without which a seed does not repeat a run.
    prompt_lookup : int, optional
        Beside all this, one path of at most so many tokens is copied from the text, where its ending occurs earlier
        [saxena2023prompt].  It hangs in the same tree, and the text keeps its law: see `docs/decoding.md`.

    Raises
    ------
    ProblemError
        If a setting is out of its range, or two of them say different things.

    Examples
    --------
    >>> from otspec.decode import DraftSettings
    >>> DraftSettings(paths=4, depth=2).given
    {'paths': 4, 'depth': 2}
    >>> DraftSettings(draft_confidence=2.0)
    Traceback (most recent call last):
        ...
    otspec.errors.ProblemError: draft_confidence is 2.0; it is a probability in [0, 1], 0 to draft whole paths
    """

    paths: int | None = field(default=None, metadata=option("How many independent paths are drafted, K.", "count", "1"))
    depth: int | None = field(default=None, metadata=option("How many tokens a path has, L.", "count", "3"))
    solver: Rule = field(
        default=None,
        metadata=option(
            "The rule: a joint one, or a solver that is applied token by token, or a list, each for where those before "
            "it fail.",
            "rule",
            "nested for i.i.d. drafts, which is block for one path",
        ),
    )
    branching: Sequence[int] | None = field(
        default=None,
        metadata=option(
            "How many children the nodes of each level have, a list, in place of paths and depth.", "counts"
        ),
    )
    tree: str | Sequence[Sequence[int]] | None = field(
        default=None,
        metadata=option(
            "The static tree, in place of paths, depth and branching: a list of choices, such as 0,1,0.0,0.1, where "
            "0.1 is the second child of the first; or a file with one, as Medusa and EAGLE have it.",
            "tree",
        ),
    )
    law: str = field(default="iid", metadata=option(f"How siblings are drawn: {_LAWS}.", "word", "iid"))
    draft_temperature: float | None = field(
        default=None,
        metadata=option(
            "The temperature of the draft model; 0 makes drafts certain.", "temperature", "as --temperature"
        ),
    )
    draft_top_k: int | None = field(
        default=None,
        metadata=option("Keep the k likeliest tokens of the draft model; 0 keeps all.", "count or 0", "as --top-k"),
    )
    draft_top_p: float | None = field(
        default=None,
        metadata=option(
            "Keep the draft model's likeliest tokens that have this mass; 1 keeps all.", "mass", "as --top-p"
        ),
    )
    draft_tokens: Any = None
    draft_kernel: Any = None
    draft_shortlist: Selection | None = None
    draft_confidence: float | None = field(
        default=None,
        metadata=option(
            "End a path after the token at which the draft model's probabilities of its tokens have a smaller product; "
            "0 drafts whole paths.",
            "probability",
        ),
    )
    pace: str | Goodput | None = field(
        default=None,
        metadata=option(
            "How each step chooses how deep to draft: goodput goes by what was accepted and by how long steps took, L "
            "tokens at most; a file that `otspec tune` wrote has the costs, so that a seed repeats the text.",
            "pace",
            "the same always",
        ),
    )
    prompt_lookup: int | None = field(
        default=None,
        metadata=option(
            "Hang one path of at most so many tokens, copied from the text, in the tree beside the drafts.", "count"
        ),
    )

    def __post_init__(self) -> None:
        confidence = self.draft_confidence
        if confidence is not None and not 0 <= confidence <= 1:
            raise ProblemError(
                f"draft_confidence is {confidence}; it is a probability in [0, 1], 0 to draft whole paths"
            )
        if confidence and self.draft_kernel is not None:
            raise ProblemError(
                "draft_confidence goes by the draft model's own probabilities, and draft_kernel moves them to tokens "
                "that it may not have; leave out one of the two"
            )
        if confidence and self.pace is not None:
            raise ProblemError("pace and draft_confidence both say where drafts end; leave out one of the two")
        others = [name for name in ("paths", "depth", "branching") if getattr(self, name) is not None]
        if self.tree is not None and others:
            raise ProblemError(f"tree says what is drafted, and so does {others[0]}; leave out one of the two")
        restricted = [name for name in ("draft_tokens", "draft_kernel") if getattr(self, name) is not None]
        if restricted and self.draft_shortlist is not None:
            raise ProblemError(
                f"draft_shortlist and {restricted[-1]} are both given, and each says which tokens the draft model "
                "computes; leave one of them out"
            )

    @property
    def all(self) -> dict[str, Any]:
        """All of them, by name."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @property
    def given(self) -> dict[str, Any]:
        """Those that are not as by default, by name."""
        default = {one.name: one.default for one in fields(self)}
        return {
            name: value
            for name, value in self.all.items()
            if value is not None and not (isinstance(value, str) and value == default[name])
        }

    def but(self, **changed: Any) -> Self:
        """The same but for some."""
        return replace(self, **changed)


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
    """How a run samples, where it verifies, and what it tells; all else belongs to transformers' `generate`.

    Parameters
    ----------
    temperature, top_k, top_p : optional
        Of the target, and of the draft model unless it has its own; temperature 0, or ``do_sample=False``, is greedy
        decoding.  What is not given is taken from `generation_config` if one is passed, and is otherwise temperature 1
        without truncation.
    seed : int, optional
        Makes the run repeatable, 0 or more; by default torch's global generator gives one.  All texts of a batch draw
        from one generator.
    streamer : optional
        One of transformers' streamers.
    tokenizer, draft_tokenizer : PreTrainedTokenizerBase, optional
        The target's, needed for `stop_strings`; both, to tell whether they agree.  Where they do not, tokens are
        matched by their text, and all token ids are the target's, those of ``draft_tokens`` and ``draft_kernel`` too.
    verify_on : str, optional
        ``"device"`` or ``"host"``.  By default trees are verified on the device of the models where that is no CPU, if
        it has the rule (nested, block or token-wise interval, of i.i.d. drafts), and otherwise on the host.
    transcript : bool
        Whether what each step drafted, accepted and added is kept, as `Generation.blocks`.
    logprobs : int, optional
        Keep the target's log-probabilities of the new tokens, and of so many likeliest ones beside each, 0 or more: as
        `Generation.logprobs`, `raw_logprobs` and `top_logprobs`.
    own_config : bool
        Whether the target's own generation configuration acts, as it does in transformers, where the call says nothing:
        a repetition penalty, suppressed tokens, a smallest length, min-p, ...  Its temperature, top-k and top-p never
        do, and the tokens that end a text always.

    Examples
    --------
    >>> from otspec.decode import RunSettings
    >>> settings, others = RunSettings.split({"temperature": 0.7, "max_new_tokens": 8})
    >>> settings.temperature, others
    (0.7, {'max_new_tokens': 8})
    """

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None
    streamer: Streamer | None = None
    tokenizer: Any = None
    draft_tokenizer: Any = None
    verify_on: str | None = None
    transcript: bool = False
    logprobs: int | None = None
    own_config: bool = True

    def __post_init__(self) -> None:
        check_seed(self.seed)
        _check_number("temperature", self.temperature, 0, math.inf, "it is finite and >= 0, 0 for greedy decoding")
        _check_number("top_p", self.top_p, 0, 1, "it is a probability, 1 to keep all tokens")
        if self.top_k is not None and not (is_whole(self.top_k) and self.top_k >= 0):
            raise ProblemError(f"top_k is {self.top_k!r}; pass how many tokens are kept, 0 for all")
        if self.logprobs is not None and not (type(self.logprobs) is int and self.logprobs >= 0):
            raise ProblemError(f"logprobs is {self.logprobs!r}; pass how many likeliest tokens are kept, 0 or more")

    @classmethod
    def split(cls, options: Mapping[str, Any]) -> tuple[Self, dict[str, Any]]:
        """The settings among some options, and the others."""
        return _split(cls, options)


def is_whole(value: object) -> TypeGuard[int]:
    """Whether this is an integer, and no truth value."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def _check_number(name: str, value: float | None, least: float, most: float, rule: str) -> None:
    """Raise unless this is None or a finite number in a range."""
    if value is None:
        return
    real = isinstance(value, Real) and not isinstance(value, bool)
    if not (real and math.isfinite(value) and least <= value <= most):
        raise ProblemError(f"{name} is {value!r}; {rule}")


def check_lengths(options: Mapping[str, Any]) -> None:
    """Raise unless what says how long texts get, among options of transformers' `generate`, are counts.

    Raises
    ------
    ProblemError
        If one is no integer, or less than 1.
    """
    for name in ("max_new_tokens", "max_length"):
        value = options.get(name)
        if value is not None and (not is_whole(value) or value < 1):
            raise ProblemError(f"{name} is {value!r}; pass how many tokens, an integer of 1 or more")


def check_seed(seed: object) -> None:
    """Raise unless this is None or one integer, 0 or more.

    Raises
    ------
    ProblemError
        If it is something else, as a list with a seed for each prompt.
    """
    if seed is not None and (not is_whole(seed) or seed < 0):
        raise ProblemError(f"seed is {seed!r}; pass one integer, 0 or more, from which all texts of a batch draw")


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
