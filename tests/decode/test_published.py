"""Draft models in published formats: what they say, what is refused, and texts decoded with them."""

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import LogitsProcessorList

import otspec
from otspec.decode import pair
from otspec.decode.base.sampling import Sampling
from otspec.decode.distillation.spec import DraftModelInit
from otspec.decode.drafters.hidden_states import check_features
from otspec.decode.drafters.published.formats import read_published
from otspec.decode.drafters.published.writing import write_published
from otspec.decode.methods import assisted
from otspec.decode.models.pairing import pair_up
from otspec.decode.models.passes import packed
from otspec.decode.models.passes.packed import PackedLinear, pack
from otspec.decode.pair.loading import load_draft, load_models, load_reader
from otspec.decode.recording.positions import drafting
from otspec.decode.training.specs import KINDS
from otspec.errors import DataError, ProblemError
from otspec.logits import law_from_logits
from otspec.verification import Shape
from tests.contracts.draft_models import shared
from tests.decode import published
from tests.decode.models import tiny
from tests.decode.published import Published, speculators
from tests.refusals import check_refused
from tests.saved_pair import save as saved_pair

pytestmark = pytest.mark.usefixtures("no_gradients")

VOCAB, KEPT = 8, (1, 2, 4, 7)
TEXT = [3, 1, 4, 1, 5]

FORMATS: dict[str, tuple[Published, Callable[..., Any]]] = {
    "EAGLE": (published.eagle(VOCAB), published.logits_of_eagle),
    "EAGLE with an embedding": (published.eagle(VOCAB, bias=False, embedding=True), published.logits_of_eagle),
    "EAGLE-3": (published.eagle3(VOCAB), published.logits_of_eagle3),
    "EAGLE-3, of some tokens": (published.eagle3(VOCAB, KEPT), published.logits_of_eagle3),
    "EAGLE-3, not in order": (published.eagle3(VOCAB, KEPT[::-1]), published.logits_of_eagle3),
    "EAGLE-3, all, not in order": (published.eagle3(VOCAB, (5, 0, 7, 1, 2, 6, 3, 4)), published.logits_of_eagle3),
    "EAGLE-3, all, in order": (published.eagle3(VOCAB, tuple(range(VOCAB))), published.logits_of_eagle3),
    "EAGLE-3, normed": (
        published.eagle3(VOCAB, norm_before_residual=True, norm_before_fc=True, norm_output=True),
        published.logits_of_eagle3,
    ),
    "EAGLE-3, each normed": (published.eagle3(VOCAB, fc_norm=True), published.logits_of_eagle3),
    "Medusa": (published.medusa(VOCAB), published.logits_of_medusa),
    "MLP": (published.mlp(VOCAB), published.logits_of_mlp),
    "MLP, tied": (published.mlp(VOCAB, tied=True, scaled=False), published.logits_of_mlp),
}


def target() -> Any:
    return tiny(VOCAB, layers=3)


def read(of: Published, beside: Any = None, dtype: torch.dtype = torch.float64) -> Any:
    return published.read(of, beside or target(), dtype)


