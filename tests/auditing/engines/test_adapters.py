"""transformers and our own decoder as engines, on the shipped pair; and the exact laws of a model."""

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import transformers  # noqa: E402

from otspec.auditing.engines import Engine, ModelLaws, Sampling, Text, audit_engine  # noqa: E402
from otspec.auditing.engines.adapters import start  # noqa: E402
from otspec.auditing.engines.laws import truncated  # noqa: E402
from otspec.decode import shipped  # noqa: E402
from otspec.errors import ProblemError  # noqa: E402
from tests.each import each  # noqa: E402
from tests.refusals import Refused, check_refused  # noqa: E402

PROMPT = "import numpy as"
PAIR = {"target": "shipped", "draft": "shipped", "drafts": 3}
OWN: tuple[dict[str, Any], ...] = (
    {"repetition_penalty": 3.0, "suppress_tokens": [10, 11]},
    {"sequence_bias": [[[20], 6.0]], "no_repeat_ngram_size": 1},
)
ENGINES: dict[str, tuple[str, dict[str, Any]]] = {
    "assisted": ("transformers", PAIR),
    "prompt lookup": ("transformers", {"target": "shipped"}),
    "our own": ("otspec", PAIR),
    "interval": ("otspec", {**PAIR, "paths": 2, "solver": "interval"}),
}


@each(name=list(ENGINES))
def test_an_engine_writes_what_it_is_asked_for(name: str) -> None:
    kind, settings = ENGINES[name]
    engine = start(kind, settings)
    assert isinstance(engine, Engine)
    heat = Sampling(0.9, top_k=30, top_p=0.95)
    plain, found, again, other = (
        engine.texts(PROMPT, 2, 5, heat, seed, drafts=drafts)
        for seed, drafts in ((7, False), (7, True), (7, True), (8, True))
    )
    for texts in (plain, found):
        assert len(texts) == 2
        assert all(len(text.tokens) == 5 or text.ended == "stop" for text in texts)
        assert all(text.logprobs is None or len(text.logprobs) == len(text.tokens) for text in texts)
        assert len({text.tokens for text in texts}) > 1
    assert [text.tokens for text in again] == [text.tokens for text in found]
    assert [text.tokens for text in other] != [text.tokens for text in found]
    greedy = [engine.texts(PROMPT, 1, 8, Sampling(0.0), 0, drafts=drafts)[0].tokens for drafts in (False, True)]
    assert greedy[0] == greedy[1]
    shown = engine.acceptance()
    assert (shown is not None) == (kind == "otspec")
    if shown is not None:
        assert shown.accepted == sum(shown.per_position) <= shown.drafted
        assert shown.per_position[0] <= shown.steps <= shown.drafted
    engine.close()


def test_the_exact_law_is_the_models() -> None:
    """By a pass of its own for every prefix; texts of different lengths in one batch."""
    laws, (model, _, tokenizer) = ModelLaws.load("shipped"), shipped.load()
    head = tokenizer(PROMPT).input_ids
    texts, read = [(5, 6, 7), (9,), (5, 8)], list[int]()
    laws._model.register_forward_pre_hook(
        lambda _, args, more: read.append(more["input_ids"].numel()), with_kwargs=True
    )
    for text, logits in zip(texts, laws.along(PROMPT, texts), strict=True):
        assert logits.shape == (len(text), laws.vocab)
        for place in range(len(text)):
            with torch.inference_mode():
                alone = model(torch.tensor([[*head, *text[:place]]])).logits[0, -1].double().numpy()
            assert np.abs(alone - logits[place]).max() < 1e-3
    assert read == [len(head) - 1, 9]  # the prompt once, and all texts in one pass
    assert laws.ends == {model.config.eos_token_id}
    with pytest.raises(ProblemError, match="puts out token 2048, and the model of the exact law has 2048"):
        next(laws.along(PROMPT, [(2048,)]))


@each(dtype=("float32", "bfloat16", "float16"))
def test_ties_of_logits_are_as_near_as_the_type_of_the_model_rounds(dtype: str) -> None:
    units = {"float32": 0, "bfloat16": 16 * 2.0**-7, "float16": 16 * 2.0**-10}
    assert ModelLaws.load("shipped", dtype).rounding == units[dtype]


