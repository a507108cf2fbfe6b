"""One run of any strategy: transformers prepares it, the loop decodes, sequences and metrics come back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Unpack

import numpy as np
import torch
from transformers import (
    GenerationConfig,
    LogitsProcessorList,
    PreTrainedModel,
    StoppingCriteriaList,
    StopStringCriteria,
)

from otspec.decode.base.logprobs import Scorer, TokenLogprob
from otspec.decode.base.metrics import Metrics
from otspec.decode.base.processors import for_trees
from otspec.decode.base.sampling import Sampling
from otspec.decode.base.text import Request, StepRecord, StoppingRules, texts_of
from otspec.decode.drafters.heads.model import Heads
from otspec.decode.models.context import Pass, positions, sliding_window, vocabulary
from otspec.decode.models.own_config import left_out
from otspec.decode.models.pairing import check_pair
from otspec.decode.models.self_check import check_reading
from otspec.decode.settings import RunOptions, RunSettings, check_lengths
from otspec.decode.step.loop import Decoder, Decoding
from otspec.decode.step.strategy import Strategy, listed
from otspec.decode.verify.on_device import device_rule
from otspec.decode.verify.step import step_verifier
from otspec.errors import ProblemError

PREPARED = ("past_key_values", "position_ids", "cache_position", "use_cache", "logits_to_keep", "synced_gpus")
"""What `generate` prepares for a model's passes, and what decoding does itself."""
HANDED_ON = {
    "attention_mask": torch.Tensor,
    "generation_config": GenerationConfig,
    "logits_processor": list,
    "stopping_criteria": list,
}
"""Of which type transformers' `generate` takes these."""


@dataclass(frozen=True, eq=False)
class Generation:
    """The texts of a run of decoding, and its metrics.

    Examples
    --------
    >>> import otspec
    >>> from otspec.decode import shipped
    >>> target, draft, tokenizer = shipped.load()
    >>> prompt = tokenizer("import numpy as", return_tensors="pt")
    >>> text = otspec.generate(target, draft, **prompt, max_new_tokens=8, seed=1)
    >>> text.sequences.shape[1] - prompt.input_ids.shape[1], len(text.new_tokens[0]), text.metrics.tokens
    (8, 8, 8)
    """

    sequences: torch.Tensor
    """Shape (B, S): the prompts as they came, then the new tokens; shorter texts are padded on the right."""
    metrics: Metrics
    new_tokens: list[list[int]]
    """The new tokens of each text, without padding."""
    passes: Mapping[str, Sequence[Pass]] = field(default_factory=dict)
    """The models' passes after the prompts, in order, by phase."""
    blocks: list[list[StepRecord]] = field(default_factory=list)
    """Of each text what its steps drafted, accepted and added, with ``transcript=True``."""
    scores: list[list[TokenLogprob]] = field(default_factory=list)
    """Of each text the log-probabilities of every new token, with ``logprobs=k``."""
    metrics_of_texts: list[Metrics] = field(default_factory=list)
    """The metrics of each text, without times; empty for transformers' own methods."""

    @property
    def logprobs(self) -> list[list[float]]:
        """Of each text the log-probabilities of its new tokens, under the laws that they were drawn from."""
        return [[one.logprob for one in own] for own in self.scores]

    @property
    def raw_logprobs(self) -> list[list[float]]:
        """The same before temperature, penalties and truncation: under the softmax of the logits."""
        return [[one.raw for one in own] for own in self.scores]

    @property
    def top_logprobs(self) -> list[list[dict[int, float]]]:
        """Beside each token the k likeliest ones, as `raw_logprobs`."""
        return [[one.top for one in own] for own in self.scores]


