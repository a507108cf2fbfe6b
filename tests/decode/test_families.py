"""What looks at a target, made of decoders of many architectures and for them: trained, saved, loaded, lossless."""

import copy
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import gelu, silu
from transformers import AutoModelForCausalLM

import otspec
from otspec.decode import MultiDraft
from otspec.decode.distillation.spec import DraftModelInit
from otspec.decode.drafters.decoders import layers_of
from otspec.decode.drafters.eagle.layer import last_norm
from otspec.decode.drafters.eagle.model import BORROWED, Eagle
from otspec.decode.drafters.sd2.model import Steered
from otspec.decode.models.head import softly_capped
from otspec.decode.models.passes.llama_reader import LlamaReader
from otspec.decode.models.passes.signature import Conditioning, Inputs
from otspec.decode.models.passes.transformers_reader import TransformersReader
from otspec.decode.training import KINDS, TeacherData, TrainingConfig, train
from tests.contracts.draft_models import Models, disturbed, logits_of_eagle, logits_of_parallel
from tests.contracts.enumeration import every_draft
from tests.contracts.oracles import sampling_of
from tests.decode.families import FAMILIES, VOCAB, family
from tests.decode.models import greedy_text
from tests.refusals import check_refused

LAYERS = (0, 1, 2)
PROMPT = [1, 2, 0]
PROMPTS = torch.tensor([PROMPT])
IDS = torch.tensor([[1, 2, 0, 2], [2, 1, 1, 0]])


def _made(kind: str, name: str, vocab: int = VOCAB) -> Any:
    """A draft model of some kind for a target, or of one that resembles it."""
    target = family(name, vocab)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        if kind in ("sd2", "eagle"):
            made: Any = {"sd2": Steered, "eagle": Eagle}[kind].of(family(name, vocab, seed=1), LAYERS, 32)
        else:
            made = Eagle.of_target(target, "shared", (1, 2), masks=2 if kind == "parallel" else 0).to(target.dtype)
    return disturbed(made, ("seen", "own", "token", "steering"), 0.3).eval()


# --- trained, saved, loaded, and greedy text token for token

TRAINED = ("sd2", "eagle", "eagle1", "shared", "medusa", "parallel", "mlp")


