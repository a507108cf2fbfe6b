"""Heads on the target's last hidden state: what they compute, and the law that is verified with it."""

from __future__ import annotations

import itertools
import math
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from transformers import AutoModelForCausalLM, GenerationConfig  # noqa: E402

import otspec  # noqa: E402
from otspec.decode.base.draft_laws import DraftLaw, draft_law  # noqa: E402
from otspec.decode.base.sampling import Sampling  # noqa: E402
from otspec.decode.drafters.catalogue import CONDITIONED  # noqa: E402
from otspec.decode.drafters.eagle.model import EagleLlama  # noqa: E402
from otspec.decode.drafters.heads.drafter import HeadsDrafter  # noqa: E402
from otspec.decode.drafters.heads.model import MedusaHeads, MlpSpeculator  # noqa: E402
from otspec.decode.drafters.levels import LevelDrafter  # noqa: E402
from otspec.decode.methods.assisted import assisted  # noqa: E402
from otspec.decode.models.target import Target  # noqa: E402
from otspec.errors import ProblemError  # noqa: E402
from otspec.paths import Block, Model, Nested, PathVerifier, TokenWise, Tree  # noqa: E402
from otspec.schemes import IID  # noqa: E402
from otspec.verification.reference.enumeration import law_over  # noqa: E402
from otspec.verification.trees.shape import Shape  # noqa: E402
from tests.decode.models import law_after, pair, tiny  # noqa: E402
from tests.decode.test_steered import TEXTS, check_law  # noqa: E402

MADE = ("medusa", "mlp", "mlp, tied", "eagle1")
SETTINGS: dict[str, dict[str, Any]] = {
    "temperature 1": {},
    "temperature 0.6": {"temperature": 0.6},
    "top-k": {"temperature": 0.8, "top_k": 2},
}
PROMPT = [1, 2, 0]


@pytest.fixture(autouse=True)
def _no_gradients() -> Any:
    with torch.no_grad():
        yield


def drafting(name: str, target: Any, seed: int = 0, strength: float = 0.4) -> Any:
    """A model for a target that was never trained, and differs from what it begins as."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model: Any
        if name == "eagle1":
            model = EagleLlama.of_target(target)
        elif name == "medusa":
            model = MedusaHeads.of(target, 3, blocks=2)
        else:
            model = MlpSpeculator.of(target, 3, 12, tied=name == "mlp, tied")
        for weights in model.parameters():
            weights += strength * torch.randn_like(weights)
    return model


def last_states(target: Any, text: list[int]) -> Any:
    """What the target's head gets at every token of a text, shape (tokens, width)."""
    return target(torch.tensor([text]), output_hidden_states=True).hidden_states[-1][0]


def _sampling(**settings: Any) -> Sampling:
    """What transformers prepares for these settings."""
    config = GenerationConfig(do_sample=True, **{"top_k": 0, **settings})
    return Sampling(tiny(4)._get_logits_processor(config, device="cpu", model_kwargs={}), do_sample=True)


def by_hand(model: Any, state: Any, tokens: list[int]) -> Any:
    """Logits of the last head: of one text and what was drafted after it, by numpy from the papers' formulas."""
    weights = {name: value.double().numpy() for name, value in model.state_dict().items()}
    s, number = state.numpy(), len(tokens) - 1
    if isinstance(model, MedusaHeads):
        for block in range(model.config.blocks):
            at = f"each.{number}.blocks.{block}"
            inner = weights[f"{at}.weight"] @ s + weights[f"{at}.bias"]
            s = s + inner / (1 + np.exp(-inner))
        return weights[f"each.{number}.out.weight"] @ s
    share = 2 ** (-1 / (2 * model.count))
    s = (s - s.mean()) / np.sqrt(s.var() + 1e-6) / np.sqrt(2)
    for stage, token in enumerate(tokens):
        own = 0 if model.config.tied else stage
        z = weights[f"embedding.{own}.weight"][token] * np.sqrt((1 - share**2) * model.config.width / 2)
        s = share * weights[f"project.{min(stage, 1) if model.config.tied else stage}.weight"] @ s + z
        s = (s - s.mean()) / np.sqrt(s.var() + 1e-6)
        s = weights[f"norm.{own}.weight"] * s + weights[f"norm.{own}.bias"]
        s = s * np.array([1 + math.erf(one / math.sqrt(2)) for one in s]) / 2
    return weights[f"out.{0 if model.config.tied else number}.weight"] @ s


