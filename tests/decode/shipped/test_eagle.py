"""The EAGLE-style draft model of the package."""

import json

import pytest

torch = pytest.importorskip("torch")
import otspec  # noqa: E402
from otspec.decode.methods.drafting import DrafterRequest, drafting  # noqa: E402
from otspec.decode.methods.dynamic_tree import DynamicTree  # noqa: E402
from otspec.decode.models.fingerprint import fingerprint  # noqa: E402
from otspec.decode.pair.loading import load_models  # noqa: E402
from otspec.decode.shipped import EAGLE, FOLDER, TRAINING, eagle, held_out, load  # noqa: E402
from otspec.decode.step.harness import run  # noqa: E402
from otspec.errors import DataError  # noqa: E402

PLACE = FOLDER / EAGLE


def test_it_is_small_and_was_trained_on_this_pair() -> None:
    pair, record = load(), json.loads((PLACE / TRAINING).read_text())
    assert sum(file.stat().st_size for file in PLACE.iterdir()) <= 2.3e6
    assert sum(value.numel() for value in eagle().parameters()) == record["parameters"]
    assert record["kind"] == "eagle"
    assert [record["target"][1], record["draft"][1]] == [fingerprint(pair.target), fingerprint(pair.draft)]


def test_more_of_its_drafts_are_accepted() -> None:
    models = load_models("shipped", "shipped")
    by_name = drafting("eagle", DrafterRequest(models, "shipped", "shipped"))
    texts, made = {}, {}
    for name, draft in (("as it is", models.draft), (EAGLE, by_name.models.draft)):
        found = [
            otspec.generate(
                models.target, draft, torch.tensor([prompt]), paths=1, depth=5, solver="block", temperature=0,
                max_new_tokens=48, seed=0,
            )
            for prompt in held_out(64)[:3]
        ]  # fmt: skip
        texts[name] = [one.sequences.tolist() for one in found]
        made[name] = sum(one.metrics.block_efficiency for one in found)
    assert texts[EAGLE] == texts["as it is"]
    assert made[EAGLE] > 1.15 * made["as it is"]


def test_its_head_is_shortened_by_what_stands_behind_it() -> None:
    models, text = load_models("shipped", "shipped"), torch.tensor(held_out(64)[:1])
    found = {}
    for name in ("eagle", "eagle+fr:512", "eagle+dynaspec-f:8", "eagle+dynaspec:8"):
        made = drafting(name, DrafterRequest(models, "shipped", "shipped"))
        assert made.spelled["drafter"] == name
        assert fingerprint(made.models.draft) == fingerprint(eagle())
        tree = DynamicTree(made.models.draft, paths=4, depth=6, **made.settings)
        found[name] = run(models.target, tree, text, temperature=0, max_new_tokens=24)
        if (router := made.settings.get("draft_shortlist")) is not None:
            assert [router.budget.at(depth) for depth in (0, 3)] == ([8, 8] if "-f" in name else [8, 4])
    assert len({str(one.new_tokens) for one in found.values()}) == 1
    steps = {name: one.metrics.sequence_steps for name, one in found.items()}
    assert len(set(steps.values())) > 1, steps  # drafts are others
    with pytest.raises(DataError, match="no router for parallel; pass --router FILE"):
        drafting("dynaspec", DrafterRequest(models, "shipped", "parallel"))


def test_it_is_found_by_the_target_that_it_heard() -> None:
    models = load_models("shipped", "eagle", "cpu")
    assert models.draft is not None
    for found, own in zip(models.draft.parameters(), eagle().parameters(), strict=True):
        assert torch.equal(found, own)
    other = models._replace(target=load().draft)
    with pytest.raises(DataError, match=r"no draft model 'eagle' of this target comes .*; `otspec train shared` "):
        drafting("eagle", DrafterRequest(other, "my-model", "shipped"))
    with pytest.raises(DataError, match="no draft model 'parallel' of this target comes with the package"):
        load_models("shipped", "parallel", "cpu")