@pytest.mark.parametrize(("kind", "name"), [*zip(cycle(TRAINED), FAMILIES, strict=False), ("sd2", "opt")])
def test_trained_saved_and_loaded_it_drafts_the_targets_text(kind: str, name: str, tmp_path: Path) -> None:
    target, draft = (copy.deepcopy(family(name, seed=seed)).float() for seed in (0, 1))
    own, texts = KINDS[kind], np.random.default_rng(0).integers(0, VOCAB, (8, 9))
    data = TeacherData(target, texts, own.layers(target), batch=4)
    model = own.begin(DraftModelInit(target, None if own.of_target else draft, ahead=2))
    before = {key: weights.clone() for key, weights in model.named_parameters() if weights.requires_grad}
    train(own, model, data, data, TrainingConfig(steps=2, rate=1e-2, ahead=2))
    assert any(not torch.equal(weights, model.get_parameter(key)) for key, weights in before.items())
    model.save_pretrained(tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    assert type(loaded) is type(model)
    again = loaded.state_dict()
    assert all(torch.equal(one, again[key]) for key, one in model.state_dict().items() if key not in BORROWED)
    settings: dict[str, Any] = {"paths": 2, "depth": 2, "max_new_tokens": 6, "temperature": 0}
    if not own.shares:  # what shares belongs to this very target
        target = family(name)
    text = otspec.generate(target, loaded.to(target.dtype), PROMPTS, **settings)
    assert text.sequences[0].tolist() == greedy_text(target, PROMPT, 6)


# --- what is drafted is what the model says, read anew


@pytest.mark.parametrize(
    ("kind", "name"),
    [("eagle", "gemma2"), ("eagle", "gpt2"), ("shared", "gemma3_text"), ("shared", "phi"), ("parallel", "olmo")],
)
@pytest.mark.usefixtures("no_gradients")
def test_laws_are_those_of_the_whole_text_read_anew(kind: str, name: str) -> None:
    target, model = family(name, 3), _made(kind, name, 3)
    of = Models(3, target, model, None)
    drafts = every_draft(MultiDraft(model, branching=(2, 1)), of, PROMPT, sampling_of(of)).drafts
    by_hand, row = logits_of_parallel if kind == "parallel" else logits_of_eagle, 0
    for tree in drafts.trees:
        for node in range(tree.inner):
            logits = by_hand(model, target, PROMPT, tree.token[tree.line(node)].tolist())
            torch.testing.assert_close(
                drafts.laws[row].double(), torch.tensor(logits).softmax(-1), rtol=1e-6, atol=1e-9
            )
            row += 1
    assert row == len(drafts.laws)


def _swiglu(mlp: Any, x: Any, shift: Any, act: Any = silu) -> Any:
    return mlp.down_proj(act(mlp.gate_proj(x)) * (mlp.up_proj(x) + shift))


def _fused(mlp: Any, x: Any, shift: Any) -> Any:
    gate, up = mlp.gate_up_proj(x).chunk(2, dim=-1)
    return mlp.down_proj((up + shift) * silu(gate))


def _new_gelu(x: Any) -> Any:
    return gelu(x, approximate="tanh")


MLPS: dict[str, Any] = {
    "qwen3": _swiglu,
    "gemma2": lambda mlp, x, shift: _swiglu(mlp, x, shift, _new_gelu),
    "phi3": _fused,
    "gpt2": lambda mlp, x, shift: mlp.c_proj(_new_gelu(mlp.c_fc(x) + shift)),
    "phi": lambda mlp, x, shift: mlp.fc2(_new_gelu(mlp.fc1(x) + shift)),
}
"""What their MLPs give with something added to the up-projection, written out."""


@pytest.mark.parametrize("name", MLPS)
@pytest.mark.usefixtures("no_gradients")
def test_steering_is_added_to_the_up_projection(name: str) -> None:
    draft = family(name, seed=1)
    model = disturbed(Steered.of(draft, LAYERS, 32), ("steering",), 0.3)
    features = torch.randn(2, 1, 3, 32, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    shifts, seen = model.shifts(features), []
    layers: Any = layers_of(model)
    watched = [layer.mlp.register_forward_hook(lambda *those: seen.append(those)) for layer in layers]
    steered = model(IDS, shifts=shifts).logits
    for hook in watched:
        hook.remove()
    assert len(seen) == 2
    for (mlp, (inputs,), gave), shift in zip(seen, shifts, strict=True):
        torch.testing.assert_close(gave, MLPS[name](mlp, inputs, shift), rtol=1e-12, atol=1e-12)
    assert torch.equal(model(IDS).logits, draft(IDS).logits)  # nothing is left behind
    assert not torch.allclose(steered, draft(IDS).logits)


# --- a layer in the target's place


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.usefixtures("no_gradients")
def test_a_layer_has_the_targets_embedding_head_and_norm(name: str) -> None:
    target = family(name)
    model, norm = Eagle.of_target(target, "shared", (1, 2)).to(target.dtype).eval(), last_norm(target)
    assert norm is not None
    said = target(IDS, output_hidden_states=True)
    logits = softly_capped(model.lm_head(said.hidden_states[-1]), model.config.final_logit_softcapping)
    torch.testing.assert_close(logits, said.logits, rtol=1e-5, atol=1e-6)  # lent in single precision
    states = 3 + torch.randn(5, 32, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    torch.testing.assert_close(model.model.norm(states), norm(states), rtol=1e-5, atol=1e-5)
    assert not model.lm_head.weight.requires_grad


@pytest.mark.parametrize("name", ["llama", "mistral", "qwen2", "qwen3"])
@pytest.mark.parametrize("kind", ["sd2", "eagle", "shared"])
@pytest.mark.usefixtures("no_gradients")
def test_what_is_made_of_kin_of_a_llama_has_the_lean_pass(kind: str, name: str) -> None:
    model = _made(kind, name).float()
    if kind == "shared":
        model.borrow(copy.deepcopy(family(name)).float())
    assert LlamaReader.takes(model)
    found = []
    for reading in (LlamaReader, TransformersReader):
        reader = reading(model, (model.config.num_hidden_layers,))
        shown = torch.ones(2, 4, len(model.config.features), 32)
        inputs = (
            Conditioning(shifts=model.shifts(shown)) if kind == "sd2" else Conditioning(added=model.conditioning(shown))
        )
        present, position = torch.ones(2, 4, dtype=torch.bool), torch.arange(4).expand(2, -1)
        found.append([*reader.read(Inputs(IDS, position, keep=4, conditioning=inputs, present=present))])
        mask = torch.zeros(1, 1, 4, 8)
        mask[..., 0, 6] = torch.finfo(torch.float32).min
        found[-1] += reader.read(Inputs(IDS, 4 + position, mask, 4, 4, inputs))
    assert all(torch.equal(*both) for both in zip(*found, strict=True))


# --- refused


def test_others_are_refused_by_name() -> None:
    mixtral, mamba, cohere = (family(name) for name in ("mixtral", "mamba", "cohere"))
    check_refused(
        [
            (lambda: Steered.of(mixtral, LAYERS, 32), "layers of MixtralForCausalLM have not one up-proj"),
            (lambda: Eagle.of(mamba, LAYERS, 32), "MambaForCausalLM has layers without plain attention"),
            (lambda: Eagle.of_target(cohere, "shared", (1, 2)), "CohereForCausalLM multiplies its head's"),
        ]
    )
