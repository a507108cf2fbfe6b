"""Draft models in published formats, of random weights: folders, and what they say by plain tensors from the papers.

Names and shapes are those of the formats' own code; what is said here is computed by none of the package's.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import save_file

from otspec.decode.drafters.published.formats import read_published
from otspec.decode.models.pairing import pair_up
from tests.oracles import Floats

EPS = 1e-5


class Published(NamedTuple):
    """What a folder holds."""

    config: dict[str, Any]
    tensors: dict[str, Any]

    def into(self, folder: Path) -> Path:
        """Write it."""
        folder.mkdir(parents=True, exist_ok=True)
        save_file({name: tensor.contiguous() for name, tensor in self.tensors.items()}, folder / "model.safetensors")
        (folder / "config.json").write_text(json.dumps(self.config))
        return folder

    def but(self, tensors: Mapping[str, Any] | None = None, less: tuple[str, ...] = (), **config: Any) -> Published:
        """The same with other tensors and settings, and less some; None takes a setting away."""
        kept = {name: one for name, one in {**self.tensors, **(tensors or {})}.items() if name not in less}
        return Published({name: one for name, one in {**self.config, **config}.items() if one is not None}, kept)


def read(of: Published, target: Any, dtype: torch.dtype = torch.float64) -> Any:
    """The draft model of a folder, paired up with a target."""
    with tempfile.TemporaryDirectory() as folder:
        model = read_published(of.into(Path(folder))).to(dtype)
    pair_up(target, model, None, None)
    return model


def random(seed: int, **shapes: tuple[int, ...]) -> dict[str, Any]:
    """Tensors of normal numbers, in float64; those of one dimension are near 1, as the weights of norms are."""
    generator = torch.Generator().manual_seed(seed)
    return {
        name: (0.4 if len(shape) > 1 else 0.2) * torch.randn(shape, generator=generator, dtype=torch.float64)
        + (len(shape) == 1)
        for name, shape in shapes.items()
    }


def llama(vocab: int, width: int = 16, inner: int = 24, heads: int = 4, groups: int = 2, **more: Any) -> dict[str, Any]:
    """A config.json as EAGLE's are."""
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": width,
        "intermediate_size": inner, "num_attention_heads": heads, "num_key_value_heads": groups,
        "num_hidden_layers": 1, "rms_norm_eps": EPS, "vocab_size": vocab, "max_position_embeddings": 64,
        "tie_word_embeddings": False, "torch_dtype": "float64", "pad_token_id": 0, "initializer_range": 0.02, **more,
    }  # fmt: skip


def layer(prefix: str, config: Mapping[str, Any], times: int = 1, norms: tuple[str, ...] = ()) -> dict[str, Any]:
    """Shapes of a layer's tensors."""
    width, inner = config["hidden_size"], config["intermediate_size"]
    groups = width // config["num_attention_heads"] * config["num_key_value_heads"]
    linear = {"q": (width, times * width), "k": (groups, times * width), "v": (groups, times * width)}
    return {
        **{f"{prefix}.self_attn.{one}_proj.weight": shape for one, shape in {**linear, "o": (width, width)}.items()},
        **{f"{prefix}.mlp.{one}_proj.weight": (inner, width) for one in ("gate", "up")},
        f"{prefix}.mlp.down_proj.weight": (width, inner),
        **{f"{prefix}.{norm}.weight": (width,) for norm in (*norms, "post_attention_layernorm")},
    }


def eagle(vocab: int, bias: bool = True, embedding: bool = False) -> Published:
    """SafeAILab's EAGLE."""
    config = llama(vocab, bias=bias)
    shapes = {"fc.weight": (16, 32), **({"fc.bias": (16,)} if bias else {}), **layer("layers.0", config)}
    shapes |= {"embed_tokens.weight": (vocab, 16)} if embedding else {}
    return Published(config, random(0, **shapes))


def eagle3(vocab: int, kept: tuple[int, ...] = (), layers: tuple[int, ...] = (0, 1, 2), **settings: Any) -> Published:
    """SafeAILab's EAGLE-3, which looks at a target after these layers; of all tokens, or of some."""
    config = llama(vocab, draft_vocab_size=len(kept) or vocab, **settings)
    config["eagle_aux_hidden_state_layer_ids"] = list(layers)
    wide = 16 * len(layers)
    norms = ("hidden_norm", "input_layernorm")
    shapes = {"fc.weight": (16, wide), "norm.weight": (16,), "lm_head.weight": (len(kept) or vocab, 16)}
    shapes |= {"input_norm.weight": (wide,)} if settings.get("norm_before_fc") else {}
    shapes |= {f"fc_norm.{one}.weight": (16,) for one in range(len(layers))} if settings.get("fc_norm") else {}
    tensors = random(0, **shapes, **layer("midlayer", config, 2, norms))
    if kept:
        tokens = torch.tensor(kept)
        tensors["d2t"], tensors["t2d"] = tokens - torch.arange(len(kept)), torch.zeros(vocab, dtype=torch.bool)
        tensors["t2d"][tokens] = True
    return Published(config, tensors)


