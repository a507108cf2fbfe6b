"""Drafts of a model with another tokenizer: what its cache holds, and what is refused.

tests/contracts has their laws at every node.
"""

from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from scipy import sparse
from transformers import LogitsProcessorList, SuppressTokensLogitsProcessor, TemperatureLogitsWarper, TopKLogitsWarper

import otspec
from otspec import ProblemError
from otspec.decode import MultiDraft, multi_draft, run
from otspec.decode.base.sampling import Sampling
from otspec.decode.drafters.cross_tokenizer.drafter import ForeignDrafter
from otspec.decode.drafters.cross_tokenizer.retokenised import Retokenised
from otspec.decode.models.tokens.alignment import aligned_counts
from otspec.decode.models.tokens.matching import matching_of
from otspec.logits import law_from_logits
from otspec.verification.trees.shape import Shape
from otspec.vocab import load_affinity
from tests.decode.models import logits_after, tiny
from tests.decode.tokenizers_of import TEXT, byte_level
from tests.oracles import Floats

pytestmark = pytest.mark.usefixtures("no_gradients")

TOKENIZER, DRAFT_TOKENIZER = byte_level(420, ("<s>", "</s>")), byte_level(330, ("<a>", "<e>", "<pad>"), "llama3")
VOCAB, OWN = 420, 330
MATCHING: Any = matching_of(TOKENIZER, DRAFT_TOKENIZER)
PROMPTS = ["def tokens(vo", "é ≠ ", "from tests.decode import 中"]


def _texts() -> list[list[int]]:
    return [TOKENIZER(prompt).input_ids for prompt in PROMPTS]


COLD = Sampling(LogitsProcessorList([TemperatureLogitsWarper(0.7), TopKLogitsWarper(5)]), do_sample=True)


def _drafter(shape: Shape, sampling: Sampling = COLD, positions: int = 128, **settings: Any) -> Any:
    model = tiny(OWN, positions=positions)
    strategy = MultiDraft(model, branching=shape.branching, matching=MATCHING, **settings)
    made = strategy.prepare(VOCAB, sampling, torch.Generator().manual_seed(0)).drafter
    assert isinstance(made, ForeignDrafter)
    return made


def _law(text: list[int], positions: int = 128) -> Floats:
    """The law of the next draft: everything read from the start, whole laws cut down on the host."""
    logits = np.full(VOCAB, -np.inf)
    own = logits_after(tiny(OWN, positions=positions), Retokenised(MATCHING).extend(text))
    logits[MATCHING.tokens] = own[MATCHING.own]
    return law_from_logits("logits", logits, 0.7, 5, None)


def test_what_was_read_is_read_once() -> None:
    """Of a text that grows by words, no more than its last one is read again."""
    drafter = _drafter(Shape((1, 1)))
    words = ["from tests", ".decode", " import", " toke", "nizers_of", "\n", "    ", "def", " é", " f(x):"]
    text, read, most = TOKENIZER("a text that is longer than a word or two").input_ids, 0, 0
    drafter.start([text])
    for word in words:
        text = [*text, *TOKENIZER(word, add_special_tokens=False).input_ids]
        laws = drafter.draft([text], 2).over(VOCAB)
        np.testing.assert_allclose(laws[0], _law(text), atol=1e-10)
        new = drafter.context.passes[read].rows
        read = len(drafter.context.passes)
        drafter.commit([[]], [0])
        own = Retokenised(MATCHING).extend(text)
        most = max(most, new)
        assert drafter.context.length.tolist() == [len(own)]
    assert most < 15 < len(own)


def test_depth_ends_where_the_positions_of_the_draft_model_do() -> None:
    texts = _texts()
    longest = max(len(Retokenised(MATCHING).extend(text)) for text in texts)
    for spare, depth in ((2, 3), (1, 2), (0, 1), (-1, 0)):
        drafter = _drafter(Shape((2, 1, 1)), positions=longest + spare)
        if spare < 0:
            with pytest.raises(ProblemError, match=f"a prompt has {longest} tokens of the draft model's, which reads"):
                drafter.start(texts)
            continue
        drafter.start(texts)
        assert drafter.depth(np.array([1])) == 3
        assert [tree.length for tree in drafter.draft(texts, 3).trees] == [depth] * 3


def test_a_text_that_outgrows_the_draft_model_and_those_that_go_on_without_it() -> None:
    texts = _texts()
    drafter = _drafter(Shape((2, 1)), positions=40)
    drafter.start(texts)
    drafter.draft(texts, 2)
    drafter.commit([[] for _ in texts], range(3))
    texts = [[*text, 290, *([291, 12] * (20 * (number == 1)))] for number, text in enumerate(texts)]
    drafts = drafter.draft(texts, 2)
    assert ([tree.length for tree in drafts.trees], drafts.laws.shape) == ([0, 0, 0], (0, VOCAB))
    drafter.commit([[], [], []], [0, 2])
    texts = [[*texts[0], 290, 13], [*texts[2], 14]]
    laws = drafter.draft(texts, 1).over(VOCAB)
    for law, text in zip(laws, texts, strict=True):
        np.testing.assert_allclose(law, _law(text, positions=40), atol=1e-10)


