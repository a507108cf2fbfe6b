"""Exact laws of the tokens of a text: of a model that transformers reads, or by a function."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from otspec.auditing.engines.engine import Sampling
from otspec.errors import DataError, ProblemError
from otspec.laws import BoolArray, FloatArray, as_law
from otspec.logits import law_from_logits

ROWS = 4096
"""Positions that one pass of the model reads at most."""
ROUNDING = {"bfloat16": 2.0**-3, "float16": 2.0**-6}
"""By type: 16 units in the last place of a number that rounds by 2^-8, or 2^-11, as passes of other shapes may differ.

In float32 that is less than any tolerance that is worth a name.
"""


class Laws(Protocol):
    """What is known of the target: the logits after each prefix of a text."""

    @property
    def ends(self) -> frozenset[int]:
        """Tokens that end a text."""

    @property
    def rounding(self) -> float:
        """How far two passes over one text may be apart by rounding, as a share of the logits' standard deviation."""

    def along(self, prompt: str, texts: Sequence[tuple[int, ...]]) -> Iterator[FloatArray]:
        """Of each text the logits at which its tokens were drawn, shape (length of the text, V)."""


class Truncated(NamedTuple):
    """A law as an engine samples from it."""

    law: FloatArray
    """Shape (V,)."""
    undecided: bool
    """Whether rounding decides which tokens are cut off."""


def truncated(logits: FloatArray, sampling: Sampling, tolerance: float) -> Truncated:
    """The law of a token: temperature, then top-k, top-p and min-p, as transformers and vLLM cut.

    Parameters
    ----------
    logits : ndarray, shape (V,)
    sampling : Sampling
    tolerance : float
        How far logits of the engine may be off these.  Where a token within it of the border is cut off, or not,
        engines may differ without being wrong.
    """
    law = law_from_logits("logits", logits, sampling.temperature, sampling.top_k or None, sampling.top_p)
    if sampling.min_p:
        law = np.where(law >= sampling.min_p * law.max(), law, 0.0)
        law /= law.sum()
    return Truncated(law, _undecided(logits, law > 0, sampling, tolerance))


KNOWN = (
    *("repetition_penalty", "no_repeat_ngram_size", "sequence_bias", "bad_words_ids", "min_length", "min_new_tokens"),
    *("forced_bos_token_id", "exponential_decay_length_penalty", "suppress_tokens", "begin_suppress_tokens"),
    "remove_invalid_values",
)
"""What a model's own generation configuration may do to its logits, so that the law is still known exactly."""


