"""Our own decoder, `otspec.generate`, as an engine."""

from __future__ import annotations

import importlib
from typing import Any

from otspec.auditing.engines.adapters.transformers import Plain
from otspec.auditing.engines.engine import Acceptance, Sampling, Text
from otspec.decode.base.metrics import Metrics
from otspec.errors import ProblemError

BATCH = 64
"""Texts that are decoded together."""


class Decoder(Plain):
    """otspec's decoder with a draft model; without drafts, transformers' `generate`.

    Parameters
    ----------
    target, draft : str
        ``"shipped"``, or folders that `save_pretrained` wrote.
    drafts : int
        Tokens of each path.
    paths : int
        Paths that are drafted at once.
    solver : str, optional
        Who verifies, as in `otspec.decode.DraftSettings`.
    law : str
        How siblings are drawn.
    dtype : str, optional
        What weights are held in; by default float32.
    own_config : bool
        Whether the target's own generation configuration acts, but for temperature, top-k, top-p and min-p.
    """

    name = "otspec"

    def __init__(
        self,
        target: str = "shipped",
        draft: str = "shipped",
        drafts: int = 3,
        paths: int = 1,
        solver: str | None = None,
        law: str = "iid",
        dtype: str | None = None,
        own_config: bool = True,
    ) -> None:
        super().__init__(target, draft, dtype, own_config)
        self.version = f"{importlib.import_module('otspec').__version__}, transformers {self.version}"
        self._settings: dict[str, Any] = {"paths": paths, "depth": drafts, "law": law}
        self._settings |= {} if solver is None else {"solver": solver}
        self.method = f"{paths} x {drafts} tokens, {law}, {solver or 'nested labels'}"
        self._metrics = Metrics()

    def texts(self, prompt: str, count: int, length: int, sampling: Sampling, seed: int, *, drafts: bool) -> list[Text]:
        """Texts in batches."""
        if not drafts:
            return self.generated(prompt, count, length, sampling, seed)
        found: list[Text] = []
        for batch, first in enumerate(range(0, count, BATCH)):
            found += self._batch(prompt, min(BATCH, count - first), length, sampling, 1000 * seed + batch)
        return found

    def acceptance(self) -> Acceptance | None:
        """What became of the drafts since the start."""
        found = self._metrics
        if not found.offered:
            return None
        return Acceptance(found.offered[0], found.drafted_nodes, sum(found.accepted), tuple(found.accepted))

    def _batch(self, prompt: str, count: int, length: int, sampling: Sampling, seed: int) -> list[Text]:
        import torch

        from otspec.decode import generate

        if sampling.min_p:
            raise ProblemError("the adapter of otspec's decoder takes no min_p; audit temperature, top-k and top-p")
        inputs = self.ids(prompt).expand(count, -1)
        out = generate(
            self.models.target,
            self.models.draft,
            inputs,
            attention_mask=torch.ones_like(inputs),
            temperature=sampling.temperature,
            top_k=sampling.top_k or None,
            top_p=sampling.top_p,
            max_new_tokens=length,
            seed=seed,
            tokenizer=self.models.tokenizer,
            draft_tokenizer=self.models.draft_tokenizer,
            **self._settings,
        )
        self._metrics += out.metrics
        return [self.text(tokens, None, length) for tokens in out.new_tokens]