@pytest.mark.parametrize("name", MADE[:3])
def test_heads_compute_what_the_papers_say(name: str) -> None:
    target = tiny()
    model = drafting(name, target)
    text = [3, 1, 4, 1, 5]
    states = last_states(target, text)
    tokens, features = torch.tensor([text[1:]]), states[None, :-1]
    along = model.along(tokens, features)
    assert [logits.shape for logits in along] == [(1, 4 - number, 8) for number in range(3)]
    for number, logits in enumerate(along):
        for column in range(4 - number):
            read = text[1 + column : 2 + column + number]
            np.testing.assert_allclose(logits[0, column], by_hand(model, states[column], read), atol=1e-9)
    assert torch.equal(model(tokens, features).logits, along[0])
    assert len(model.along(tokens[:, :1], features[:, :1])) == 1


def test_medusa_begins_as_the_head_of_its_target() -> None:
    target = tiny().float()
    model = MedusaHeads.of(target, 2)
    text = torch.tensor([TEXTS[0]])
    said = target(text, output_hidden_states=True)
    for logits in model.along(text, said.hidden_states[-1]):
        assert torch.equal(logits, said.logits[:, : logits.shape[1]])
    tiny().double()


def test_a_head_with_bias_and_soft_cap_is_taken_over() -> None:
    from transformers import Gemma2Config, Gemma2ForCausalLM

    config = Gemma2Config(
        vocab_size=8,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        final_logit_softcapping=2.0,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        target = Gemma2ForCausalLM(config).double().eval()
    target.lm_head.bias = torch.nn.Parameter(torch.linspace(-3, 3, 8, dtype=torch.float64))
    text = torch.tensor([TEXTS[0]])
    said = target(text, output_hidden_states=True)
    assert 1.5 < said.logits.abs().max() < 2.0
    model = MedusaHeads.of(target, 1)
    torch.testing.assert_close(model.along(text, said.hidden_states[-1])[0], said.logits, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", MADE)
def test_it_is_saved_and_loaded_by_transformers(name: str, tmp_path: Path) -> None:
    target = tiny()
    model = drafting(name, target)
    model.save_pretrained(tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float64)
    assert type(loaded) is type(model)
    before, after = model.state_dict(), loaded.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)
    ids = torch.tensor([TEXTS[0]])
    found = [
        otspec.generate(target, one, ids, paths=2, depth=3, max_new_tokens=12, seed=1).sequences
        for one in (model, loaded)
    ]
    assert torch.equal(*found)


@pytest.mark.parametrize("name", MADE)
def test_every_setting_of_drafting_takes_it(name: str) -> None:
    """Other laws of siblings, confidence, prompts of several lengths, greedy decoding, and transformers' own call."""
    target = tiny()
    model = drafting(name, target)
    ids = torch.tensor([[0, 3, 1, 4], [2, 7, 1, 5]])
    mask = torch.tensor([[0, 0, 0, 1], [1, 1, 1, 1]])
    for settings in ({"branching": (2, 2), "law": "without_replacement"}, {"draft_confidence": 0.3}, {"depth": 2}):
        found = otspec.generate(target, model, ids, attention_mask=mask, max_new_tokens=6, seed=0, **settings)
        assert found.sequences.shape == (2, 10)
    greedy = otspec.generate(target, model, ids[1:], max_new_tokens=8, temperature=0)
    assert torch.equal(greedy.sequences, target.generate(ids[1:], max_new_tokens=8, do_sample=False))
    custom = otspec.decode.multi_draft(model, paths=2, depth=2)
    assert target.generate(ids[1:], custom_generate=custom, max_new_tokens=5, do_sample=True).shape == (1, 9)


def _drafter(name: str, target: Any, shape: Shape, law: DraftLaw, sampling: Sampling) -> LevelDrafter:
    model = drafting(name, target, strength=0.1)
    vocab = target.config.vocab_size
    return CONDITIONED[type(model)](model, shape, law, sampling, vocab, torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", MADE[:3])
@pytest.mark.parametrize("lengths", [(0, 0, 0), (2, 1, 0), (1, 3, 2)])
def test_laws_are_those_of_a_text_that_is_read_anew(name: str, lengths: tuple[int, ...]) -> None:
    """Over a batch, after the prompts, and after a step that accepted some drafts and added a token."""
    target = tiny()
    drafter: Any = _drafter(name, target, Shape((2, 1, 1)), draft_law("iid"), _sampling())
    texts = [list(text) for text in TEXTS]
    states = [last_states(target, text)[: len(text) - 1] for text in texts]
    drafter.observe([one[:, None] for one in states])
    drafter.start(texts)

    def check() -> Any:
        drafts, row = drafter.draft(texts, 3), 0
        for text, tree in zip(texts, drafts.trees, strict=True):
            nothing = torch.zeros(16, dtype=torch.float64)
            state = last_states(target, text)[len(text) - 2] if len(text) > 1 else nothing
            for node in range(tree.inner):
                logits = by_hand(drafter.model, state, [text[-1], *tree.token[tree.line(node)].tolist()])
                np.testing.assert_allclose(drafts.laws[row], torch.from_numpy(logits).softmax(-1), rtol=1e-7, atol=1e-9)
                row += 1
        assert row == len(drafts.laws)
        return drafts

    drafts = check()
    slots, seen = [], []
    for number, (tree, length) in enumerate(zip(drafts.trees, lengths, strict=True)):
        accepted = tree.node[0, 1 : 1 + length]
        slots.append(tree.slot[accepted].tolist())
        read = [*texts[number], *tree.token[accepted].tolist()]
        seen.append(last_states(target, read)[len(texts[number]) - 1 :, None])
        texts[number] = [*read, 3]
    drafter.commit(slots, [0, 2])
    drafter.observe([seen[0], seen[2]])
    texts = [texts[0], texts[2]]
    check()


@pytest.mark.parametrize("name", MADE)
def test_the_text_has_the_law_of_the_target(name: str) -> None:
    """By enumeration of two paths of two tokens each, over the laws that the drafter hands out for what came up."""
    vocab, depth, target = 3, 2, tiny(3, scale=0.3)
    every = list(itertools.product(itertools.product(range(vocab), repeat=depth), repeat=2))
    for settings in SETTINGS.values():
        of_target = cache(lambda prefix: law_after(target, [*PROMPT, *prefix], **settings))  # noqa: B023
        model = Model(of_target, of_target)  # the drafts' laws are the drafter's
        level = itertools.count()

        def scripted(laws: Any, n: int, generator: Any) -> Any:
            at = next(level)  # noqa: B023
            come_up = torch.tensor([[path[at] for path in paths] for paths in every])
            return come_up[:, None] if at == 0 else come_up[:, :, None]

        drafter: Any = _drafter(
            name, target, Shape.paths(2, depth), DraftLaw("scripted", scripted, IID), _sampling(**settings)
        )
        texts = [PROMPT] * len(every)
        drafter.observe(Target(target, texts, drafter.layers).features)
        drafter.start(texts)
        drafts = drafter.draft(texts, depth)
        trees: list[tuple[float, Tree]] = []
        row = 0
        for paths, tree in zip(every, drafts.trees, strict=True):
            laws = drafts.laws[row : row + tree.inner].numpy()
            row += tree.inner
            drawn_at = {tuple(tree.token[tree.line(node)].tolist()): node for node in range(tree.size)}
            chance = math.prod(float(laws[drawn_at[path[:i]]][path[i]]) for path in paths for i in range(depth))
            if chance:
                nodes = [tuple(tree.token[tree.line(node)].tolist()) for node in range(tree.size)]
                trees.append((chance, Tree.with_laws(tree, np.array([of_target(node) for node in nodes]), laws)))
        assert row == len(drafts.laws)
        assert sum(chance for chance, _ in trees) == pytest.approx(1.0)
        verifiers: list[PathVerifier] = [Nested(), Block(), TokenWise("interval")]
        for verifier in verifiers:
            law = law_over(trees, verifier, model, depth)
            assert law.deviation <= 1e-9, (settings, verifier)
            assert law.mean_accepted > 0.1


@pytest.mark.parametrize("settings", [{}, {"temperature": 0.6, "top_k": 3}], ids=str)
@pytest.mark.parametrize("name", ["medusa", "mlp", "eagle1"])
def test_texts_have_the_targets_law(name: str, settings: dict[str, Any]) -> None:
    target = tiny(4, seed=1)
    check_law(target, drafting(name, target), "nested", settings)


def test_a_text_goes_no_deeper_than_there_are_heads() -> None:
    target = tiny()
    found = otspec.generate(
        target, MedusaHeads.of(target, 2), torch.tensor([PROMPT]), paths=1, depth=6, max_new_tokens=9, seed=0
    )
    assert len(found.metrics.accepted) == 2


def test_bad_requests_are_refused_by_name() -> None:
    target, draft = pair()
    ids, heads = torch.tensor([PROMPT]), MedusaHeads.of(target, 2)
    with pytest.raises(ProblemError, match="heads is 0"):
        MedusaHeads.of(target, 0)
    with pytest.raises(ProblemError, match="width is -1"):
        MlpSpeculator.of(target, 2, -1)
    with pytest.raises(
        ProblemError, match="MedusaHeads drafts from its target's hidden states, and reads no text by itself"
    ):
        heads(ids)
    with pytest.raises(ProblemError, match="transformers knows no MedusaHeads"):
        assisted(target, heads, ids)
    with pytest.raises(ProblemError, match="the head of MedusaHeads cannot be computed for some tokens only"):
        otspec.generate(target, heads, ids, draft_tokens=[1, 2], max_new_tokens=4)
    with pytest.raises(ProblemError, match="drafts without others beside it"):
        otspec.generate(target, [draft, heads], ids, law="independent", max_new_tokens=4)
    for looks_at_target in (heads, EagleLlama.of_target(target)):
        with pytest.raises(ProblemError, match="hidden states, and its passes cannot be timed"):
            otspec.decode.tune(target, looks_at_target, [PROMPT], seconds=1, max_new_tokens=16)
    wide = MlpSpeculator.of(target, 2)
    wide.config.feature_width = 8
    with pytest.raises(ProblemError, match="width 16, and the draft model was trained with 8"):
        otspec.generate(target, wide, ids, max_new_tokens=4)
    target_of_three = tiny(layers=3)
    with pytest.raises(ProblemError, match="hidden states after 3 layers are wanted, and LlamaForCausalLM has 2"):
        otspec.generate(target, MedusaHeads.of(target_of_three, 2), ids, max_new_tokens=4)
    hooked = tiny(seed=9)
    hooked.lm_head.register_forward_hook(lambda module, given, found: found)
    with pytest.raises(ProblemError, match="begins as the head of its target, and LlamaForCausalLM has none"):
        MedusaHeads.of(hooked, 2)
    assert CONDITIONED[type(heads)] is CONDITIONED[MlpSpeculator] is HeadsDrafter


def test_the_examples_of_the_document_run() -> None:
    page = (Path(__file__).parents[2] / "docs" / "drafters.md").read_text()
    examples = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(examples) == 3
    for example in examples:
        exec(example, {})