@pytest.mark.parametrize("name", FORMATS)
def test_it_says_what_is_published(name: str) -> None:
    of, said = FORMATS[name]
    sampling = Sampling(LogitsProcessorList(), do_sample=True)
    model = read(of)
    drafter, _ = drafting(target(), model, [TEXT], Shape.paths(1, 3), sampling, torch.Generator().manual_seed(0))
    drafts = drafter.draft([TEXT], 3)
    drafted = drafts.trees[0].token[1:].tolist()
    moves = of.tensors.get("d2t")
    rows = list(range(VOCAB)) if moves is None else (moves + torch.arange(len(moves))).tolist()
    for level, found in enumerate(drafts.over(VOCAB).numpy()):
        wanted = np.zeros(VOCAB)
        wanted[rows] = law_from_logits("logits", said(of, target(), TEXT, drafted[:level]))
        np.testing.assert_allclose(found, wanted, atol=1e-6)  # norms and angles are in float32


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch has no oneDNN here")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["EAGLE", "EAGLE-3"])
def test_beside_a_packed_target_it_is_packed_if_it_is_of_its_type(
    monkeypatch: pytest.MonkeyPatch, name: str, dtype: torch.dtype
) -> None:
    monkeypatch.setattr(packed, "LARGE", 0)
    sampling, laws = Sampling(LogitsProcessorList(), do_sample=True), []
    for packs in (False, True):
        reader = copy.deepcopy(target()).float()
        if packs:
            pack(reader)
        model = read(FORMATS[name][0], reader, dtype)
        drafter, _ = drafting(reader, model, [TEXT], Shape.paths(1, 3), sampling, torch.Generator().manual_seed(0))
        laws.append(drafter.draft([TEXT], 3).over(VOCAB).numpy())
        assert isinstance(model.fc, PackedLinear) == (packs and dtype == torch.float32)
    np.testing.assert_allclose(laws[0], laws[1], atol=1e-5)


@pytest.mark.parametrize(
    ("of", "kind", "settings"),
    [
        (published.eagle(VOCAB), "eagle", {"fusion_bias": True}),
        (published.eagle3(VOCAB, KEPT), "eagle3", {"norm_before_residual": False}),
    ],
)
def test_speculators_hold_the_same(of: Published, kind: str, settings: dict[str, Any]) -> None:
    one, other = (read(folder).state_dict() for folder in (of, speculators(of, kind, **settings)))
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_heads_of_vllm_and_of_pickles_are_the_same(tmp_path: Path) -> None:
    of = published.medusa(VOCAB)
    renamed = {
        re.sub(r"^(\d)\.2\.", r"lm_heads.\1.", re.sub(r"^(\d)\.(\d)\.linear", r"blocks.\1.layers.\2", name)): one
        for name, one in of.tensors.items()
    }
    config = {"model_type": "medusa", "num_heads": 3, "num_hidden_layers": 2, "hidden_size": 16, "vocab_size": VOCAB}
    one = read(Published(config, renamed)).state_dict()
    (tmp_path / "medusa").mkdir()
    (tmp_path / "medusa" / "config.json").write_text(json.dumps(of.config))
    torch.save(of.tensors, tmp_path / "medusa" / "medusa_lm_head.pt")
    other = read_published(tmp_path / "medusa").state_dict()
    assert all(torch.equal(one[name], other[name].double()) for name in one)
    torch.save({**of.tensors, "code": Path}, tmp_path / "medusa" / "medusa_lm_head.pt")
    with pytest.raises(DataError, match=r"medusa_lm_head\.pt cannot be read as weights"):
        read_published(tmp_path / "medusa")


def test_layers_of_other_families_are_told_by_their_tensors(tmp_path: Path) -> None:
    of = published.eagle3(VOCAB, norm_before_residual=False)
    attention = "midlayer.self_attn"
    sizes = {"q": 16, "k": 8, "v": 8}
    biased = published.random(1, **{f"{attention}.{one}_proj.bias": (size,) for one, size in sizes.items()})
    model = read(Published({**of.config, "model_type": "qwen2"}, {**of.tensors, **biased}))
    assert type(model.model).__name__ == "Qwen2Model"
    biased |= published.random(1, **{f"{attention}.o_proj.bias": (16,)})
    model = read(Published({**of.config, "attention_dropout": 0}, {**of.tensors, **biased}))
    assert (type(model.model).__name__, model.config.attention_bias) == ("LlamaModel", True)
    normed = published.random(1, **{f"{attention}.{one}_norm.weight": (4,) for one in "qk"})
    model = read(Published({**of.config, "head_dim": 4}, {**of.tensors, **normed}))
    assert type(model.model).__name__ == "Qwen3Model"