@dataclass(frozen=True, eq=False)
class Run:
    """A run of decoding that has read its prompts, and goes on step by step; others may have theirs in between."""

    texts: Sequence[Request]
    prompts: torch.Tensor
    """As they came, shape (B, length)."""
    pad: int
    decoding: Decoding

    @torch.no_grad()
    def step(self) -> bool:
        """Make the texts longer by what one pass of the target verifies; whether any goes on after that."""
        return self.decoding.step()

    @property
    def tokens(self) -> int:
        """New tokens of all texts so far."""
        return sum(len(text.new) for text in self.texts)

    @property
    def generation(self) -> Generation:
        """The texts so far, and what they took."""
        news = [text.new for text in self.texts]
        longest = max(map(len, news))
        new = torch.tensor([one + [self.pad] * (longest - len(one)) for one in news], device=self.prompts.device)
        blocks = [text.blocks for text in self.texts if text.blocks is not None]
        scores = [text.scores for text in self.texts if text.scores]
        own, decoding = [text.metrics for text in self.texts], self.decoding
        return Generation(
            torch.cat((self.prompts, new), dim=1), decoding.metrics, news, decoding.passes, blocks, scores, own
        )

    def to_the_end(self) -> Generation:
        """The texts, each until it has ended."""
        while self.step():
            pass
        return self.generation


def run(
    target: PreTrainedModel, strategy: Strategy, input_ids: torch.Tensor, **options: Unpack[RunOptions]
) -> Generation:
    """Decode with a strategy.

    Parameters
    ----------
    target : PreTrainedModel
        The model that the texts are of.
    strategy : Strategy
        Drafts and verifies.
    input_ids : Tensor of int, shape (B, length)
        The prompts, padded where `attention_mask` is 0.
    **options
        Those of `otspec.generate`, except the settings of drafts.

    Raises
    ------
    ProblemError
        If there is no such setting, settings contradict each other, or the models do not belong together.

    Examples
    --------
    >>> from otspec.decode import run, shipped
    >>> from otspec.decode.methods import PromptLookup
    >>> target, draft, tokenizer = shipped.load()
    >>> prompt = tokenizer("import numpy as", return_tensors="pt")
    >>> text = run(target, PromptLookup(depth=4), **prompt, max_new_tokens=8, seed=1)  # no draft model
    >>> text.metrics.tokens
    8
    """
    return begin(target, strategy, input_ids, **options).to_the_end()


def begin(target: PreTrainedModel, strategy: Strategy, input_ids: torch.Tensor, **options: Unpack[RunOptions]) -> Run:
    """Read prompts, to decode them step by step: all is as `run` takes it.

    Raises
    ------
    ProblemError
        As `run` does.
    """
    settings, others = RunSettings.split(options)
    for name, kind in HANDED_ON.items():
        if not isinstance(value := others.get(name), kind | None):
            raise ProblemError(f"{name} is {type(value).__name__}; pass a {kind.__name__}, as transformers takes it")
    attention_mask = others.pop("attention_mask", None)
    check_lengths(others)
    if others.get("position_ids") is not None:
        raise ProblemError("position_ids would be ignored: positions follow attention_mask; leave them out")
    check_prompts(input_ids, attention_mask, vocabulary(target))
    for model in listed(strategy.draft):
        check_pair(target, model, settings.tokenizer, settings.draft_tokenizer, strategy.matching)
    others |= {} if settings.own_config else left_out(target, others)
    others |= sampling_settings(others, settings.temperature, settings.top_k, settings.top_p)
    configs = (others.get("generation_config"), target.generation_config)
    own = next((one.stop_strings for one in configs if one is not None and one.stop_strings is not None), None)
    if (stop_strings := others.pop("stop_strings", own)) is not None:
        # `generate` gives its own callables no tokenizer, so the criterion is made here.
        _check_stop_strings(stop_strings)
        if settings.tokenizer is None:
            whose = "stop_strings" if own is not stop_strings else "stop_strings of the target's generation_config"
            raise ProblemError(f"{whose} are text ({stop_strings!r}); pass tokenizer= as well")
        criteria = [*(others.get("stopping_criteria") or []), StopStringCriteria(settings.tokenizer, stop_strings)]
        others["stopping_criteria"] = StoppingCriteriaList(criteria)
    if own is not None:
        others["stop_strings"] = None  # or transformers would require a tokenizer of its own

    def decoding_method(model: PreTrainedModel, input_ids: torch.Tensor, **prepared: Any) -> Run:
        return begin_prepared(model, strategy, settings, input_ids, **prepared)

    begun: Run = target.generate(input_ids, attention_mask=attention_mask, custom_generate=decoding_method, **others)
    return begun


