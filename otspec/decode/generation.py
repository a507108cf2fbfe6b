"""Multi-draft decoding in one call, and as a decoding method of transformers' `generate`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import torch
from transformers import PreTrainedModel
from transformers.generation.utils import GenerateDecoderOnlyOutput

from otspec.decode.base.metrics import Metrics
from otspec.decode.base.sampling import DraftSettings
from otspec.decode.methods.multi_draft import MultiDraft
from otspec.decode.models.pairing import pair_up
from otspec.decode.models.tokens.matching import matching_of
from otspec.decode.pacing.goodput import Goodput
from otspec.decode.step.harness import Generation, decode, run
from otspec.decode.step.loop import Streamer
from otspec.decode.step.strategy import listed
from otspec.verification.rules.catalogue import Rule


def generate(
    target: PreTrainedModel,
    draft: PreTrainedModel | Sequence[PreTrainedModel],
    input_ids: torch.Tensor,
    *,
    attention_mask: torch.Tensor | None = None,
    paths: int | None = None,
    depth: int | None = None,
    solver: Rule = None,
    branching: Sequence[int] | None = None,
    law: str = "iid",
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    draft_temperature: float | None = None,
    draft_top_k: int | None = None,
    draft_top_p: float | None = None,
    draft_tokens: Any = None,
    draft_kernel: Any = None,
    draft_shortlist: Any = None,
    draft_confidence: float | None = None,
    pace: str | Goodput | None = None,
    seed: int | None = None,
    streamer: Streamer | None = None,
    tokenizer: Any = None,
    draft_tokenizer: Any = None,
    verify_on: str | None = None,
    **settings: Any,
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
    attention_mask : Tensor, shape (B, S), optional
        0 marks padding.
    paths, depth : int, optional
        K independent paths of L tokens [sun2023spectr].  By default one of 3 tokens; `otspec tune` finds what is
        fastest for two models on the machine at hand.
    solver : Rule, optional
        Who verifies.  By default nested labels with block verification (``"nested"``, see `docs/paths.md`; for one
        path that is ``"block"``); another
        joint rule (``"block"``, ``"traversal"``, ...), or a solver of the registry node by node (``"interval"``), or
        a chain of them where the first may fail (``["global_resolution", "interval"]``).
    branching : sequence of int, optional
        In place of paths and depth: the children that a node of each level has.
    law : str
        How siblings are drawn: ``"iid"``, ``"without_replacement"``, ``"greedy"``, ``"top_k"``, ``"systematic"``,
        ``"hub_pairs"``; or ``"independent"``, for paths of several draft models.
    temperature, top_k, top_p : optional
        Of both models; temperature 0, or ``do_sample=False``, is greedy decoding.  What is not given is taken from
        `generation_config` if one is passed, and is otherwise temperature 1 without truncation.
    draft_temperature, draft_top_k, draft_top_p : optional
        Of the draft model, in place of the three above: one that is None is as for the target.  The text keeps the
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
        In place of these two: which tokens the draft model computes differs from slot to slot [zhang2025dynaspec].  An
        `otspec.decode.Frequent` takes the most frequent ones, fewer the deeper a slot is; an `otspec.decode.Router`
        chooses clusters of tokens by the context.  `docs/shortlists.md` says what each is worth.
    draft_confidence : float, optional
        A path ends after the first token at which the product of the draft model's probabilities of its tokens,
        without temperature and truncations, falls below this; the text keeps its law.  For one path, or the stem of a
        `branching`, which is then all there is of the tree.
    pace : str or Goodput, optional
        ``"goodput"``: before each step the depth is chosen, 0 included and L at most (by default 8), that promises the
        most tokens a second, from what was accepted and how long steps took so far; the text keeps its law.  An
        `otspec.decode.Goodput` has settings of its own, such as costs, without which a seed does not repeat a run.
    seed : int, optional
        Makes the run repeatable; by default torch's global generator gives one.
    streamer : optional
        One of transformers' streamers.
    tokenizer, draft_tokenizer : PreTrainedTokenizerBase, optional
        The target's, needed for `stop_strings`; both, to tell whether they agree.  Where they do not, tokens are
        matched by their text, and all token ids are the target's, those of ``draft_tokens`` and ``draft_kernel`` too.
    verify_on : str, optional
        ``"device"`` or ``"host"``.  By default trees are verified on the device of the models where that is no CPU, if
        it has the rule (nested, block or token-wise interval, of i.i.d. drafts), and otherwise on the host.
    **settings
        All else that transformers' `generate` takes: max_new_tokens, eos_token_id, stop_strings,
        stopping_criteria, generation_config, repetition_penalty, ...

    Returns
    -------
    Generation
        Sequences and metrics.

    Raises
    ------
    ProblemError
        If a prompt is empty, it or what is asked for too long, the models have different tokens and no tokenizers that
        could be matched are given, one of them cannot read trees, tokens may be drafted that are none or all
        suppressed, or settings contradict each other.
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
    return run(
        target,
        MultiDraft(
            draft,
            paths,
            depth,
            solver,
            branching,
            law,
            draft_temperature=draft_temperature,
            draft_top_k=draft_top_k,
            draft_top_p=draft_top_p,
            draft_tokens=draft_tokens,
            draft_kernel=draft_kernel,
            matching=matching_of(tokenizer, draft_tokenizer),
            draft_shortlist=draft_shortlist,
            draft_confidence=draft_confidence,
            pace=pace,
        ),
        input_ids,
        attention_mask=attention_mask,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        seed=seed,
        streamer=streamer,
        tokenizer=tokenizer,
        draft_tokenizer=draft_tokenizer,
        verify_on=verify_on,
        **settings,
    )


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
    """What transformers' `generate` calls once it has prepared processors, criteria and prompts: see `multi_draft`."""

    strategy: MultiDraft
    seed: int | None = None
    streamer: Streamer | None = None
    tokenizer: Any = None
    draft_tokenizer: Any = None
    verify_on: str | None = None

    def __call__(
        self, model: PreTrainedModel, input_ids: torch.Tensor, **prepared: Any
    ) -> torch.Tensor | MultiDraftOutput:
        """Decode, and answer as transformers' own methods do.

        Raises
        ------
        ProblemError
            As `otspec.generate` does.
        """
        for draft in listed(self.strategy.draft):
            pair_up(model, draft, self.tokenizer, self.draft_tokenizer)
        generation = decode(
            model,
            self.strategy,
            input_ids,
            seed=self.seed,
            streamer=self.streamer,
            verify_on=self.verify_on,
            **prepared,
        )
        if prepared["generation_config"].return_dict_in_generate:
            return MultiDraftOutput(sequences=generation.sequences, metrics=generation.metrics)
        return generation.sequences