class ModelLaws:
    """Laws of a model in transformers' form.

    Parameters
    ----------
    model : PreTrainedModel
        What its own generation configuration does to logits, a repetition penalty say, is part of the law;
        temperature, top-k, top-p and min-p are those of a `Sampling`.
    tokenizer : PreTrainedTokenizer
        Prompts are tokenized as it does by default, as engines do.

    Raises
    ------
    ProblemError
        If that configuration does something to texts of which no law of a token is known, such as typical-p.
    """

    def __init__(self, model: Any, tokenizer: Any) -> None:
        from otspec.decode.models.own_config import own_config

        self._model, self._tokenizer = model, tokenizer
        self.own_config: dict[str, Any] = own_config(model)
        self.own_config.pop("min_p", None)
        if unknown := [name for name in self.own_config if name not in KNOWN]:
            raise ProblemError(
                f"the target's own generation configuration has {unknown[0]}, and no exact law under that is known "
                "here; leave that configuration out of the audit (own_config=False, --no-own-config), or audit without "
                "an exact law"
            )
        ends = model.generation_config.eos_token_id
        ends = tokenizer.eos_token_id if ends is None else ends
        self.ends = frozenset(ends if isinstance(ends, list) else [] if ends is None else [ends])
        self.vocab = int(model.config.get_text_config().vocab_size)
        self.rounding = ROUNDING.get(str(model.dtype).removeprefix("torch."), 0.0)

    @classmethod
    def load(cls, model: str, dtype: str | None = None, *, own_config: bool = True) -> ModelLaws:
        """Of ``"shipped"`` or a folder, on the CPU; `dtype` as in `otspec.decode`, by default float32.

        Parameters
        ----------
        model, dtype : str
        own_config : bool
            Whether the model's own generation configuration acts, as in transformers.

        Raises
        ------
        DataError
            If there is no such folder, or its model cannot be read.
        ProblemError
            As for `ModelLaws`.
        """
        from otspec.decode.models.own_config import drop_own_config
        from otspec.decode.pair.loading import SHIPPED, load_models

        if model != SHIPPED and not Path(model).is_dir():
            raise DataError(f"there is no folder {model}; pass {SHIPPED}, or a folder written by save_pretrained")
        models = load_models(model, None, "cpu", dtype)
        if not own_config:
            drop_own_config(models.target)
        return cls(models.target, models.tokenizer)

    def head(self, prompt: str) -> list[int]:
        """The tokens of a prompt.

        Raises
        ------
        ProblemError
            If it has none.
        """
        tokens = list(self._tokenizer(prompt).input_ids)
        if not tokens:
            raise ProblemError(f"the prompt {prompt!r} has no tokens; write something")
        return tokens

    def along(self, prompt: str, texts: Sequence[tuple[int, ...]]) -> Iterator[FloatArray]:
        """Of each text the logits at which its tokens were drawn, shape (length of the text, V)."""
        import torch

        head = self.head(prompt)
        wrong = next((token for text in texts for token in text if not 0 <= token < self.vocab), None)
        if wrong is not None:
            raise ProblemError(
                f"the engine puts out token {wrong}, and the model of the exact law has {self.vocab}; is it the same?"
            )
        width = max([1, *map(len, texts)])
        rows = max(ROWS // (len(head) + width), 1)
        begun = self._begun(head[:-1])
        for first in range(0, len(texts), rows):
            some = texts[first : first + rows]
            # The last token draws nothing; what is behind a shorter text is not looked at by causal attention.
            listed = [head + list(text[:-1]) + [head[0]] * (width - max(len(text), 1)) for text in some]
            ids, unread, past = torch.tensor(listed, device=self._model.device), 0, dict[str, Any]()
            if begun is not None:
                unread, past = len(head) - 1, {"past_key_values": deepcopy(begun)}
                past["past_key_values"].batch_repeat_interleave(len(some))
            with torch.inference_mode():
                logits = self._processed(ids, self._model(input_ids=ids[:, unread:], **past).logits[:, -width:])
            found = logits.double().cpu().numpy()
            yield from (found[row, : len(text)] for row, text in enumerate(some))

    def _begun(self, head: list[int]) -> Any:
        """The cache of a prompt that all texts go on from; None where there is none that is repeated text by text."""
        import torch

        if not head:
            return None
        with torch.inference_mode():
            ids = torch.tensor([head], device=self._model.device)
            cache = getattr(self._model(input_ids=ids, use_cache=True), "past_key_values", None)
        return cache if hasattr(cache, "batch_repeat_interleave") else None

    def _processed(self, ids: Any, logits: Any) -> Any:
        """Logits at the last places of texts as the model's own generation configuration changes them."""
        if not self.own_config:
            return logits
        import torch

        head = ids.shape[1] - logits.shape[1] + 1
        prepared: dict[str, Any] = {}

        def prepare(model: Any, input_ids: Any, **arguments: Any) -> Any:
            prepared.update(arguments)
            return input_ids

        prompts = ids[:, :head]
        self._model.generate(
            prompts,
            attention_mask=torch.ones_like(prompts),
            custom_generate=prepare,
            do_sample=False,
            max_new_tokens=logits.shape[1],
        )
        processors = prepared["logits_processor"]
        each = [processors(ids[:, : head + place], logits[:, place].clone()) for place in range(logits.shape[1])]
        return torch.stack(each, dim=1)


class FunctionLaws:
    """Laws that a function tells, of tokens by number.

    Parameters
    ----------
    law : callable
        From the tokens before, a tuple, to the law of the next, shape (V,); the prompt goes first if it asks for two.
        It is the law at temperature 1; other samplings follow from it.
    ends : collection of int
        Tokens that end a text.
    """

    def __init__(self, law: Callable[..., Any], ends: Sequence[int] = (), *, with_prompt: bool = False) -> None:
        self._law, self._with_prompt, self.rounding = law, with_prompt, 0.0
        self.ends = frozenset(ends)

    def along(self, prompt: str, texts: Sequence[tuple[int, ...]]) -> Iterator[FloatArray]:
        """Of each text the logits at which its tokens were drawn, shape (length of the text, V)."""
        for text in texts:
            before = [(prompt, text[:place]) if self._with_prompt else (text[:place],) for place in range(len(text))]
            laws = [as_law("the exact law", self._law(*arguments)) for arguments in before]
            if len({law.size for law in laws}) > 1:
                raise ProblemError(
                    f"the exact law has {[law.size for law in laws]} tokens along {text}; make them as many"
                )
            wrong = next((token for token, law in zip(text, laws, strict=True) if not 0 <= token < law.size), None)
            if wrong is not None:
                raise ProblemError(f"a text holds token {wrong}, and the exact law has {laws[0].size} tokens")
            with np.errstate(divide="ignore"):
                yield np.log(np.array(laws)) if laws else np.empty((0, 0))


def _undecided(logits: FloatArray, possible: BoolArray, sampling: Sampling, tolerance: float) -> bool:
    """Whether a kept token and one that is cut off are so close that rounding decides between them."""
    cut = np.isfinite(logits) & ~possible
    if sampling.greedy:
        return False
    near = cut.any() and logits[possible].min() - logits[cut].max() <= tolerance
    return bool(near) or _on_the_edge(logits, possible, sampling, tolerance)


def _on_the_edge(logits: FloatArray, possible: BoolArray, sampling: Sampling, tolerance: float) -> bool:
    """Whether the mass, or the part of the largest probability, at which top-p or min-p cuts is met within rounding."""
    if not (sampling.min_p or (sampling.top_p or 1) < 1):
        return False
    law = law_from_logits("logits", logits, sampling.temperature, sampling.top_k or None)
    slack = np.expm1(tolerance / sampling.temperature)
    if sampling.top_p and sampling.top_p < 1:
        below, last = float(law[possible].sum()), float(law[possible].min())
        room = slack * sampling.top_p
        if abs(below - sampling.top_p) <= room or abs(below - last - sampling.top_p) <= room:
            return True
    if sampling.min_p:
        border = sampling.min_p * law.max()
        return bool((np.abs(law - border) <= slack * border).any())
    return False
