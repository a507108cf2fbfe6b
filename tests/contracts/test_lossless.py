"""What every strategy of the catalogue keeps: the law of the target, exactly, and its greedy text token for token."""

import copy
import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from transformers import LogitsProcessorList

from otspec import ProblemError
from otspec.decode import run
from otspec.decode.base.processors import Followed, for_trees
from otspec.decode.models.context import positions
from otspec.decode.step.strategy import listed
from tests.contracts.catalogue import CATALOGUE, FEW, LOSSY, Entry, drafts, of_both, rules_for
from tests.contracts.draft_models import Models, models
from tests.contracts.enumeration import every_draft, law_of_step
from tests.contracts.oracles import (
    PROMPT,
    PROMPTS,
    SETTINGS,
    after_prompt,
    batch_of,
    check_counts,
    codes_of,
    law_of_texts,
    sampling_of,
)
from tests.decode.models import greedy_text, tiny

pytestmark = pytest.mark.usefixtures("no_gradients")

EXACT = 1e-9


def deviations(entry: Entry, settings: dict[str, Any], rules: bool = True) -> dict[str, float]:
    """Of the law of the text after a step from the target's, by each rule that may verify, or by its own alone."""
    of, prompt = models(entry.vocab), PROMPT if "constraint" in settings else list(entry.prompt)
    strategy = entry.make(of)
    step = every_draft(strategy, of, prompt, sampling_of(of, **settings))
    found = {}
    for rule, one in (rules_for(strategy, entry.every_rule) if rules else {"its own": strategy}).items():
        law = law_of_step(one, step, of, prompt, settings)
        assert not law.output[law.target == 0].any(), (settings, rule)
        found[rule] = law.deviation
    return found


@pytest.mark.parametrize("name", [name for name, entry in CATALOGUE.items() if entry.draws])
def test_a_step_has_the_law_of_the_target(name: str) -> None:
    """By enumeration of all drafts, of all that may be accepted of each, and of the token after it.

    Rules see laws, whatever the setting that made them: all of them are tried at one, which has zeros if any has.
    """
    settings = CATALOGUE[name].settings
    whole = next((one for one in ("top-k", "temperature 0.6") if one in settings), settings[0])
    for one in settings:
        for rule, deviation in deviations(CATALOGUE[name], SETTINGS[one], one == whole).items():
            assert deviation <= (1e-7 if rule == "lp" else EXACT), (one, rule)


OVERFLOWING = (
    *("paths", "without replacement", "top_k", "hub pairs", "several models", "certain drafts", "a confident path"),
    *("kept", "redistributed", "routed", "steered", "dynamic tree"),
)
VALUES = (math.nan, 1e308, 1e300)
"""Of hidden states, in turn: logits that are nan, infinite for some tokens, and huge."""


@pytest.mark.filterwarnings("ignore:some logits of the draft model")
@pytest.mark.parametrize("name", OVERFLOWING)
def test_a_draft_model_that_overflows_after_some_texts_leaves_the_law(name: str) -> None:
    """Its hidden states are of no use after texts that share a sign, as in half precision after some tokens."""
    entry, value = CATALOGUE[name], VALUES[OVERFLOWING.index(name) % len(VALUES)]
    of = models(entry.vocab)
    of = of._replace(draft=copy.deepcopy(of.draft))

    def overflow(module: Any, inputs: Any, found: Any) -> Any:
        return found.masked_fill(found.sum(dim=-1, keepdim=True) > 0, value)

    of.draft.model.norm.register_forward_hook(overflow)
    strategy = entry.make(of)
    step = every_draft(strategy, of, PROMPT, sampling_of(of))
    assert law_of_step(strategy, step, of, PROMPT, {}).deviation <= EXACT
    ids = torch.tensor([PROMPT])
    text = run(of.target, strategy, ids, max_new_tokens=12, temperature=0.0)
    assert text.new_tokens == [greedy_text(of.target, PROMPT, 12)[len(PROMPT) :]]
    assert run(of.target, strategy, ids, max_new_tokens=12, temperature=1.0, seed=1).metrics.tokens == 12


@pytest.mark.parametrize("name", LOSSY)
def test_a_strategy_that_is_lossy_is_told_from_them(name: str) -> None:
    """But puts out no token that the target excludes."""
    assert min(deviations(LOSSY[name], {}).values()) > 0.05
    assert deviations(LOSSY[name], SETTINGS["top-k"])


@pytest.mark.parametrize(("tau", "law"), [(1e-2, "iid"), (1e-3, "without_replacement"), (1e-2, "independent")])
def test_global_resolution_errs_by_no_more_than_it_promises(tau: float, law: str) -> None:
    """Theorem R.1: at most 15 L tau in 1-norm after L steps [thomas2025global]."""
    depth, solver = 2, f"global_resolution:tau={tau}:max_iterations=500"
    one = drafts(branching=(2,) * depth, law=law, solver=solver)
    entry = Entry(of_both(paths=2, depth=depth, solver=solver) if law == "independent" else one)
    assert 0 < deviations(entry, {}, False)["its own"] <= 15 * depth * tau


