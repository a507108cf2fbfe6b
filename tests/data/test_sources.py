"""What comes with the package: recorded profiles, which need no torch, and recorded trees by name."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

import otspec
from otspec import DataError, optimum
from otspec.data import PROFILES, RECORDED, ProfileSource, TopSource, open_source, open_trees
from otspec.data.formats import safetensors_about
from otspec.data.sources import TREES
from tests.data.tree_files import drawn_trees, write_trees

SHIPPED = Path(otspec.__file__).parent / "decode" / "shipped"


@pytest.mark.parametrize(
    ("name", "count", "vocab", "bytes_", "file"),
    [("shipped", 256, 2048, 2.5e6, "shipped.npz"), ("smollm2", 1024, 49_152, 4e6, "smollm2.safetensors")],
)
def test_recorded_profiles_are_of_the_stated_size(name: str, count: int, vocab: int, bytes_: float, file: str) -> None:
    source = open_source(name)
    assert (source.name, len(source), source.vocab) == (name, count, vocab)
    assert RECORDED[name].stat().st_size < bytes_
    assert source.identity["file"] == file
    sent = pickle.dumps(source)  # as its name
    assert len(sent) < 600
    assert pickle.loads(sent).identity == source.identity
    other = open_source(name, 1)  # a seed changes nothing that is recorded
    assert source.identity == other.identity
    np.testing.assert_array_equal(source.position(3).draft_logits, other.position(3).draft_logits)


def test_the_header_says_what_was_recorded() -> None:
    source = open_source("smollm2")
    about = source.about  # type: ignore[attr-defined]
    assert about["target"] == ["smollm2", json.loads((SHIPPED / "smollm2/eagle/config.json").read_text())["target"]]
    assert (about["top_k"], about["rest_at"]) == (256, [1.0, 0.6])
    some = [optimum(source.position(index).problem(1, top_k=256)).acceptance for index in range(64)]
    assert np.mean(some) == pytest.approx(about["acceptance"], abs=0.1)  # of all


def test_what_is_sent_to_another_process_does_not_grow_with_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    logits = np.random.default_rng(0).normal(size=(2, 50, 400))
    np.savez("p.npz", big=logits[0], small=logits[1])
    source = open_source("p.npz", target_key="big", draft_key="small", kind="logits")
    sent, identity = pickle.dumps(source), source.identity
    assert len(sent) < 600
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    back = pickle.loads(sent)
    assert (back.name, back.identity) == (source.name, identity)
    np.testing.assert_array_equal(back.position(7).target_logits, logits[0, 7])
    np.savez("../p.npz", big=logits[0, :9], small=logits[1, :9])
    with pytest.raises(DataError, match=r"p\.npz is not a file of .* bytes here, as where the run began"):
        pickle.loads(sent)


def test_recorded_trees_of_the_package_are_small_and_whole() -> None:
    assert sum(path.stat().st_size for path in TREES.values()) < 1e6
    for name, vocab in (("shipped", 2048), ("smollm2", 49_152)):
        (trees,) = open_trees(name).values()
        assert (trees.name, trees.vocab, trees.paths, trees.depth) == (name, vocab, 4, 4)
        assert (trees.about["schema"], trees.about["target"][0], trees.about["dtype"]) == (1, name, "float32")
        for index in (0, len(trees) - 1):
            assert trees.tree(index).paths.shape == (4, 4)


def test_a_folder_is_its_files_of_trees(tmp_path: Path) -> None:
    write_trees(tmp_path / "r.safetensors", drawn_trees(3))
    write_trees(tmp_path / "s.safetensors", drawn_trees(1, depth=3))
    np.savez(tmp_path / "t.npz", target_logits=np.zeros((1, 2)), draft_logits=np.zeros((1, 2)))
    found = open_trees(str(tmp_path))
    assert {Path(path).name: (one.name, len(one), one.depth) for path, one in found.items()} == {
        "r.safetensors": ("r.safetensors", 3, 2),
        "s.safetensors": ("s.safetensors", 1, 3),
    }


def test_what_is_of_another_schema_is_refused(tmp_path: Path) -> None:
    path = write_trees(tmp_path / "t.safetensors", drawn_trees(1), about={"schema": 2})
    for inputs in (path, tmp_path):
        with pytest.raises(DataError, match=r"t\.safetensors is of schema 2, and this otspec reads 1; make it anew"):
            open_trees(str(inputs))
    tensors, now = pytest.importorskip("safetensors.numpy"), RECORDED["smollm2"]
    before_versions = {name: value for name, value in safetensors_about(now).items() if name != "schema"}
    old = tmp_path / "old.safetensors"
    tensors.save_file(tensors.load_file(now), old, {"otspec": json.dumps(before_versions)})
    assert TopSource(old).about["schema"] == 1
    tensors.save_file(tensors.load_file(now), old, {"otspec": json.dumps(before_versions | {"rest_at": [1.0]})})
    with pytest.raises(DataError, match=r"damaged \(.*target_rest is F64 of shape \(1024, 2\), not floats"):
        TopSource(old)


# --- profiles of random logits, calibrated on real pairs


def test_a_position_depends_on_seed_and_index_alone() -> None:
    first, again, other = (open_source("llama3", seed) for seed in (3, 3, 4))
    first.position(0)
    np.testing.assert_array_equal(first.position(5).target_logits, again.position(5).target_logits)
    np.testing.assert_array_equal(first.position(5).draft_logits, again.position(5).draft_logits)
    assert not np.array_equal(first.position(5).target_logits, other.position(5).target_logits)
    assert not np.array_equal(first.position(5).target_logits, first.position(6).target_logits)
    assert first.identity == again.identity
    assert len({str(one.identity) for one in (first, other, open_source("gemma2", 3))}) == 3
    for index in (-1, 1 << 14):
        with pytest.raises(DataError, match="indices run from 0 to 16383"):
            first.position(index)


@pytest.mark.parametrize("name", PROFILES)
def test_scales_have_the_medians_of_the_profile_and_stay_in_range(name: str) -> None:
    profile = PROFILES[name]
    scales = ProfileSource(profile)._scales
    # 2**14 Sobol points: the median is off by far less than the 1 % allowed.
    medians = (profile.scale_median, profile.noise_median, profile.plateau_median)
    np.testing.assert_allclose(np.median(scales, axis=0), medians, rtol=0.01)
    for column, (low, high) in zip(scales[:, :2].T, (profile.scale_range, profile.noise_range), strict=True):
        assert low <= column.min() < column.max() <= high


def test_acceptance_rises_with_k_and_with_n_as_calibrated() -> None:
    source = open_source("llama3")
    settings = ((10, 1), (10, 2), (100, 2), (1000, 4))
    acceptance = [
        [optimum(source.position(index).problem(n, top_k=k).compact().problem).acceptance for k, n in settings]
        for index in range(40)
    ]
    means = np.mean(acceptance, axis=0)
    assert (np.diff(means) > 0).all()
    # Means over thousands of positions are .774, .822, .886 and .938; 40 have a standard error of about .03.
    np.testing.assert_allclose(means, (0.774, 0.822, 0.886, 0.938), atol=0.06)
