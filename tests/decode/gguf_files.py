"""Write a Llama of transformers as a GGUF file, as llama.cpp reads it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from otspec.extras import require
from otspec.laws import FloatArray


def interleaved(weight: FloatArray, heads: int) -> FloatArray:
    """Rows of queries or keys, shape (heads * size, width), in llama.cpp's order.

    Both turn pairs of coordinates of a head by the position.  transformers pairs a coordinate of the first half with
    one of the second, llama.cpp neighbours.
    """
    halves = weight.reshape(heads, 2, -1, weight.shape[1])
    return halves.swapaxes(1, 2).reshape(weight.shape)


def write_gguf(folder: Path, file: Path, pre: str = "gpt-2") -> None:
    """A Llama of transformers with a byte-pair tokenizer as a GGUF file, its matrices in float16."""
    gguf: Any = require("gguf")
    config, tokenizer = (json.loads((folder / name).read_text()) for name in ("config.json", "tokenizer.json"))
    writer = gguf.GGUFWriter(str(file), "llama")
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
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)

    tokens = sorted(tokenizer["model"]["vocab"], key=tokenizer["model"]["vocab"].get)
    special = {token["id"] for token in tokenizer["added_tokens"]}
    kinds = [gguf.TokenType.CONTROL if token in special else gguf.TokenType.NORMAL for token in range(len(tokens))]
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
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config["num_hidden_layers"])
    for name, weight in load_file(folder / "model.safetensors").items():
        inside = name.removesuffix(".weight").rpartition(".")[2]
        ordered = interleaved(weight, heads[inside]) if inside in heads else weight
        kind = np.float32 if weight.ndim == 1 else np.float16
        writer.add_tensor(names.get_name(name, (".weight",)), np.ascontiguousarray(ordered, dtype=kind))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