VERIFIED = (
    *("paths", "paths of the user's own rule", "uneven tree", "without replacement", "a confident path"),
    *("redistributed", "several models", "steered", "beside a copy", "beside a copy, dynamic tree", "foreign"),
    *("prompt lookup", "lookahead", "dynamic tree"),
)
"""One of each class of drafters and rules, by whatever model."""


@pytest.mark.parametrize("name", VERIFIED)
def test_texts_of_a_batch(name: str) -> None:
    """Texts of several steps, after prompts of different lengths, counted."""
    entry, runs, length, prompts = CATALOGUE[name], 150, 3, PROMPTS[:2]
    of, settings = models(entry.vocab), SETTINGS[entry.settings[0]]
    inputs = {**batch_of(prompts * runs), "max_new_tokens": length, "seed": 1, **settings}
    texts = run(of.target, entry.make(of), **inputs).new_tokens
    laws = [law_of_texts(after_prompt(settings, prompt, of.vocab), length, of.vocab) for prompt in prompts]
    codes = codes_of(texts, of.vocab).reshape(runs, len(prompts)) + np.cumsum([0, *map(len, laws)])[:-1]
    check_counts(codes.ravel(), np.concatenate(laws) / len(prompts))


LONG_PROMPTS = [[7, 1], [3, 3, 2, 5], [4, 4, 4]]


def prompts_of(entry: Entry) -> tuple[Models, list[list[int]]]:
    """Models of many tokens if that can be, and prompts that hold them."""
    vocab = 40 if entry.vocabs else entry.vocab
    return models(vocab, noise=0.1), [[token % vocab for token in prompt] for prompt in LONG_PROMPTS]


@cache
def greedy(vocab: int, prompt: tuple[int, ...], new: int) -> list[int]:
    """The likeliest tokens, each from the start of its text."""
    return greedy_text(models(vocab, noise=0.1).target, list(prompt), new)[len(prompt) :]


@pytest.mark.parametrize("name", [*CATALOGUE, *LOSSY])
def test_greedy_texts_token_for_token(name: str) -> None:
    """In a batch; and one of each class alone, and where a token that some of the texts meet ends them."""
    entry, new, few = {**CATALOGUE, **LOSSY}[name], 7, name in FEW
    of, prompts = prompts_of(entry)
    expected = [greedy(of.vocab, tuple(prompt), new) for prompt in prompts]
    settings: dict[str, Any] = {"max_new_tokens": new, "temperature": 0}
    together = [prompts] if entry.batch else []
    for batch in (*together, prompts[:1]) if few else together or [prompts[:1]]:
        inputs = batch_of(batch)
        found = run(of.target, entry.make(of), **inputs, **settings)
        wanted = [expected[prompts.index(prompt)] for prompt in batch]
        assert found.new_tokens == wanted
        assert torch.equal(found.sequences, torch.cat((inputs["input_ids"], torch.tensor(wanted)), dim=1))
        assert found.metrics.tokens == len(batch) * new
    eos, pad = expected[0][4], of.vocab - 1
    cut = [text[: text.index(eos) + 1] if eos in text else text for text in expected]
    for batch in (together or [[prompts[0]]]) if few else []:
        inputs = batch_of(batch)
        found = run(of.target, entry.make(of), **inputs, **settings, eos_token_id=eos, pad_token_id=pad)
        assert found.new_tokens == cut[: len(batch)]
        longest = max(map(len, cut[: len(batch)]))
        padded = [text + [pad] * (longest - len(text)) for text in cut[: len(batch)]]
        assert found.sequences[:, inputs["input_ids"].shape[1] :].tolist() == padded


@pytest.mark.parametrize("name", [name for name in FEW if CATALOGUE[name].vocabs])
def test_the_draft_model_is_outgrown(name: str) -> None:
    """Texts that get longer than a draft model can read are the target's all the same; prompts that are it refuses."""
    of, prompts = prompts_of(CATALOGUE[name])
    short = tiny(of.vocab, 3, 2, positions=12)
    strategy = CATALOGUE[name].make(of._replace(draft=short, other=short))
    found = run(of.target, strategy, **batch_of(prompts[:1]), max_new_tokens=13, temperature=0)
    assert found.new_tokens == [greedy(of.vocab, tuple(prompts[0]), 13)]
    prompt = torch.ones(1, 13, dtype=torch.int64)
    if any(positions(model) == 12 for model in listed(strategy.draft)):
        with pytest.raises(ProblemError, match="a prompt has 13 tokens, and the draft model reads 12"):
            run(of.target, strategy, prompt, max_new_tokens=4)
    else:
        assert run(of.target, strategy, prompt, max_new_tokens=4).metrics.tokens == 4