EAGLE, EAGLE3, MEDUSA, MLP = (FORMATS[name][0] for name in ("EAGLE", "EAGLE-3, of some tokens", "Medusa", "MLP, tied"))
NAN = torch.full((16, 32), torch.nan)

REFUSED: dict[str, tuple[Published, str]] = {
    "a setting": (EAGLE.but(logit_scale=2.0), "a setting 'logit_scale'"),
    "a setting of another kind": (EAGLE.but(hidden_size="16"), "'hidden_size' is '16', and a int is wanted"),
    "a tensor": (EAGLE.but({"layers.0.input_layernorm.weight": torch.ones(16)}), "'layers.0.input_layernorm.weight'"),
    "a missing tensor": (EAGLE.but(less=("layers.0.mlp.up_proj.weight",)), "'model.layers.0.mlp.up_proj.weight'"),
    "a shape": (EAGLE.but(intermediate_size=32), "and by its settings it has (16, 32)"),
    "numbers": (EAGLE.but({"fc.weight": NAN}), "not finite"),
    "no heads": (EAGLE.but(num_attention_heads=0), "'num_attention_heads' is 0, and at least 1 is wanted"),
    "heads that do not divide": (EAGLE.but(num_key_value_heads=3), "4 heads do not go into 3 groups"),
    "an odd head": (EAGLE.but(head_dim=5), "RoPE requires an even rotary dimension"),
    "an activation": (EAGLE.but(hidden_act="sillu"), "'hidden_act' is 'sillu', an activation that is not known"),
    "an angle": (EAGLE.but(rope_scaling={"rope_type": "helix"}), "its rope_type is 'helix', which is not known"),
    "an angle of old": (EAGLE.but(rope_scaling={"type": "helix"}), "its rope_type is 'helix', which is not known"),
    "an angle that is a list": (EAGLE.but(rope_scaling={"rope_type": ["yarn"]}), "its rope_type is ['yarn'], which"),
    "an angle that is none": (EAGLE.but(rope_scaling=8.0), "'rope_scaling' is 8.0, and a dict is wanted"),
    "factors": (EAGLE.but(rope_scaling={"rope_type": "llama3", "factor": 8.0}), "there is no 'low_freq_factor'"),
    "a factor": (EAGLE.but(rope_scaling={"rope_type": "linear", "factor": "8"}), "is '8', no number above 0"),
    "two angles": (EAGLE.but(rope_theta=1e4, rope_parameters={"rope_theta": 5e5}), "in 'rope_parameters' it is 500000"),
    "a layer": (EAGLE3.but(eagle_aux_hidden_state_layer_ids=["0", 1, 2]), "is ['0', 1, 2], and numbers of layers"),
    "a window": (EAGLE.but(layer_types=["sliding_attention"]), "a window of tokens"),
    "a map": (EAGLE3.but({"d2t": torch.zeros(4, dtype=torch.int64)}), "'d2t' and 't2d'"),
    "a map twice": (EAGLE3.but({"d2t": -torch.arange(4)}), "does not name 4 different tokens of 8"),
    "no map": (EAGLE3.but(less=("t2d",)), "no 't2d'"),
    "one state": (EAGLE3.but(eagle_config={"use_aux_hidden_state": False}), "'use_aux_hidden_state'"),
    "a silent default": (speculators(EAGLE3, "eagle3"), "no 'norm_before_residual'"),
    "norms of speculators": (speculators(EAGLE, "eagle", layernorms=True), "'layernorms'"),
    "speculators": (speculators(EAGLE3, "eagle3", speculators_model_type="peagle"), "'peagle'"),
    "DFlash": (EAGLE.but(architectures=["DFlashDraftModel"], dflash_config={}), "DFlash"),
    "a wrapper": (EAGLE.but(model_type="eagle"), "'eagle'"),
    "heads": (MEDUSA.but(medusa_num_heads=5), "has 5 heads, and there are tensors of 3"),
    "heads of few tokens": (MEDUSA.but({"token_map": torch.arange(4)}), "'token_map'"),
    "some biases": (MEDUSA.but(less=("0.1.linear.bias",)), "'each.0.blocks.1.bias'"),
    "stages": (MLP.but({"speculator.ln.2.bias": torch.zeros(12)}), "'tie_weights' is on, and 'speculator.ln.2.bias'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_known_is_refused_by_name(tmp_path: Path, name: str) -> None:
    of, said = REFUSED[name]
    with pytest.raises(DataError, match=re.escape(said)):
        read_published(of.into(tmp_path))


def test_broken_files_are_named(tmp_path: Path) -> None:
    EAGLE.into(tmp_path)
    for name, said in (("model.safetensors", "cannot be read as weights"), ("config.json", "cannot be read")):
        (tmp_path / name).write_text("{")
        with pytest.raises(DataError, match=f"{name} {said}"):
            read_published(tmp_path)


@pytest.mark.parametrize("form", ["eagle", "speculators"])
@pytest.mark.parametrize("name", ["EAGLE", "EAGLE-3, not in order", "EAGLE-3, normed"])
def test_written_and_read_it_says_the_same(tmp_path: Path, name: str, form: str) -> None:
    model = read(FORMATS[name][0])
    target().save_pretrained(tmp_path / "target")
    if (name, form) == ("EAGLE", "speculators"):
        with pytest.raises(ProblemError, match="no first version of EAGLE"):
            write_published(model, tmp_path, form, str(tmp_path / "target"))
        return
    write_published(model, tmp_path / "written", form, str(tmp_path / "target"))
    again = read_published(tmp_path / "written")
    pair_up(target(), again, None, None)
    tokens = torch.tensor([[1, 2, 3]])
    added = torch.ones(1, 3, 16, dtype=torch.float64)
    assert torch.equal(again(tokens, added=added).logits, model(tokens, added=added).logits)
    assert {**again.config.to_dict(), "dtype": None} == {**model.config.to_dict(), "dtype": None}
    if form == "speculators":
        config = json.loads((tmp_path / "written" / "config.json").read_text())
        verifier = {"name_or_path": str(tmp_path / "target"), "architectures": ["LlamaForCausalLM"]}
        assert config["speculators_config"]["verifier"] == verifier
    else:
        names = FORMATS[name][0].tensors.keys()
        assert {one.replace("midlayer.", "layers.0.") for one in names} == set(
            load_file(tmp_path / "written" / "model.safetensors")
        )


SCALED = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
SCALED |= {"original_max_position_embeddings": 32}


@pytest.mark.parametrize(
    ("settings", "scaled"),
    [
        ({"rope_theta": 500.0}, None),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}}, None),
        ({"rope_theta": 500.0, "rope_scaling": SCALED}, SCALED),
        ({"rope_theta": 500.0, "rope_scaling": SCALED, "rope_parameters": {**SCALED, "rope_theta": 500.0}}, SCALED),
        ({"rope_scaling": SCALED, "rope_parameters": {"rope_theta": 500.0}}, SCALED),
    ],
)
def test_angles_are_read_and_written_by_old_keys_and_new(
    tmp_path: Path, settings: dict[str, Any], scaled: dict[str, Any] | None
) -> None:
    model = read_published(EAGLE.but(**settings).into(tmp_path / "published"))
    wanted = {"rope_type": "default", **(scaled or {}), "rope_theta": 500.0}
    assert model.config.rope_parameters == wanted
    write_published(model, tmp_path / "written", "eagle")
    config = json.loads((tmp_path / "written" / "config.json").read_text())
    assert (config["rope_theta"], config.get("rope_scaling")) == (500.0, scaled)
    assert config["rope_parameters"] == wanted
    assert read_published(tmp_path / "written").config.to_dict() == model.config.to_dict()


