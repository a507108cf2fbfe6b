"""Multi-draft decoding in one call, and as a decoding method of transformers' `generate`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import torch
from transformers import PreTrainedModel
from transformers.generation.utils import GenerateDecoderOnlyOutput

from otspec.decode.base.metrics import Metrics
from otspec.decode.methods.multi_draft import MultiDraft
from otspec.decode.models.pairing import pair_up
from otspec.decode.models.tokens.matching import matching_of
from otspec.decode.settings import GenerateOptions, RunSettings, drafts_among
from otspec.decode.step.harness import Generation, begin_prepared, run
from otspec.decode.step.strategy import listed


def generate(
    target: PreTrainedModel,
    draft: PreTrainedModel | Sequence[PreTrainedModel],
    input_ids: torch.Tensor,
    **options: Unpack[GenerateOptions],
) -> Generation:
    """Text of the target model, drafted by a smaller one: the law is the target's own, whatever the drafts are.

    Parameters
    ----------
    target, draft : PreTrainedModel
        Causal language models.  A draft model with another tokenizer drafts what the two have in common, if
        ``tokenizer`` and ``draft_tokenizer`` are given [timor2025accelerating].  Several draft models, with
        ``law="independent"``, draft paths of their own.
    input_ids : Tensor of int, shape (B, S)
        Prompts.
    paths, depth, solver, branching, law, draft_* : optional
        What is drafted, how, and what verifies it: the fields of `otspec.decode.DraftSettings`.  By default one path of
        three i.i.d. tokens, by block verification.
    temperature, top_k, top_p, seed, streamer, tokenizer, draft_tokenizer, verify_on, logprobs, own_config : optional
        How the run samples, where it verifies and what it returns: the fields of `otspec.decode.RunSettings`.  By
        default temperature 1 without truncation; all else in the target's own generation configuration acts.
    attention_mask : Tensor, shape (B, S), optional
        0 marks padding.
    **options
        All else that transformers' `generate` takes: max_new_tokens, eos_token_id, stop_strings, stopping_criteria,
        generation_config, repetition_penalty, ...

    Returns
    -------
    Generation
        Sequences and metrics.

    Raises
    ------
    ProblemError
        If a prompt is empty or too long, too many new tokens are requested, the models have different tokens and no
        tokenizers to match them by are given, one of the models cannot read trees, `draft_tokens` are no tokens or are
        all suppressed, or settings contradict each other.
    SolveError
        If a solver fails on a node and there is no other in its chain.

    Examples
    --------
    >>> import otspec
    >>> from otspec.decode import shipped
    >>> target, draft, tokenizer = shipped.load()
    >>> prompt = tokenizer("except Key", return_tensors="pt")
    >>> text = otspec.generate(target, draft, **prompt, paths=2, depth=3, temperature=0, max_new_tokens=7)
    >>> print(tokenizer.decode(text.new_tokens[0]))
    boardInterrupt
    """
    drafts, others = drafts_among(options)
    matching = matching_of(others.get("tokenizer"), others.get("draft_tokenizer"))
    return run(target, MultiDraft.of(draft, drafts, matching), input_ids, **others)


@dataclass
class MultiDraftOutput(GenerateDecoderOnlyOutput):  # type: ignore[misc]  # transformers is untyped here
    """What `generate` returns with ``return_dict_in_generate=True``: sequences, and the metrics of the run.

    Examples
    --------
    >>> from otspec.decode import multi_draft, shipped
    >>> target, draft, tokenizer = shipped.load()
    >>> prompt = tokenizer("import numpy as", return_tensors="pt")
    >>> method = multi_draft(draft, depth=3, seed=1)
    >>> out = target.generate(**prompt, custom_generate=method, return_dict_in_generate=True, max_new_tokens=8)
    >>> out.metrics.tokens
    8
    """

    metrics: Metrics | None = None


@dataclass(frozen=True, eq=False)
class CustomGenerate:
    """The method that transformers' `generate` calls with processors, criteria and prompts: see `multi_draft`."""

    strategy: MultiDraft
    settings: RunSettings

    def __call__(
        self, model: PreTrainedModel, input_ids: torch.Tensor, **prepared: Any
    ) -> torch.Tensor | MultiDraftOutput:
        """Decode, and return what transformers' own methods do.

        Raises
        ------
        ProblemError
            As `otspec.generate` does.
        """
        for draft in listed(self.strategy.draft):
            pair_up(model, draft, self.settings.tokenizer, self.settings.draft_tokenizer)
        begun = begin_prepared(model, self.strategy, self.settings, input_ids, **prepared)
        generation = begun.to_the_end()
        if prepared["generation_config"].return_dict_in_generate:
            return MultiDraftOutput(sequences=generation.sequences, metrics=generation.metrics)
        return generation.sequences


def multi_draft(
    draft: PreTrainedModel | Sequence[PreTrainedModel], **options: Unpack[GenerateOptions]
) -> CustomGenerate:
    """A decoding method for transformers: ``model.generate(..., custom_generate=multi_draft(draft, depth=8))``.

    All else is passed to `generate`, with transformers' defaults: it decodes greedily, and with ``do_sample=True`` it
    cuts laws to the 50 likeliest tokens unless ``top_k`` is another number.

    Parameters
    ----------
    draft : PreTrainedModel
        The model that drafts, or several; `assistant_model` is not needed.
    **options
        The fields of `otspec.decode.DraftSettings`, and of `otspec.decode.RunSettings` seed, streamer, tokenizer,
        draft_tokenizer and verify_on.  The streamer belongs here: transformers up to 5.23 does not hand
        the `streamer` of `generate` on to a decoding method, so that it would get the prompt only and never end.
        The tokenizers are needed where the two models' vocabularies differ in size.

    Raises
    ------
    ProblemError
        If a setting of the drafts is out of its range.
    TypeError
        If an option is not of these: options of `generate` are passed to that.

    Examples
    --------
    >>> import torch
    >>> from otspec.decode import multi_draft, shipped
    >>> target, draft, tokenizer = shipped.load()
    >>> prompt = tokenizer("import numpy as", return_tensors="pt")
    >>> plain = target.generate(**prompt, max_new_tokens=8)
    >>> torch.equal(plain, target.generate(**prompt, max_new_tokens=8, custom_generate=multi_draft(draft, depth=4)))
    True
    """
    drafts, others = drafts_among(options)
    settings, unknown = RunSettings.split(others)
    misplaced = [name for name in ("temperature", "top_k", "top_p") if getattr(settings, name) is not None]
    misplaced += [] if settings.own_config else ["own_config"]
    if unknown or misplaced:
        raise TypeError(
            f"multi_draft() got {', '.join([*unknown, *misplaced])}, which belongs to the generate() that it is "
            "passed to as custom_generate"
        )
    matching = matching_of(settings.tokenizer, settings.draft_tokenizer)
    return CustomGenerate(MultiDraft.of(draft, drafts, matching), settings)