def speculators(of: Published, kind: str, **settings: Any) -> Published:
    """The same as speculators write it."""
    layers = {"eagle": "transformer.", "eagle3": "layers.0."}[kind]
    renamed = {"layers.0.": layers, "midlayer.": layers} | ({"fc.": "fusion_fc."} if kind == "eagle" else {})
    tensors = {}
    for name, tensor in of.tensors.items():
        start = next((old for old in renamed if name.startswith(old)), "")
        tensors[renamed.get(start, "") + name.removeprefix(start)] = tensor
    own = ("draft_vocab_size", "eagle_aux_hidden_state_layer_ids")
    inner = {name: value for name, value in of.config.items() if name not in (*own, "bias")}
    proposal = {"proposal_type": "greedy", "speculative_tokens": 3}
    config = {
        "architectures": ["Eagle3Speculator"], "speculators_model_type": kind, "speculators_version": "0.5.0",
        "transformer_layer_config": inner, **{name: of.config[name] for name in own if name in of.config},
        "speculators_config": {
            "algorithm": kind, "proposal_methods": [proposal], "default_proposal_method": "greedy",
            "verifier": {"name_or_path": "target", "architectures": ["LlamaForCausalLM"]},
        },
        **settings,
    }  # fmt: skip
    return Published(config, tensors)


def medusa(vocab: int) -> Published:
    """FasterDecoding's Medusa: three heads of two blocks."""
    shapes: dict[str, tuple[int, ...]] = {}
    for head in range(3):
        for block in range(2):
            shapes |= {f"{head}.{block}.linear.weight": (16, 16), f"{head}.{block}.linear.bias": (16,)}
        shapes[f"{head}.2.weight"] = (vocab, 16)
    config = {"medusa_num_heads": 2, "medusa_num_layers": 2, "base_model_name_or_path": "target"}
    return Published(config, random(0, **shapes))


def mlp(vocab: int, stages: int = 3, inner: int = 12, tied: bool = False, scaled: bool = True) -> Published:
    """IBM's MLP speculator."""
    shapes: dict[str, tuple[int, ...]] = {}
    for stage in range(stages):
        shapes |= {
            f"speculator.emb.{stage}.weight": (vocab, inner),
            f"speculator.proj.{stage}.weight": (inner, inner if stage else 16),
            f"speculator.head.{stage}.weight": (vocab, inner),
            f"speculator.ln.{stage}.weight": (inner,),
            f"speculator.ln.{stage}.bias": (inner,),
        }
    tensors = random(0, **shapes)
    if tied:
        for name in tensors:
            *_, part, number, kind = name.split(".")
            tensors[name] = tensors[f"speculator.{part}.{min(int(number), int(part == 'proj'))}.{kind}"].clone()
    config = {
        "architectures": ["MLPSpeculatorPreTrainedModel"], "model_type": "mlp_speculator", "emb_dim": 16,
        "inner_dim": inner, "n_predict": stages, "n_candidates": 5, "top_k_tokens_per_head": [5, 4, 3],
        "vocab_size": vocab, "scale_input": scaled, "tie_weights": tied, "torch_dtype": "float16",
        "transformers_version": "4.38.2",
    }  # fmt: skip
    return Published(config, tensors)


# --- what they say


def normed(x: Any, weight: Any = 1.0) -> Any:
    """By root mean square, as Llamas do it: in single precision."""
    single = x.float()
    return weight * (single * torch.rsqrt((single * single).mean(-1, keepdim=True) + EPS)).double()


def normed_as_read(x: Any) -> Any:
    """The same as IBM's speculator does it."""
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-6)


