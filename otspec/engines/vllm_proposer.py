"""A drafter of ours inside vLLM: what followed the same few tokens earlier in the text [saxena2023prompt].

vLLM makes it by its dotted name:

    speculative_config={"method": "custom_class", "model": "otspec.engines.vllm.Proposer", "num_speculative_tokens": 4}

It drafts one chain of fixed tokens, which is all that vLLM takes of a class of one's own.  vLLM's own `ngram` copies
from the earliest occurrence of an ending; this one from the latest, of the longest ending that occurs.  Suffix decoding
is in vLLM (`method="suffix"`), and lookahead decoding needs a tree of guesses, which vLLM cannot read.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from otspec.decode.drafters.prompt_lookup import continuations
from otspec.errors import ProblemError
from otspec.laws import IntArray

NGRAM = "OTSPEC_PROPOSER_NGRAM"
"""Variable of the environment: how many last tokens are looked up, at most."""


class Proposer:
    """Prompt lookup as vLLM asks for it.

    Parameters
    ----------
    vllm_config : VllmConfig
        `speculative_config.num_speculative_tokens` and `model_config.max_model_len` are read.

    Raises
    ------
    ProblemError
        If the environment says how many tokens to look up, and that is no number.
    """

    def __init__(self, vllm_config: Any) -> None:
        ngram = os.environ.get(NGRAM, "3")
        if not ngram.isdecimal() or int(ngram) < 1:
            raise ProblemError(f"the environment has {NGRAM}={ngram}; it is how many tokens to look up, 1 or more")
        self.ngram = int(ngram)
        self.length = int(vllm_config.speculative_config.num_speculative_tokens)
        self.context = int(vllm_config.model_config.max_model_len)

    def load_model(self, *_: Any, **__: Any) -> None:
        """Nothing: it has none."""

    def propose(
        self,
        sampled_token_ids: Sequence[Sequence[int]],
        num_tokens_no_spec: IntArray,
        token_ids_cpu: IntArray,
        slot_mappings: object = None,
    ) -> list[list[int]]:
        """Draft for each of B requests; those whose prompt is still being read, or that are full, get nothing.

        Parameters
        ----------
        sampled_token_ids : list of lists of int, length B
            What each got in this step.
        num_tokens_no_spec : array of int, shape (B,)
            Tokens of each so far.
        token_ids_cpu : array of int, shape (B, S)
            The tokens.
        slot_mappings : object
            Not used.
        """
        drafts: list[list[int]] = []
        for row, new in enumerate(sampled_token_ids):
            length = int(num_tokens_no_spec[row])
            if not new or length >= self.context:
                drafts.append([])
                continue
            found = continuations(token_ids_cpu[row, :length].tolist(), self.ngram, self.length)
            drafts.append(found[0] if found else [])
        return drafts