def test_processors_find_tokens_by_the_targets_ids() -> None:
    kept = MATCHING.tokens[[5, 77, 200, 260]]
    sampling = Sampling(LogitsProcessorList([SuppressTokensLogitsProcessor([int(kept[1]), 0])]), True)
    unknown = int(np.setdiff1d(np.arange(VOCAB), MATCHING.tokens)[0])
    drafter = _drafter(Shape((3, 1)), sampling=sampling, draft_tokens=[*kept.tolist(), unknown])
    texts = _texts()
    drafter.start(texts)
    drafts = drafter.draft(texts, 1)
    assert drafts.support == 4
    for law, text in zip(drafts.over(VOCAB).numpy(), texts, strict=True):
        assert np.flatnonzero(law).tolist() == sorted(kept[[0, 2, 3]].tolist())
        own = MATCHING.own[np.searchsorted(MATCHING.tokens, kept[[0, 2, 3]])]
        logits = logits_after(tiny(OWN, positions=128), Retokenised(MATCHING).extend(text))[own]
        np.testing.assert_allclose(law[kept[[0, 2, 3]]], law_from_logits("logits", logits), atol=1e-10)
    with pytest.raises(ProblemError, match="none of the 1 tokens that may be drafted is a token of the draft model"):
        _drafter(Shape((1,)), draft_tokens=[unknown])
    with pytest.raises(ProblemError, match="all 1 tokens that may be drafted are suppressed"):
        _drafter(Shape((1,)), sampling=sampling, draft_tokens=[int(kept[1]), unknown])


TOKENIZER.pad_token = "</s>"


def test_ways_to_ask_for_it() -> None:
    target, draft = tiny(VOCAB), tiny(OWN, seed=1, positions=128)
    ids = TOKENIZER(PROMPTS[0], return_tensors="pt").input_ids
    both: dict[str, Any] = {"tokenizer": TOKENIZER, "draft_tokenizer": DRAFT_TOKENIZER}
    function = otspec.generate(target, draft, ids, depth=3, max_new_tokens=12, seed=3, **both)
    custom = multi_draft(draft, depth=3, seed=3, **both)
    assert (
        target.generate(ids, custom_generate=custom, do_sample=True, top_k=0, max_new_tokens=12).tolist()
        == function.sequences.tolist()
    )
    strategy = MultiDraft(draft, depth=3, matching=MATCHING)
    assert run(target, strategy, ids, max_new_tokens=12, seed=3).new_tokens == function.new_tokens
    assert run(target, strategy, ids, max_new_tokens=12, seed=3, **both).new_tokens == function.new_tokens
    with pytest.raises(ProblemError, match=r"the tokenizers differ in .* matching=matching_of"):
        run(target, MultiDraft(draft, depth=3), ids, max_new_tokens=12, **both)
    with pytest.raises(ProblemError, match="2 of the target's 420 tokens"):
        otspec.generate(target, tiny(2), ids, max_new_tokens=4, **both)
    several = otspec.generate(target, [draft, tiny(OWN, seed=2)], ids, law="independent", max_new_tokens=12, **both)
    assert len(several.new_tokens[0]) == 12


# --- counts of what the target writes where a foreign draft model writes a token

PLAIN = TEXT.replace("<", "(")  # no special tokens written out, which the tokenizers would read as such
TEXTS = [PLAIN[:3000], "", "é ≠ 中文 def", PLAIN[2000:2500]]


@pytest.mark.parametrize(("vocab", "own"), [(420, 300), (300, 420)])
def test_counts_are_those_of_a_walk_through_the_text(vocab: int, own: int, tmp_path: Path) -> None:
    target, draft = byte_level(vocab), byte_level(own)
    matching = matching_of(target, draft)
    assert matching is not None
    counterpart = dict(zip(matching.own.tolist(), matching.tokens.tolist(), strict=True))
    walked: Counter[tuple[int, int]] = Counter()
    level: Counter[int] = Counter()
    for text in TEXTS:
        begins = []
        for tokenizer in (target, draft):
            found = tokenizer.backend_tokenizer.encode(text, add_special_tokens=False)
            at, places = 0, {}
            for token in found.tokens:  # a letter of a token is a byte
                places[at] = tokenizer.backend_tokenizer.token_to_id(token)
                at += len(token)
            begins.append(places)
        level.update(begins[0].values())
        for at, token in begins[0].items():
            if begins[1].get(at) in counterpart:
                walked[counterpart[begins[1][at]], token] += 1
    estimate = aligned_counts(matching, TEXTS, {"source": "texts"})
    assert estimate.about == {"source": "texts", "seen": sum(level.values()), "aligned": sum(walked.values())}
    assert [level[token] for token in range(vocab)] == estimate.level.tolist()
    assert estimate.tokens.tolist() == matching.tokens.tolist()
    matrix = estimate.matrix.toarray()
    for row, token in enumerate(matching.tokens.tolist()):
        expected = np.array([walked[token, other] for other in range(vocab)])
        if not expected.any():
            expected[token] = 1  # what is never seen keeps its mass
        np.testing.assert_array_equal(matrix[row], expected)
    moved = sum(count for (token, other), count in walked.items() if token != other)
    assert moved > 100 if own < vocab else moved == 0
    estimate.nearest(4).save(tmp_path / "affinity.safetensors")
    assert load_affinity(tmp_path / "affinity.safetensors").rows(0, 3).sum(axis=1) == pytest.approx(np.ones(3))


def test_the_counts_of_all_texts_make_one_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Mock(side_effect=sparse.csr_array)
    monkeypatch.setattr(sparse, "csr_array", made)
    aligned_counts(MATCHING, ["def tokens"] * 9)
    assert made.call_count <= 3
