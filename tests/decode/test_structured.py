"""Structured output: grammars and other processors of the user's, along the paths of drafted trees."""

from __future__ import annotations

import itertools
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from transformers import LogitsProcessorList  # noqa: E402

import otspec  # noqa: E402
from otspec import ProblemError  # noqa: E402
from otspec.decode import multi_draft, shipped  # noqa: E402
from otspec.decode.base.processors import for_trees  # noqa: E402
from tests.decode.models import pair  # noqa: E402


@cache
def compiler() -> Any:
    xgrammar = pytest.importorskip("xgrammar")
    tokenizer = shipped.load().tokenizer
    info = xgrammar.TokenizerInfo.from_huggingface(tokenizer, vocab_size=len(tokenizer))
    return xgrammar.GrammarCompiler(info, max_threads=1)


def their_processor(compiled: Any) -> Any:
    """What xgrammar has for transformers, which serves one run."""
    return pytest.importorskip("xgrammar.contrib.hf").LogitsProcessor(compiled)


def compiled(schema: dict[str, Any]) -> Any:
    return compiler().compile_json_schema(json.dumps(schema), any_whitespace=False)


def some_value(rng: np.random.Generator, deep: int) -> tuple[dict[str, Any], Any]:
    """A random schema, and a check that a value is of it."""
    kind = rng.integers(6 if deep else 4)
    if kind == 0:
        most = int(rng.integers(1, 9))
        return {"type": "string", "maxLength": most}, lambda one: isinstance(one, str) and len(one) <= most
    if kind == 1:
        least, width = int(rng.integers(-50, 50)), int(rng.integers(1, 900))
        schema = {"type": "integer", "minimum": least, "maximum": least + width}
        return schema, lambda one: type(one) is int and least <= one <= least + width
    if kind == 2:
        return {"type": "boolean"}, lambda one: isinstance(one, bool)
    if kind == 3:
        choices = [f"choice {number}" for number in range(int(rng.integers(1, 5)))]
        return {"enum": choices}, lambda one: one in choices
    if kind == 4:
        schema, valid = some_value(rng, deep - 1)
        least, most = 1, int(rng.integers(1, 3))
        whole = {"type": "array", "items": schema, "minItems": least, "maxItems": most}
        return whole, lambda one: isinstance(one, list) and least <= len(one) <= most and all(map(valid, one))
    return some_object(rng, deep - 1)


def some_object(rng: np.random.Generator, deep: int) -> tuple[dict[str, Any], Any]:
    fields = {f"field_{number}": some_value(rng, deep) for number in range(int(rng.integers(1, 4)))}
    schema = {
        "type": "object",
        "properties": {name: schema for name, (schema, _) in fields.items()},
        "required": list(fields),
        "additionalProperties": False,
    }
    return schema, lambda one: set(one) == set(fields) and all(valid(one[name]) for name, (_, valid) in fields.items())


def test_no_schema_of_fifty_is_broken() -> None:
    """At temperature 1, in batches, each by a grammar of its own; independent paths, and siblings that differ."""
    target, draft, tokenizer = shipped.load()
    rng, prompt = np.random.default_rng(5), tokenizer("data = ", return_tensors="pt").input_ids
    ways: list[dict[str, Any]] = [
        {"paths": 2, "depth": 4, "draft_top_k": 20},
        {"branching": (3, 1), "law": "without_replacement", "draft_top_k": 20, "top_k": 50},
    ]
    for number, way in enumerate(ways):
        schemas = [some_object(rng, 1) for _ in range(25)]
        grammar = their_processor([compiled(schema) for schema, _ in schemas])
        given = {"input_ids": prompt.expand(25, -1), "attention_mask": torch.ones(25, prompt.shape[1])}
        found = otspec.generate(
            target, draft, **given, logits_processor=[grammar], seed=number, max_new_tokens=250, **way
        )
        for tokens, (schema, valid) in zip(found.new_tokens, schemas, strict=True):
            assert tokens[-1] == tokenizer.eos_token_id
            text = tokenizer.decode(tokens, skip_special_tokens=True)
            assert valid(json.loads(text)), (schema, text)
        assert found.metrics.block_efficiency > 1.2


SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}}, "required": ["name"]}


def test_greedy_text_within_a_grammar_is_transformers_own() -> None:
    target, draft, tokenizer = shipped.load()
    prompt, grammar = tokenizer("data = ", return_tensors="pt"), compiled(SCHEMA)
    given: dict[str, Any] = {"max_new_tokens": 40, "do_sample": False}
    plain = target.generate(**prompt, **given, logits_processor=LogitsProcessorList([their_processor(grammar)]))
    for method in (multi_draft(draft, depth=4), multi_draft(draft, paths=2, depth=2)):
        processors = LogitsProcessorList([their_processor(grammar)])
        assert torch.equal(
            plain, target.generate(**prompt, **given, logits_processor=processors, custom_generate=method)
        )


def test_the_examples_of_the_page_run() -> None:
    compiler()
    page = (Path(__file__).parents[2] / "docs" / "structured.md").read_text()
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(block, "docs/structured.md", "exec", dont_inherit=True), names)
    assert all(one != two for one, two in itertools.pairwise(names["text"].new_tokens[0]))


def backend(name: str) -> Any:
    """A backend of outlines', for the shipped target."""
    outlines = pytest.importorskip("outlines")
    kind = {"xgrammar": "XGrammarBackend", "llguidance": "LLGuidanceBackend", "outlines_core": "OutlinesCoreBackend"}
    module = pytest.importorskip(f"outlines.backends.{name}")
    target, _, tokenizer = shipped.load()
    return getattr(module, kind[name])(outlines.from_transformers(target, tokenizer))


BACKENDS = ("xgrammar", "llguidance", "outlines_core")


@pytest.mark.parametrize("name", BACKENDS)
def test_every_backend_of_outlines_says_what_an_automaton_says(name: str) -> None:
    """After texts in any order, some of which are not of the language: b's, and one a among them."""
    tokenizer = shipped.load().tokenizer
    spelt = [tokenizer.convert_ids_to_tokens(token) for token in range(len(tokenizer))]
    letters = [token for token, one in enumerate(spelt) if set(one) <= set("ab")]
    processor = backend(name).get_regex_logits_processor("b*ab*")
    (grammar,) = for_trees(LogitsProcessorList([processor]), torch.tensor([[7]]), len(tokenizer))
    rng = np.random.default_rng(0)
    asked = 0
    for _ in range(120):
        new = rng.choice([*letters, tokenizer.eos_token_id], size=int(rng.integers(5))).tolist()
        text = "".join(spelt[token] for token in new)
        kept = grammar.cut(torch.zeros(1, len(tokenizer)), [0], [[7, *new]])[0].isfinite().nonzero()[:, 0].tolist()
        if text.count("a") > 1 or tokenizer.eos_token_id in new:
            assert len(kept) == len(tokenizer)  # it has nothing to say
            continue
        asked += 1
        goes_on = [token for token in letters if (text + spelt[token]).count("a") <= 1]
        ends = [tokenizer.eos_token_id] * text.count("a")
        assert kept == sorted([*goes_on, *ends])
    assert asked > 20


@pytest.mark.parametrize("name", BACKENDS)
def test_text_keeps_to_an_expression_of_outlines(name: str) -> None:
    target, draft, tokenizer = shipped.load()
    prompt = tokenizer("data = ", return_tensors="pt").input_ids.expand(2, -1)
    expression = r'\{"name": "[a-z]{1,9}", "sizes": \[[0-9]{1,3}(, [0-9]{1,3}){0,3}\]\}'
    processor = backend(name).get_regex_logits_processor(expression)
    found = otspec.generate(
        target, draft, prompt, logits_processor=[processor], branching=(2, 1, 1), top_k=5, seed=1, max_new_tokens=60
    )
    for tokens in found.new_tokens:
        assert tokens[-1] == tokenizer.eos_token_id
        assert re.fullmatch(expression, tokenizer.decode(tokens, skip_special_tokens=True))
    assert found.metrics.block_efficiency > 1.2