def begin_prepared(
    target: PreTrainedModel,
    strategy: Strategy,
    settings: RunSettings,
    input_ids: torch.Tensor,
    logits_processor: LogitsProcessorList,
    stopping_criteria: StoppingCriteriaList,
    generation_config: GenerationConfig,
    attention_mask: torch.Tensor | None = None,
    **model_inputs: Any,
) -> Run:
    """Read what transformers' `generate` has prepared: processors, criteria, configuration, prompts.

    Raises
    ------
    ProblemError
        As `otspec.generate` does.
    """
    _check_request(generation_config, model_inputs)
    check_prompts(input_ids, attention_mask, vocabulary(target))
    streamer, seed = settings.streamer, settings.seed
    if streamer is not None and len(input_ids) > 1:
        raise ProblemError(f"{len(input_ids)} prompts and one streamer, which could not keep their texts apart")
    if seed is None:
        seed = int(torch.randint(1 << 62, ()))  # so that torch.manual_seed makes a run repeatable
    ending = StoppingRules(stopping_criteria, target.device)
    processors = for_trees(logits_processor, input_ids, vocabulary(target))
    sampling = Sampling(processors, generation_config.do_sample, len(input_ids), ending.eos)
    generator = torch.Generator(target.device)
    generator.manual_seed(int(np.random.SeedSequence(seed).generate_state(1, np.uint32)[0]))
    drafter, verifier = strategy.prepare(vocabulary(target), sampling, generator)
    rule = device_rule(verifier, target.device, settings.verify_on)
    pad = _padding(generation_config)
    texts = texts_of(input_ids, attention_mask, pad, vocabulary(target))
    if settings.transcript:
        for text in texts:
            text.blocks = []
    # A drafter with another tokenizer has lengths of its own, which it checks itself.
    _check_lengths(target, listed(strategy.draft) if strategy.matching is None else [], texts, ending.max_length)
    check_reading(target, "target")
    for model in listed(strategy.draft):
        if not isinstance(model, Heads):  # they read no trees
            check_reading(model, "draft model")
    if streamer is not None:
        streamer.put(input_ids.cpu())  # as transformers does
    verification = step_verifier(verifier, sampling, np.random.default_rng(seed), generator, rule)
    scorer = None if settings.logprobs is None else Scorer(sampling, settings.logprobs)
    decoder = Decoder(target, drafter, verification, ending, sampling.reads_text, streamer, scorer)
    return Run(texts, input_ids, pad, Decoding(decoder, texts))


def _check_stop_strings(strings: object) -> None:
    """Raise unless these are a string or strings, none of which is empty: an empty one ends every text."""
    several = strings if isinstance(strings, list | tuple) else [strings]
    if not several or not all(isinstance(one, str) and one for one in several):
        raise ProblemError(f"stop_strings are {strings!r}; pass a string of at least one character, or a list of such")


def check_prompts(input_ids: torch.Tensor, attention_mask: torch.Tensor | None, vocab: int) -> None:
    """Raise unless there are prompts of at least one token the target knows, and a mask for them if there is one."""
    if not isinstance(input_ids, torch.Tensor) or input_ids.is_floating_point() or input_ids.dtype == torch.bool:
        found = getattr(input_ids, "dtype", type(input_ids).__name__)
        raise ProblemError(f"input_ids are {found}; pass a tensor of token ids, integers of shape (batch, length)")
    if input_ids.ndim != 2 or 0 in input_ids.shape:
        raise ProblemError(
            f"input_ids have shape {tuple(input_ids.shape)}; pass (batch, length), each prompt of at least one token "
            "(the tokenizer's first, bos_token_id, will do)"
        )
    if attention_mask is not None and attention_mask.shape != input_ids.shape:
        raise ProblemError(
            f"attention_mask has shape {tuple(attention_mask.shape)}, and input_ids {tuple(input_ids.shape)}; "
            "it marks each of their tokens, 0 for padding"
        )
    if attention_mask is not None and not bool(((attention_mask == 0) | (attention_mask == 1)).all()):
        raise ProblemError("attention_mask holds other numbers than 0, for padding, and 1, for tokens")
    foreign = ((input_ids < 0) | (input_ids >= vocab)) & (attention_mask is None or attention_mask != 0)
    if bool(foreign.any()):
        row, at = foreign.nonzero()[0].tolist()
        raise ProblemError(
            f"token {int(input_ids[row, at])}, at place {at} of prompt {row}, is none of the target's {vocab}, 0 to "
            f"{vocab - 1}: its tokenizer is another model's, or has tokens that its head lacks"
        )