def test_truncated_laws_are_those_that_transformers_samples_from() -> None:
    logits = np.random.default_rng(0).normal(size=50) * 3
    scores = torch.tensor(logits[None])
    for cut, by in (("Temperature", 0.8), ("TopK", 20), ("TopP", 0.9), ("MinP", 0.05)):
        scores = getattr(transformers, f"{cut}LogitsWarper")(by)(None, scores)
    law, undecided = truncated(logits, Sampling(0.8, top_k=20, top_p=0.9, min_p=0.05), 1e-6)
    assert np.abs(scores.softmax(-1)[0].numpy() - law).max() < 1e-6
    assert not undecided


@each(sampling=[Sampling(top_k=2), Sampling(top_p=0.7), Sampling(min_p=0.5)])
def test_a_border_that_rounding_moves_is_undecided(sampling: Sampling) -> None:
    """Of laws where the cut is at a tie, and where it is not."""
    edge, clear = {
        2: ([0.5, 0.25, 0.25], [0.5, 0.3, 0.2]),
        0.7: ([0.4, 0.3, 0.2, 0.1], [0.5, 0.3, 0.2]),
        0.5: ([0.5, 0.25, 0.25], [0.6, 0.2, 0.2]),
    }[sampling.top_k or sampling.top_p or sampling.min_p or 0]
    assert truncated(np.log(edge), sampling, 1e-3).undecided
    assert not truncated(np.log(clear), sampling, 1e-3).undecided


def log_law(logits: Any, text: Text, sampling: Sampling, tolerance: float) -> list[float]:
    """Logarithms of the law of every token of a text."""
    rows = zip(logits, text.tokens, strict=True)
    return [math.log(truncated(row, sampling, tolerance).law[token]) for row, token in rows]


def test_log_probabilities_are_those_of_the_law() -> None:
    engine, laws = start("transformers", PAIR), ModelLaws.load("shipped")
    for drafts in (False, True):
        (text,) = engine.texts(PROMPT, 1, 4, Sampling(0.7), 3, drafts=drafts)
        (logits,) = laws.along(PROMPT, [text.tokens])
        assert text.logprobs == pytest.approx(log_law(logits, text, Sampling(0.7), 1e-3), abs=2e-3)


@each(own=OWN)
def test_what_a_targets_own_configuration_does_is_part_of_the_law(own: dict[str, Any], tmp_path: Path) -> None:
    """Both sides apply it as transformers does, or both leave it out."""
    target, _, tokenizer = shipped.load()
    target = copy.copy(target)
    target.generation_config = transformers.GenerationConfig(**{**target.generation_config.to_dict(), **own})
    target.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    for used in (own, {}):
        engine = start("transformers", {"target": str(tmp_path), "own_config": bool(used)})
        laws = ModelLaws.load(str(tmp_path), own_config=bool(used))
        assert engine.own_config == laws.own_config == used  # type: ignore[attr-defined]
        texts = engine.texts(PROMPT, 2, 6, Sampling(), 3, drafts=False)
        for text, logits in zip(texts, laws.along(PROMPT, [text.tokens for text in texts]), strict=True):
            assert text.logprobs == pytest.approx(log_law(logits, text, Sampling(), 0.0), abs=1e-4)
    with pytest.raises(ProblemError, match=rf"engine has {next(iter(own))} .* in force, and the exact law nothing"):
        audit_engine(start("transformers", {"target": str(tmp_path)}), laws=laws)


def test_a_law_that_is_not_known_is_refused() -> None:
    target, _, tokenizer = shipped.load()
    target = copy.copy(target)
    target.generation_config = transformers.GenerationConfig(typical_p=0.5)
    with pytest.raises(ProblemError, match=r"configuration has typical_p, and no exact law .* --no-own-config"):
        ModelLaws(target, tokenizer)


REFUSED: list[Refused] = [
    (lambda: start("otspec", {"url": "x"}), "otspec has no setting 'url'; it has target, draft"),
    (lambda: start("transformers", {}), "transformers needs the setting 'target'"),
    (
        lambda: start("transformers", {"target": "shipped", "method": "medusa"}),
        "no method 'medusa' here; known: assisted, prompt-lookup",
    ),
    (lambda: start("transformers", {"target": "shipped", "method": "assisted"}), "method assisted needs a draft model"),
    (lambda: start("transformers", {**PAIR, "method": "prompt-lookup"}), "method prompt-lookup takes no draft model"),
    (lambda: start("transformers", {**PAIR, "drafts": 0}), "drafts is 0; pass an integer >= 1"),
    (lambda: start("otspec", PAIR).texts(PROMPT, 1, 2, Sampling(min_p=0.1), 0, drafts=True), "takes no min_p"),
]


def test_settings_that_are_none_or_contradict_each_other() -> None:
    check_refused(REFUSED)
