"""The target's law of texts, by plain passes over every prefix, and the test that counted texts have it."""

from functools import cache, partial
from typing import Any

import numpy as np
import torch
from transformers import GenerationConfig, LogitsProcessorList

from otspec.decode.base.sampling import Sampling
from otspec.decode.pair import loading
from otspec.logits import law_from_logits
from otspec.verification import Model
from otspec.verification.reference.enumeration import prefixes
from otspec.verification.trees.tree import Prefix
from tests.contracts.draft_models import Models, models
from tests.decode.models import logits_after
from tests.oracles import Floats
from tests.verification.catalogue import follows

SETTINGS: dict[str, dict[str, Any]] = {
    "temperature 1": {},
    "temperature 0.6": {"temperature": 0.6},
    "top-k": {"top_k": 2},
    "top-p": {"temperature": 1.3, "top_p": 0.8},
    "greedy": {"temperature": 0},
}
PROMPT = [1, 2, 0]
PROMPTS = [[1, 2, 0], [2], [0, 0, 1, 2, 1], [1, 1]]


def sampling_of(
    of: Models, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None, constraint: Any = None
) -> Sampling:
    """What transformers prepares for these settings; a constraint begins after `PROMPT`."""
    if temperature == 0:
        config = GenerationConfig(do_sample=False)
    else:
        config = GenerationConfig(do_sample=True, temperature=temperature, top_k=top_k or 0, top_p=top_p or 1.0)
    own = LogitsProcessorList([] if constraint is None else [constraint.processor(len(PROMPT), of.vocab)])
    prepared = of.target._get_logits_processor(config, device="cpu", model_kwargs={}, logits_processor=own)
    return Sampling(prepared, config.do_sample, eos=() if constraint is None else constraint.eos)


def after_prompt(settings: dict[str, Any], prompt: list[int], vocab: int = 3) -> Model:
    """Target and draft model after a prompt, read from the start each time."""

    named, before = tuple(settings.items()), tuple(prompt)
    return Model(*(partial(_law, vocab, role, named, before) for role in (0, 1)))


@cache
def _law(vocab: int, role: int, settings: tuple[tuple[str, Any], ...], prompt: Prefix, prefix: Prefix) -> Floats:
    inputs, logits = dict(settings), logits_after(models(vocab)[1:][role], prompt + prefix)
    if (constraint := inputs.pop("constraint", None)) is not None:
        logits = np.where(constraint.allowed(prefix, vocab), logits, -np.inf)
    return law_from_logits("logits", logits, **inputs)


def law_of_texts(model: Model, length: int, vocab: int) -> Floats:
    """The target's law of the next tokens, shape (vocab ** length,)."""
    law = np.ones((vocab,) * length)
    for prefix in prefixes(vocab, length - 1):
        law[prefix] *= np.reshape(model.target(prefix), (-1,) + (1,) * (length - 1 - len(prefix)))
    return law.ravel()


def codes_of(texts: Any, vocab: int) -> Any:
    """Where each text of new tokens, all of one length, stands in `law_of_texts`."""
    found = np.array(texts)
    return found @ vocab ** np.arange(found.shape[1])[::-1]


def check_counts(codes: Any, law: Floats, what: object = None) -> None:
    """Counted texts have the law, and none of them is impossible."""
    assert follows(np.bincount(codes, minlength=law.size), law), what


def batch_of(prompts: list[list[int]]) -> dict[str, Any]:
    """Prompts padded on the left, and the mask of them."""
    return {**loading.batch_of(prompts, torch.device("cpu"))}