def multi_draft(
    draft: PreTrainedModel | Sequence[PreTrainedModel],
    *,
    paths: int | None = None,
    depth: int | None = None,
    solver: Rule = None,
    branching: Sequence[int] | None = None,
    law: str = "iid",
    seed: int | None = None,
    streamer: Streamer | None = None,
    tokenizer: Any = None,
    draft_tokenizer: Any = None,
    verify_on: str | None = None,
    pace: str | Goodput | None = None,
    **drafts: Unpack[DraftSettings],
) -> CustomGenerate:
    """A decoding method for transformers: ``model.generate(..., custom_generate=multi_draft(draft, depth=8))``.

    All else is said to `generate` and is transformers' business: by its default it decodes greedily, and with
    ``do_sample=True`` it cuts laws to the 50 likeliest tokens unless ``top_k`` says otherwise.

    Parameters
    ----------
    draft : PreTrainedModel
        The model that drafts, or several; `assistant_model` is not needed.
    paths, depth, solver, branching, law, seed
        As in `otspec.generate`.
    streamer : optional
        One of transformers' streamers.  It belongs here: transformers up to 5.23 does not hand on to a decoding method
        what was passed to `generate` as its `streamer`, which would get the prompt only and never end.
    tokenizer, draft_tokenizer : PreTrainedTokenizerBase, optional
        Both, as in `otspec.generate`; needed where the two models' vocabularies differ in size.
    verify_on : str, optional
    pace : str or Goodput, optional
    draft_temperature, draft_top_k, draft_top_p, draft_confidence : optional
    draft_tokens, draft_kernel, draft_shortlist : optional
        As in `otspec.generate`.

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
    return CustomGenerate(
        MultiDraft(
            draft,
            paths,
            depth,
            solver,
            branching,
            law,
            matching=matching_of(tokenizer, draft_tokenizer),
            pace=pace,
            **drafts,
        ),
        seed,
        streamer,
        tokenizer,
        draft_tokenizer,
        verify_on,
    )