def through(of: Published, prefix: str, x: Any, around: Any) -> Any:
    """A layer of a Llama, all tokens at once: from what its attention reads, and what goes around it, (N, width)."""
    config, weights = of.config, {name.removeprefix(f"{prefix}."): one for name, one in of.tensors.items()}
    count, heads, groups = len(x), config["num_attention_heads"], config["num_key_value_heads"]
    q, k, v = (
        (x @ weights[f"self_attn.{one}_proj.weight"].T).view(count, of_heads, -1).transpose(0, 1)
        for one, of_heads in (("q", heads), ("k", groups), ("v", groups))
    )
    half = q.shape[-1] // 2
    turns = torch.arange(count)[:, None] * 10000.0 ** (-torch.arange(half) / half)
    turn = torch.polar(torch.ones_like(turns), turns).to(torch.complex128)
    q, k = (torch.complex(one[..., :half], one[..., half:]) * turn for one in (q, k))
    q, k = (torch.cat((one.real, one.imag), -1) for one in (q, k))
    k, v = (one.repeat_interleave(heads // groups, 0) for one in (k, v))
    scores = (q @ k.transpose(1, 2) / (2 * half) ** 0.5).masked_fill(
        torch.ones(count, count).triu(1).bool(), -torch.inf
    )
    attended = (scores.softmax(-1) @ v).transpose(0, 1).reshape(count, -1)
    hidden = around + attended @ weights["self_attn.o_proj.weight"].T
    inner = normed(hidden, weights["post_attention_layernorm.weight"])
    gate = torch.nn.functional.silu(inner @ weights["mlp.gate_proj.weight"].T)
    return hidden + (gate * (inner @ weights["mlp.up_proj.weight"].T)) @ weights["mlp.down_proj.weight"].T


def states_of(target: Any, text: list[int]) -> Any:
    """The target's hidden states, after all of its layers the last one, shape (tokens, layers + 1, width); one of 0
    where there is no token."""
    if not text:
        return torch.zeros(1, target.config.num_hidden_layers + 1, 16, dtype=torch.float64)
    return torch.stack(target(torch.tensor([text]), output_hidden_states=True).hidden_states, dim=2)[0]


def logits_of_eagle(of: Published, target: Any, text: list[int], drafted: list[int]) -> Floats:
    """EAGLE: the first token of a text is not read, and hidden states go back in as they come out."""
    weights = of.tensors
    embedded = weights.get("embed_tokens.weight", target.get_input_embeddings().weight.detach())
    states = states_of(target, text[:-1])[:, -1]
    for at in range(len(drafted) + 1):
        tokens = torch.tensor([*text[1:], *drafted[:at]])
        x = torch.cat((embedded[tokens], states), -1) @ weights["fc.weight"].T + weights.get("fc.bias", 0.0)
        outputs = through(of, "layers.0", x, x)
        states = torch.cat((states, outputs[-1:]))
    logits: Floats = target.lm_head(outputs[-1]).detach().numpy()
    return logits


def logits_of_eagle3(of: Published, target: Any, text: list[int], drafted: list[int]) -> Floats:
    """EAGLE-3, of the tokens of its head, in all its variants."""
    weights, config = of.tensors, of.config
    features = states_of(target, text[:-1])[:, config["eagle_aux_hidden_state_layer_ids"]]
    if config.get("fc_norm"):
        features = torch.stack([normed(features[:, i], weights[f"fc_norm.{i}.weight"]) for i in range(3)], 1)
    features = features.flatten(1)
    if config.get("norm_before_fc"):
        features = normed(features, weights["input_norm.weight"])
    states = features @ weights["fc.weight"].T
    for at in range(len(drafted) + 1):
        tokens = torch.tensor([*text[1:], *drafted[:at]])
        embedded = normed(target.get_input_embeddings()(tokens), weights["midlayer.input_layernorm.weight"])
        hidden = normed(states, weights["midlayer.hidden_norm.weight"])
        around = hidden if config.get("norm_before_residual") else states
        outputs = through(of, "midlayer", torch.cat((embedded, hidden), -1), around)
        said = normed(outputs, weights["norm.weight"])
        states = torch.cat((states, (said if config.get("norm_output") else outputs)[-1:]))
    logits: Floats = (weights["lm_head.weight"] @ said[-1]).detach().numpy()
    return logits


def logits_of_medusa(of: Published, target: Any, text: list[int], drafted: list[int]) -> Floats:
    """Medusa: each head from the target's last hidden state."""
    number, blocks = len(drafted), of.config["medusa_num_layers"]
    state = states_of(target, text[:-1])[-1, -1]
    for block in range(blocks):
        at = f"{number}.{block}.linear"
        state = state + torch.nn.functional.silu(of.tensors[f"{at}.weight"] @ state + of.tensors[f"{at}.bias"])
    logits: Floats = (of.tensors[f"{number}.{blocks}.weight"] @ state).detach().numpy()
    return logits


def logits_of_mlp(of: Published, target: Any, text: list[int], drafted: list[int]) -> Floats:
    """IBM's MLP speculator: a state that each token is added to."""
    state, config = states_of(target, text[:-1])[-1, -1], of.config
    share = 0.5 ** (0.5 / config["n_predict"])
    if config["scale_input"]:
        state = normed_as_read(state) / 2**0.5
    for stage, token in enumerate([text[-1], *drafted]):
        weights = {
            name.split(".")[1]: one for name, one in of.tensors.items() if name.split(".")[2:] == [str(stage), "weight"]
        }
        token_share = ((1 - share**2) * config["inner_dim"] / 2) ** 0.5 / share
        state = weights["proj"] @ state + token_share * weights["emb"][token]
        state = weights["ln"] * normed_as_read(state) + of.tensors[f"speculator.ln.{stage}.bias"]
        state = torch.nn.functional.gelu(state)
    logits: Floats = (weights["head"] @ state).detach().numpy()
    return logits