@pytest.mark.parametrize("layers", [1, 2])
def test_a_target_of_few_layers_is_told_what_it_can_train(layers: int) -> None:
    of = tiny(VOCAB, layers=layers)
    with pytest.raises(ProblemError, match=f"this one has {layers}; train eagle1, .* or shared"):
        KINDS["eagle3"].layers(of)
    for name in ("eagle1", "shared"):  # what is said can be followed
        KINDS[name].begin(DraftModelInit(of, None, KINDS[name].ahead or 1))


# --- folders that transformers and engines read, by `otspec.decode.pair.save`


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(saved_pair(tmp_path_factory.mktemp("pair"))[0])


def test_models_that_do_not_go_together_are_refused(saved: str, tmp_path: Path) -> None:
    layer, anywhere, heads = read(EAGLE3), EAGLE3.but(eagle_aux_hidden_state_layer_ids=None), read(MEDUSA)
    model, out = read_published(anywhere.into(tmp_path / "layer")).double(), tmp_path / "out"
    check_refused(
        [
            (lambda: model.borrow(target()), r"after 2, 1, 0 layers.* has 3"),
            (lambda: check_features((0, 1, 3), target()), r"after 0, 1, 3 layers.* has 3"),
            (lambda: model.borrow(tiny(5, layers=3)), "vocabularies of size 8, and the target's is 5"),
            (lambda: write_published(heads, out, "eagle"), "^MedusaHeads cannot be written as eagle"),
            (lambda: write_published(shared(tiny(VOCAB)), out, "eagle"), "EagleLlamaForCausalLM cannot be written"),
            (lambda: write_published(layer, out, "speculators"), "pass target="),
            (lambda: load_reader(str(tmp_path / "layer"), "cpu"), "layers that read a target's hidden states"),
            (lambda: assisted(target(), layer, torch.tensor([TEXT])), "transformers knows no EagleLlamaForCausalLM"),
            (lambda: pair.save(saved, out, ahead=2), "pass form as well"),
            (lambda: pair.save(saved, out, target=saved), "pass form as well"),
            (lambda: pair.save(saved, out, form="gguf"), "no format 'gguf'; known: eagle, speculators"),
            (lambda: pair.save(saved, out, form="eagle"), "cannot be written as eagle"),
        ]
    )
    with pytest.raises(DataError, match=r"config.json cannot be read in nowhere"):
        write_published(layer, out, "speculators", "nowhere")
    assert not out.exists()
    model.borrow(tiny(VOCAB, layers=8))
    assert model.config.features == [2, 4, 5]