@pytest.mark.parametrize("name", [*FEW, *LOSSY])
def test_a_seed_repeats_a_run_and_metrics_are_sums(name: str) -> None:
    entry = {**CATALOGUE, **LOSSY}[name]
    of, prompts = prompts_of(entry)
    prompts = prompts if entry.batch else prompts[:1]
    strategy, once_more = (entry.make(of) for _ in range(2))
    inputs, state = {**batch_of(prompts), "max_new_tokens": 8}, torch.random.get_rng_state()
    found = run(of.target, strategy, **inputs, seed=1)
    assert found.new_tokens == run(of.target, once_more, **inputs, seed=np.int64(1)).new_tokens  # type: ignore[arg-type]
    assert name != "paths" or found.new_tokens != run(of.target, strategy, **inputs, seed=2).new_tokens
    assert torch.equal(torch.random.get_rng_state(), state)
    metrics = found.metrics
    assert strategy.lossless == (name in CATALOGUE)
    assert metrics.tokens == 8 * len(prompts)
    assert metrics.target_calls <= metrics.sequence_steps <= len(prompts) * metrics.target_calls
    # Each step puts out what it accepted and one token more, unless the text ends before.
    surplus = metrics.sequence_steps + sum(metrics.accepted) - metrics.tokens
    assert 0 <= surplus <= len(prompts) * max(len(metrics.offered), 1)
    assert all(got <= request for got, request in zip(metrics.accepted, metrics.offered, strict=True))
    assert metrics.wall == pytest.approx(sum(metrics.seconds.values()))
    assert (metrics.seconds["draft"] > 0) == (name != "vanilla")


# --- texts that keep to a language, by a processor that goes by the text and by one that keeps a state

NEXT = ({0: 1, 1: 0}, {1: 0})
"""Of each state of an automaton, where its tokens lead."""
STOP = 2
"""Ends a text; allowed in state 1."""


def state_after(new: Any) -> int:
    """Where the automaton is; KeyError where these tokens are not of its language, or end it."""
    state = 0
    for token in new:
        state = NEXT[state][int(token)]
    return state


def allowed_in(state: int, vocab: int) -> Any:
    """What may come next in a state, shape (vocab,)."""
    return np.isin(np.arange(vocab), [*NEXT[state], *([STOP] if state else [])])


class Stateless:
    """A processor that goes by the text alone, and fails after texts that are not of the language."""

    def __init__(self, prompt: int) -> None:
        self.prompt = prompt

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        for text, own in zip(input_ids, scores, strict=True):
            own[~allowed_in(state_after(text[self.prompt :]), len(own))] = -torch.inf
        return scores


class Stepwise:
    """A processor that goes on by the last token of every call, and fails where that is not of the language."""

    def __init__(self) -> None:
        self.states: list[int] = []

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        last = input_ids[:, -1].tolist()
        before = zip(self.states, last, strict=True) if self.states else ()
        self.states = [NEXT[state][token] for state, token in before] or [0] * len(last)
        for state, own in zip(self.states, scores, strict=True):
            own[~allowed_in(state, len(own))] = -torch.inf
        return scores


class Language(NamedTuple):
    """The automaton as a constraint, by a processor that goes by the text or by one that keeps a state."""

    by_state: bool
    eos: frozenset[int] = frozenset({STOP})

    def processor(self, prompt: int, vocab: int) -> Any:
        if not self.by_state:
            return Stateless(prompt)
        (found,) = for_trees(LogitsProcessorList([Stepwise()]), torch.tensor([PROMPT]), vocab)
        assert isinstance(found, Followed)
        return found

    def allowed(self, new: Any, vocab: int) -> Any:
        try:
            return allowed_in(state_after(new), vocab)
        except KeyError:
            return np.ones(vocab, dtype=bool)


CONSTRAINED = ("paths", "top_k", "without replacement", "several models", "a confident path", "redistributed", "routed")


@pytest.mark.parametrize(
    ("name", "by_state"),
    [
        *((name, False) for name in ("top_k", "redistributed", "dynamic tree")),
        *((name, True) for name in (*CONSTRAINED, "steered", "dynamic tree", "prompt lookup", "vanilla")),
    ],
)
def test_processors_keep_the_law(name: str, by_state: bool) -> None:
    """Drafts do not know of the language, so that a processor would be asked about what is not of it.

    One that keeps a state has along every path of a tree the state that it has along a single one.
    """
    settings = {"temperature": 0.6, "top_k": 2, "constraint": Language(by_state)}
    assert deviations(CATALOGUE[name], settings, rules=False)["its own"] <= EXACT