def _check_lengths(
    target: PreTrainedModel, drafts: list[PreTrainedModel], texts: Sequence[Request], most: float
) -> None:
    longest = max(len(text.tokens) for text in texts)
    for model, name in ((target, "target"), *((draft, "draft model") for draft in drafts)):
        if longest > positions(model):
            raise ProblemError(f"a prompt has {longest} tokens, and the {name} reads {positions(model)}; shorten it")
    room = positions(target) - longest
    if most - texts[0].size > room:
        raise ProblemError(
            f"texts may get {longest + most - texts[0].size:.0f} tokens long, and the target knows {positions(target)} "
            f"positions; request at most {room} new tokens"
        )
    if most > sliding_window(target):
        raise ProblemError(
            f"texts may get {most} tokens long, and some layers of the target attend to {sliding_window(target)}; "
            "trees are read without such a limit, so pass a smaller max_new_tokens"
        )


def _check_request(config: GenerationConfig, model_inputs: dict[str, Any]) -> None:
    """Raise where something is requested that would be ignored."""
    if config.num_beams > 1:
        raise ProblemError(f"num_beams is {config.num_beams}; drafts are verified for sampling, not for beams")
    outputs = ("output_scores", "output_logits", "output_attentions", "output_hidden_states")
    if outputs_on := [name for name in outputs if getattr(config, name, False)]:
        raise ProblemError(f"{', '.join(outputs_on)} cannot be given: there is not one pass for each token")
    if others := [name for name in ("constraints", "force_words_ids", "dola_layers") if getattr(config, name, None)]:
        raise ProblemError(f"{', '.join(others)} would be ignored: other methods of transformers have it; leave it out")
    if (cache := model_inputs.get("past_key_values")) is not None and cache.get_seq_length() > 0:
        raise ProblemError("past_key_values holds tokens already; decoding has its own caches, pass the whole text")
    if unread := [name for name, value in model_inputs.items() if value is not None and name not in PREPARED]:
        raise ProblemError(f"{', '.join(unread)} cannot be passed on to the models; decoding knows input_ids only")


def _padding(config: GenerationConfig) -> int:
    """The token that fills up texts that ended early, as transformers chooses it; 0 where the model names none."""
    pad = config.eos_token_id if config.pad_token_id is None else config.pad_token_id
    return 0 if pad is None else int(pad[0] if isinstance(pad, list) else pad)


COLDEST = 1e-30
"""Temperatures below it, but for 0, make infinities of logits in float32, which ends at 3.4e38."""


def sampling_settings(
    settings: Mapping[str, Any], temperature: float | None, top_k: int | None, top_p: float | None
) -> dict[str, Any]:
    """Temperature and truncation in transformers' names and types, by default those of a configuration.

    Raises
    ------
    ProblemError
        If something is requested that greedy decoding would ignore.
    """
    config, do_sample = settings.get("generation_config"), settings.get("do_sample")
    sampling = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    sampling = {key: (int if key == "top_k" else float)(value) for key, value in sampling.items() if value is not None}
    if temperature == 0:
        if do_sample:
            raise ProblemError(
                "temperature is 0, which is greedy decoding, and do_sample is True; leave one of them out"
            )
        do_sample = False
    elif do_sample is None:
        do_sample = config.do_sample if config is not None else True
        do_sample = True if do_sample is None and sampling else do_sample
    if do_sample is False and temperature != 0 and sampling:
        name, value = next(iter(sampling.items()))
        where = "do_sample" if "do_sample" in settings else "do_sample of generation_config"
        raise ProblemError(
            f"{where} is False, which is greedy decoding, and {name} is {value}; pass do_sample=True or drop it"
        )
    if temperature is not None and 0 < temperature < COLDEST:
        raise ProblemError(
            f"temperature is {temperature:g}, and logits over it are infinite; pass 0 for greedy decoding"
        )
    if do_sample is False:
        return {"do_sample": False, "temperature": None, "top_k": None, "top_p": None}
    whole = {"temperature": 1.0, "top_k": 0, "top_p": 1.0} if config is None else {}
    return {**({} if do_sample is None else {"do_sample": do_sample}), **whole, **sampling}