def test_a_model_becomes_a_folder(saved: str, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    pair.save(saved, folder, dtype="bfloat16")
    (written, *_), (read_, *_) = (load_models(name, None, "cpu", "bfloat16") for name in (saved, str(folder)))
    assert read_.dtype == torch.bfloat16
    for name, weights in written.state_dict().items():
        assert torch.equal(weights, read_.state_dict()[name]), name
    about = json.loads((folder / "config.json").read_text())
    assert about["rope_theta"] == about["rope_parameters"]["rope_theta"] == written.config.rope_parameters["rope_theta"]
    assert read_.config.rope_parameters == written.config.rope_parameters
    with pytest.raises(DataError, match="out is there already; delete it, or name another folder"):
        pair.save(saved, folder)


def test_a_published_layer_becomes_what_engines_read(saved: str, tmp_path: Path) -> None:
    layer = published.eagle3(300, (0, 5, 299), (0, 1)).into(tmp_path / "layer")
    pair.save(str(layer), tmp_path / "served", form="speculators", target=saved, ahead=2)
    about = json.loads((tmp_path / "served" / "config.json").read_text())["speculators_config"]
    assert about["proposal_methods"][0]["speculative_tokens"] == 2
    draft, _ = load_draft(str(tmp_path / "served"))
    models = load_models(saved, None, "cpu")
    text = otspec.generate(models.target, draft, torch.tensor([[1, 2, 3]]), max_new_tokens=4)
    assert text.metrics.tokens == 4
    with pytest.raises(DataError, match="served holds layers that draft for another model"):
        load_models(str(tmp_path / "served"), None, "cpu")
