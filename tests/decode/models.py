"""Tiny random models, in float64 so that two ways to compute a logit can be told apart from two logits."""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from transformers import LlamaConfig, LlamaForCausalLM  # noqa: E402

from otspec.decode.models.target import Target  # noqa: E402
from otspec.logits import law_from_logits  # noqa: E402
from tests.oracles import Floats  # noqa: E402


@cache
def tiny(
    vocab: int = 8, seed: int = 0, layers: int = 2, positions: int = 64, attention: str = "sdpa", scale: float = 0.6
) -> Any:
    """A random Llama model whose laws are far from uniform and depend on the text, one for all tests: change a copy."""
    config = LlamaConfig(
        vocab_size=vocab,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=positions,
        initializer_range=scale,
        attn_implementation=attention,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return LlamaForCausalLM(config).double().eval()


@cache
def pair(vocab: int = 8, seed: int = 0, noise: float = 0.3, **settings: Any) -> tuple[Any, Any]:
    """A target, and a draft model that resembles it: the target's weights, disturbed.  One pair for all tests, too."""
    target, draft = tiny(vocab, seed, **settings), copy.deepcopy(tiny(vocab, seed, **settings))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weights in draft.parameters():
            if weights.ndim == 2:
                shift = torch.randn(weights.shape, generator=generator, dtype=weights.dtype)
                weights += noise * weights.std() * shift
    return target, draft


def logits_after(model: Any, text: Sequence[int]) -> Floats:
    """What a model says after one text, read from the start without any cache; each text once by every state of it."""
    return _logits_after(model, tuple(text), sum(weights._version for weights in _weights(model)))


@cache
def _weights(model: Any) -> tuple[Any, ...]:
    return tuple(model.parameters())


@lru_cache(10_000)
def _logits_after(model: Any, text: tuple[int, ...], state: int) -> Floats:
    with torch.no_grad():
        logits: Floats = model(torch.tensor([list(text)]), use_cache=False).logits[0, -1].double().numpy()
    logits.flags.writeable = False
    return logits


def law_after(model: Any, text: Sequence[int], **settings: Any) -> Floats:
    """The law of the next token: temperature, top_k and top_p as `law_from_logits` has them."""
    return law_from_logits("logits", logits_after(model, text), **settings)


def greedy_text(model: Any, text: list[int], new: int) -> list[int]:
    """Greedy decoding, every token from the start of its text."""
    text = list(text)
    for _ in range(new):
        text.append(int(logits_after(model, text).argmax()))
    return text


def calls_of(patch: pytest.MonkeyPatch, owner: Any, name: str) -> list[tuple[Any, Any]]:
    """What a function is called with from now on, and what it gives."""
    seen, plain = list[tuple[Any, Any]](), getattr(owner, name)

    def noted(*inputs: Any) -> Any:
        found = plain(*inputs)
        seen.append((inputs, found))
        return found

    patch.setattr(owner, name, noted)
    return seen


@contextmanager
def spoilt(value: float, length: int, tokens: slice = slice(None), row: int = 1) -> Iterator[None]:
    """Targets whose logits are that of some tokens after so many tokens and more of one of the texts."""
    read = Target._pass

    def spoil(self: Target, inputs: Any, depth: Any, sees: Any) -> Any:
        found = read(self, inputs, depth, sees)
        if len(inputs) > row:
            late = (self.context.after_texts + depth)[row] + 1 >= length
            found.logits[row, :, tokens] = found.logits[row, :, tokens].masked_fill(late[:, None], value)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Target, "_pass", spoil)
        yield


class Words:
    """As much of a tokenizer as stop strings need: token i is the word <i>."""

    def get_vocab(self) -> dict[str, int]:
        return {f"<{token}>": token for token in range(40)}

    def convert_tokens_to_string(self, tokens: list[str]) -> str:
        return "abcdef" + "".join(tokens)

    def __call__(self, text: str, **_: Any) -> Any:
        return {"input_ids": []}
