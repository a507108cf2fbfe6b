"""What comes with the package for its pair and for SmolLM2: files, tokenizers, shortlists, drafters, and their text."""

import json
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

import otspec
from otspec import DataError
from otspec.decode import shipped
from otspec.decode.drafters.eagle.model import Eagle
from otspec.decode.methods.assisted import plain
from otspec.decode.methods.drafting import DrafterRequest, drafting
from otspec.decode.methods.dynamic_tree import DynamicTree
from otspec.decode.models.fingerprint import fingerprint
from otspec.decode.pair.gguf import MODULE, SMOLLM2
from otspec.decode.pair.loading import Models, encode, load_models
from otspec.decode.shipped import EAGLE, FOLDER, FOREIGN, TRAINING
from otspec.decode.step.harness import run
from tests.each import each

RECORD, OF_EAGLE, OF_FOREIGN = (json.loads((FOLDER / place / TRAINING).read_text()) for place in ("", EAGLE, FOREIGN))


@pytest.fixture(scope="module")
def pair() -> shipped.Pair:
    return shipped.load()


def test_files_are_small_and_what_their_records_say(pair: shipped.Pair) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    assert sum(file.stat().st_size for file in FOLDER.rglob("*") if file.is_file()) < 36e6
    for record, place in ((RECORD["target"], "target"), (RECORD["draft"], "draft"), (OF_FOREIGN["model"], FOREIGN)):
        assert (FOLDER / place / "model.safetensors").stat().st_size == record["bytes"]
    for place in ("target", "draft"):
        tensors = safetensors.load_file(FOLDER / place / "model.safetensors").values()
        assert all(tensor.dtype == torch.float16 and tensor.isfinite().all() for tensor in tensors)
    assert (pair.draft.dtype, shipped.load(torch.float16).draft.dtype) == (torch.float32, torch.float16)
    assert sum(value.numel() for value in shipped.eagle().parameters()) == OF_EAGLE["parameters"]
    assert OF_EAGLE["kind"] == "eagle"
    assert [OF_EAGLE["target"][1], OF_EAGLE["draft"][1]] == [fingerprint(pair.target), fingerprint(pair.draft)]
    draft, tokenizer, affinity = shipped.foreign()
    assert sum(value.numel() for value in draft.parameters()) == OF_FOREIGN["model"]["parameters"]
    assert OF_FOREIGN["vocab"] == len(tokenizer) == draft.config.vocab_size == 1024
    assert OF_FOREIGN["recipe"]["context"] == draft.config.max_position_embeddings == tokenizer.model_max_length
    assert OF_FOREIGN["corpus"]["sha256"] == RECORD["corpus"]["sha256"]
    assert affinity.vocab == RECORD["vocab"]


# --- the EAGLE-style draft model


def test_more_of_its_drafts_are_accepted() -> None:
    models = load_models("shipped", "shipped")
    by_name = drafting("eagle", DrafterRequest(models, "shipped", "shipped"))
    settings: dict[str, Any] = {"paths": 1, "depth": 5, "solver": "block", "temperature": 0, "max_new_tokens": 32}
    texts, made = [], []
    for draft in (models.draft, by_name.models.draft):
        prompts = map(torch.tensor, shipped.held_out(64)[:2])
        found = [otspec.generate(models.target, draft, prompt[None], seed=0, **settings) for prompt in prompts]
        texts.append([one.new_tokens for one in found])
        made.append(sum(one.metrics.block_efficiency for one in found))
    assert texts[0] == texts[1]
    assert made[1] > 1.15 * made[0]


def test_its_head_is_shortened_by_what_stands_behind_it() -> None:
    models, text = load_models("shipped", "shipped"), torch.tensor(shipped.held_out(64)[:1])
    found = {}
    for name in ("eagle", "eagle+fr:512", "eagle+dynaspec-f:8", "eagle+dynaspec:8"):
        made = drafting(name, DrafterRequest(models, "shipped", "shipped"))
        assert made.options["drafter"] == name
        assert fingerprint(made.models.draft) == fingerprint(shipped.eagle())
        tree = DynamicTree(made.models.draft, paths=4, depth=6, **made.settings)
        found[name] = run(models.target, tree, text, temperature=0, max_new_tokens=24)
        if (router := made.settings.get("draft_shortlist")) is not None:
            assert [router.budget.at(depth) for depth in (0, 3)] == ([8, 8] if "-f" in name else [8, 4])
    assert len({str(one.new_tokens) for one in found.values()}) == 1
    steps = {name: one.metrics.sequence_steps for name, one in found.items()}
    assert len(set(steps.values())) > 1, steps  # drafts are others
    with pytest.raises(DataError, match="no router for parallel; pass --router FILE"):
        drafting("dynaspec", DrafterRequest(models, "shipped", "parallel"))


# --- SmolLM2

KINDS = ("eagle", "parallel")
QUESTION = (
    "<|im_start|>user\nWrite three sentences about the sea and the ships on it.<|im_end|>\n<|im_start|>assistant\n"
)

needs_it = pytest.mark.skipif(
    find_spec(MODULE) is None, reason=f"{MODULE} is not installed; .ci/run brings it, 92 MB, and runs these tests"
)


@cache
def smollm2() -> Models:
    return load_models(SMOLLM2, None)


@each(kind=KINDS)
def test_a_drafter_is_found_by_the_weights_of_its_target(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = load_models("shipped", None)
    made = Eagle.of_target(models.target, "shared", [12, 24], masks=2 if kind == "parallel" else 0)
    made.save_pretrained(tmp_path / "mine" / kind)
    monkeypatch.setattr(shipped, "FOLDER", tmp_path)
    found = drafting(kind, DrafterRequest(models, "mine", ""))
    assert found.options == {"drafter": kind}
    assert isinstance(found.models.draft, Eagle)
    assert torch.equal(found.models.draft.seen.weight, made.seen.weight)
    by_name = load_models("shipped", kind).draft
    assert torch.equal(by_name.seen.weight, made.seen.weight)  # type: ignore[union-attr]
    monkeypatch.chdir(tmp_path)
    Path(kind).mkdir()
    with pytest.raises(DataError, match=f"the draft '{kind}' cannot be loaded"):
        load_models("shipped", kind)  # what is called so here comes first
    other = models._replace(target=shipped.load().draft)
    with pytest.raises(DataError, match=rf"no draft model '{kind}' of this target comes with the package"):
        drafting(kind, DrafterRequest(other, "mine", ""))


@needs_it
@each(kind=KINDS)
def test_its_greedy_text_comes_in_fewer_passes(kind: str) -> None:
    models = drafting(kind, DrafterRequest(smollm2(), SMOLLM2, "")).models
    prompt = torch.tensor(encode(models.tokenizer, [QUESTION], special=False))
    settings: dict[str, Any] = {"max_new_tokens": 20, "temperature": 0, "seed": 0}
    found = otspec.generate(models.target, models.draft, prompt, paths=1, depth=3, **settings)
    assert found.sequences.tolist() == plain(models.target, prompt, **settings).sequences.tolist()
    assert found.metrics.block_efficiency > {"eagle": 1.4, "parallel": 1.2}[kind]
