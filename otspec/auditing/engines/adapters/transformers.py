"""transformers' `generate`: plain, and assisted by a draft model or by a look at the text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otspec.auditing.engines.engine import Acceptance, Sampling, Text
from otspec.errors import ProblemError
from otspec.extras import require
from otspec.settings import Count, check_value

METHODS = ("assisted", "prompt-lookup")


class Plain:
    """A model in transformers' form that writes texts without drafts, many at once.

    Parameters
    ----------
    target : str
        ``"shipped"``, or a folder that `save_pretrained` wrote.
    draft : str, optional
        The same of a draft model.
    dtype : str, optional
        What weights are held in, as in `otspec.decode`; by default float32.
    own_config : bool
        Whether the target's own generation configuration acts, but for temperature, top-k, top-p and min-p.

    Raises
    ------
    DataError
        If there is no such model, or it cannot be read.
    MissingExtra
        If torch or transformers is not installed.
    """

    name = "transformers"

    def __init__(
        self, target: str, draft: str | None = None, dtype: str | None = None, own_config: bool = True
    ) -> None:
        from otspec.decode.models.own_config import drop_own_config
        from otspec.decode.models.own_config import own_config as acting
        from otspec.decode.pair.loading import load_models

        self.version: str = require("transformers").__version__
        self.models = load_models(target, draft, "cpu", dtype)
        if not own_config:
            drop_own_config(self.models.target)
        self.models.target.generation_config.min_p = None  # which a sampling says
        self.own_config: Mapping[str, Any] = acting(self.models.target)
        ends = self.models.target.generation_config.eos_token_id
        self._stops = frozenset(ends if isinstance(ends, list) else [ends])

    def generated(self, prompt: str, count: int, length: int, sampling: Sampling, seed: int, **how: Any) -> list[Text]:
        """Texts by one call of `generate`, all of one batch; `how` is handed to it, nothing without drafts."""
        import torch

        inputs = self.ids(prompt).expand(count, -1)
        with torch.random.fork_rng(devices=[]), torch.inference_mode():
            torch.manual_seed(seed)
            out: Any = self.models.target.generate(
                input_ids=inputs,
                attention_mask=torch.ones_like(inputs),
                max_new_tokens=length,
                return_dict_in_generate=True,
                output_scores=True,
                pad_token_id=self._padding,
                **_sampling(sampling),
                **how,
            )
            rows = out.sequences[:, inputs.shape[1] :]
            logs = torch.stack(out.scores, dim=1).float().log_softmax(dim=-1)
            chosen = logs[:, : rows.shape[1]].gather(2, rows[:, :, None])[:, :, 0]
        return [self.text(*both, length) for both in zip(rows.tolist(), chosen.tolist(), strict=True)]

    def text(self, tokens: list[int], logprobs: list[float] | None, length: int) -> Text:
        """A text of its tokens, cut behind the first that ends it: what follows there is padding."""
        end = next((place + 1 for place, token in enumerate(tokens) if token in self._stops), len(tokens))
        ended = "stop" if end and tokens[end - 1] in self._stops else "length" if end >= length else ""
        shown = self.models.tokenizer.decode(tokens[:end])
        return Text(tuple(tokens[:end]), shown, None if logprobs is None else tuple(logprobs[:end]), ended)

    def ids(self, prompt: str) -> Any:
        """The tokens of a prompt, a tensor of shape (1, S)."""
        import torch

        from otspec.decode.pair.loading import encode

        return torch.tensor(encode(self.models.tokenizer, [prompt]))

    def acceptance(self) -> Acceptance | None:
        """None: transformers does not say."""
        return None

    def close(self) -> None:
        """Nothing is held but memory."""

    @property
    def _padding(self) -> int:
        known = self.models.tokenizer.pad_token_id
        return 0 if known is None else int(known)


class Transformers(Plain):
    """transformers with assisted generation.

    Parameters
    ----------
    target : str
        ``"shipped"``, or a folder that `save_pretrained` wrote.
    draft : str, optional
        The draft model; with another tokenizer it assists by "universal assisted decoding".
    drafts : int, optional
        Tokens that are drafted at once, always as many; by default as transformers adapts them.
    method : str, optional
        ``"assisted"``, or ``"prompt-lookup"``, which needs no draft model and is the default without one.
    confidence : float, optional
        ``assistant_confidence_threshold``; by default transformers' own.
    dtype : str, optional
        What weights are held in; by default float32.
    own_config : bool
        As for `Plain`.

    Raises
    ------
    ProblemError
        If the method and the draft model contradict each other.
    DataError
        If there is no such model, or it cannot be read.
    """

    def __init__(
        self,
        target: str,
        draft: str | None = None,
        drafts: int | None = None,
        method: str | None = None,
        confidence: float | None = None,
        dtype: str | None = None,
        own_config: bool = True,
    ) -> None:
        chosen = method or ("prompt-lookup" if draft is None else "assisted")
        if chosen not in METHODS:
            raise ProblemError(f"transformers has no method {chosen!r} here; known: {', '.join(METHODS)}")
        if (chosen == "assisted") != (draft is not None):
            needs = "needs a draft model" if draft is None else "takes no draft model"
            raise ProblemError(f"method {chosen} {needs}; pass --draft with assisted only")
        if drafts is not None:
            check_value("drafts", drafts, Count)
        super().__init__(target, draft, dtype, own_config)
        self._how: dict[str, Any] = {"prompt_lookup_num_tokens": drafts or 3}
        self.method = f"prompt lookup, {drafts or 3} tokens"
        if self.models.draft is not None:
            self._how = {"assistant_model": self.models.draft}
            settings = self.models.draft.generation_config
            if drafts is not None:
                settings.num_assistant_tokens, settings.num_assistant_tokens_schedule = drafts, "constant"
            if confidence is not None:
                settings.assistant_confidence_threshold = confidence
            kind = "draft model"
            if self.models.matching is not None:
                kind = "draft model with another tokenizer"
                self._how |= {"tokenizer": self.models.tokenizer, "assistant_tokenizer": self.models.draft_tokenizer}
            self.method = f"assisted: {kind}, {'adaptive' if drafts is None else f'{drafts} tokens'}"
            self.method += "" if confidence is None else f", confidence {confidence}"

    def texts(self, prompt: str, count: int, length: int, sampling: Sampling, seed: int, *, drafts: bool) -> list[Text]:
        """Texts without drafts all at once; with drafts one by one, as transformers knows no batch there."""
        if not drafts:
            return self.generated(prompt, count, length, sampling, seed)
        each = range(seed, seed + count)
        return [text for one in each for text in self.generated(prompt, 1, length, sampling, one, **self._how)]


def _sampling(sampling: Sampling) -> dict[str, Any]:
    """As keywords of `generate`, which has truncations of its own by default."""
    if sampling.greedy:
        return {"do_sample": False}
    cuts = {"top_k": sampling.top_k or 0, "top_p": sampling.top_p or 1.0, "min_p": sampling.min_p or None}
    return {"do_sample": True, "temperature": sampling.temperature, **cuts}