def test_drafts_know_the_grammar() -> None:
    """What is forced is accepted: nothing is drafted that a grammar of one text would reject."""
    target, draft, tokenizer = shipped.load()
    prompt, text = tokenizer("data = ", return_tensors="pt"), '{"version": 1}'
    letters = [tokenizer.convert_tokens_to_ids(one) for one in text.replace(" ", "Ġ")]
    byte_by_byte = Along(prompt.input_ids.shape[1], [*letters, tokenizer.eos_token_id])
    found = otspec.generate(target, draft, **prompt, logits_processor=[byte_by_byte], depth=4, max_new_tokens=40)
    assert tokenizer.decode(found.new_tokens[0], skip_special_tokens=True) == text
    whole = compiler().compile_grammar(f"root ::= {json.dumps(text)}")
    drafted = otspec.generate(
        target, draft, **prompt, logits_processor=[their_processor(whole)], depth=4, max_new_tokens=40, seed=1
    )
    assert tokenizer.decode(drafted.new_tokens[0], skip_special_tokens=True) == text
    assert drafted.metrics.block_efficiency > 1.5 * found.metrics.block_efficiency


class Along:
    """Forces one text; a function of the text, which fails after any other."""

    def __init__(self, prompt: int, tokens: list[int]) -> None:
        self.prompt, self.tokens = prompt, tokens

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        new = input_ids[0, self.prompt :].tolist()
        assert new == self.tokens[: len(new)]
        forced = torch.full_like(scores, -torch.inf)
        forced[:, self.tokens[len(new)]] = 0.0
        return forced


class Counting:
    """Knows how often it was asked, and not after what."""

    asked = 0

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        self.asked += 1
        scores[:, self.asked % scores.shape[1]] += 1.0
        return scores


class Following(Counting):
    """Takes every call for the next token of one text, and fails where it is not."""

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        assert input_ids.shape[1] == 3 + self.asked
        self.asked += 1
        return scores


@pytest.mark.parametrize("kind", [Counting, Following])
def test_a_processor_that_keeps_a_state_is_refused(kind: Any) -> None:
    target, draft = pair()
    with pytest.raises(ProblemError, match=f"{kind.__name__} keeps a state from call to call"):
        otspec.generate(target, draft, torch.tensor([[1, 2, 3]]), logits_processor=[kind()], max_new_tokens=4)


def test_grammars_that_cannot_be_followed_are_refused() -> None:
    target, draft, tokenizer = shipped.load()
    prompt, grammar = tokenizer("data = ", return_tensors="pt").input_ids, compiled(SCHEMA)

    class Mine(type(their_processor(grammar))):  # type: ignore[misc]  # whatever it does in place of theirs
        pass

    with pytest.raises(ProblemError, match="Mine keeps a state"):
        otspec.generate(target, draft, prompt, logits_processor=[Mine(grammar)], max_new_tokens=4)
    with pytest.raises(ProblemError, match="3 grammars and 2 prompts"):
        otspec.generate(
            target, draft, prompt.expand(2, -1), logits_processor=[their_processor([grammar] * 3)], max_new_tokens=4
        )
    xgrammar = pytest.importorskip("xgrammar")
    info = xgrammar.TokenizerInfo([*"xyz", "</s>"], xgrammar.VocabType.RAW, stop_token_ids=[3])
    dead = xgrammar.GrammarCompiler(info, max_threads=1).compile_grammar('root ::= "x" "q"')
    with pytest.raises(ProblemError, match="allows no token of the model after 1 new tokens"):
        otspec.generate(target, draft, prompt, logits_processor=[their_processor(dead)], max_new_tokens=4)
