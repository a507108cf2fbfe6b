"""How the shipped pair is made: a tokenizer, two Llamas, and one loop that trains both.

The draft learns from the target while the target learns from the text: at every step and position, the draft's label is
the target's law of that moment.  Then the target is done, and the draft alone is polished: what it learns is acceptance
itself, of one draft and of several, first on the same text and then on text that the target has sampled, which is where
drafts are made.  Every sequence begins with bos; eos ends every file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice
from typing import Any, TextIO

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch.nn.functional import cross_entropy
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from otspec.laws import IntArray

Files = Sequence[Sequence[int]] | Sequence[IntArray]  # of each file its tokens
BOS, EOS, VOCAB, CONTEXT = "<|begin|>", "<|end|>", 2048, 256
OWN_TEXTS, OWN_PROMPT = 4096, 8
"""Sequences that the target samples for the draft to learn from, and the tokens of the text that each begins with."""
SIBLINGS = 4
"""Drafts of one position that the draft model is polished for, beside a single one."""


@dataclass(frozen=True)
class Shape:
    """Width, layers, heads and inner width of a model."""

    width: int
    layers: int
    heads: int
    inner: int


TARGET, DRAFT = Shape(width=128, layers=24, heads=4, inner=352), Shape(width=192, layers=1, heads=6, inner=768)


@dataclass(frozen=True)
class Recipe:
    """Steps (of both models, then `polish` of the draft alone, then `own` on the target's text), batch and rate."""

    steps: int = 2000
    polish: int = 600
    own: int = 1000
    seed: int = 0
    batch: int = 16
    context: int = CONTEXT
    rate: float = 6e-3
    warm_up: int = 50
    decay: float = 0.4

    def rate_at(self, step: int) -> float:
        """A trapezoid: up over `warm_up` steps, level, down to 0 over the last `decay` of `steps`; two lower ones."""
        for steps, height, decay in ((self.steps, 1.0, self.decay), (self.polish, 0.5, 0.7), (self.own, 0.5, 0.7)):
            if step < steps:
                return height * self.rate * min(1.0, (step + 1) / self.warm_up, (steps - step) / (decay * steps))
            step -= steps
        return 0.0


def train_tokenizer(texts: Sequence[str], vocab: int = VOCAB, context: int = CONTEXT) -> PreTrainedTokenizerFast:
    """Byte-pair encoding of bytes, so that every text has one and is decoded exactly."""
    tokenizer: Any = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    initial: Any = {"initial_alphabet": pre_tokenizers.ByteLevel.alphabet(), "special_tokens": [BOS, EOS]}
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=vocab, show_progress=False, **initial))
    specials: Any = {"single": f"{BOS} $A", "pair": f"{BOS} $A $B", "special_tokens": [(BOS, 0)]}
    tokenizer.post_processor = processors.TemplateProcessing(**specials)
    names = {"bos_token": BOS, "eos_token": EOS, "pad_token": EOS}
    rest: Any = {"model_max_length": context, "clean_up_tokenization_spaces": False}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names, **rest)


def tokens_of(tokenizer: PreTrainedTokenizerFast, text: str) -> list[int]:
    """The tokens of one file, with eos and without bos."""
    return [*tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).ids, tokenizer.eos_token_id]


def windows(files: Files, context: int, bos: int) -> torch.Tensor:
    """The files end to end, cut into sequences, shape (sequences, 1 + context), each begun by bos; no shorter rest."""
    stream = torch.cat([torch.as_tensor(file, dtype=torch.long) for file in files])
    rows = stream[: len(stream) // context * context].reshape(-1, context)
    return torch.cat([torch.full((len(rows), 1), bos), rows], dim=1)


def batches(files: Files, recipe: Recipe, bos: int) -> Iterator[torch.Tensor]:
    """Batches of shape (batch, 1 + context) without end; every epoch has its own order of files and of windows."""
    for rng in _epochs(recipe.seed):
        order = torch.randperm(len(files), generator=rng).tolist()
        yield from _shuffled(windows([files[index] for index in order], recipe.context, bos), recipe.batch, rng)


def _epochs(seed: int) -> Iterator[torch.Generator]:
    return (torch.Generator().manual_seed(seed * 1_000_003 + epoch) for epoch in count())


def _shuffled(rows: torch.Tensor, batch: int, rng: torch.Generator) -> Sequence[torch.Tensor]:
    return rows[torch.randperm(len(rows), generator=rng)][: len(rows) // batch * batch].split(batch)


def own_texts(target: LlamaForCausalLM, stream: Iterator[torch.Tensor], recipe: Recipe) -> torch.Tensor:
    """What the target writes after a few tokens of the text, shape (texts, 1 + context); eos does not end it."""
    texts, found = min(OWN_TEXTS, recipe.own * recipe.batch), list[torch.Tensor]()
    endless: Any = {"max_length": recipe.context + 1, "eos_token_id": target.config.vocab_size}
    while sum(map(len, found)) < texts:
        prompts = torch.cat([next(stream) for _ in range(8)])[:, :OWN_PROMPT].to(target.device)
        everywhere = torch.ones_like(prompts)
        found.append(target.generate(prompts, attention_mask=everywhere, do_sample=True, top_k=0, **endless).cpu())
    return torch.cat(found)[:texts]


def new_model(shape: Shape, tokenizer: PreTrainedTokenizerFast, context: int = CONTEXT) -> LlamaForCausalLM:
    """A Llama of that shape with random weights, in torch's global random state."""
    sizes: Any = {"hidden_size": shape.width, "intermediate_size": shape.inner, "num_hidden_layers": shape.layers}
    sizes |= {"num_attention_heads": shape.heads, "num_key_value_heads": shape.heads, "vocab_size": len(tokenizer)}
    sizes |= {name: getattr(tokenizer, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    model = LlamaForCausalLM(LlamaConfig(max_position_embeddings=context, tie_word_embeddings=True, **sizes))
    for name, value in model.named_parameters():  # a residual branch is silent until it has learnt something
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            torch.nn.init.zeros_(value)
    return model


def refusal(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """How often the draft is refused, alone and as one of `SIBLINGS`, shape (...), from laws of shape (..., V).

    Of n i.i.d. drafts no rule accepts x more often than it is among them: 1 - sum min(p, 1 - (1 - q)^n) is refused.
    """
    several = -torch.expm1(SIBLINGS * torch.log1p(-q.clamp(max=1 - 1e-6)))
    return 1 - 0.5 * (torch.minimum(p, q).sum(-1) + torch.minimum(p, several).sum(-1))


def logits_of(model: LlamaForCausalLM, rows: torch.Tensor) -> torch.Tensor:
    """Next-token logits at every position of the rows but the last, shape (rows, context, V)."""
    return model(input_ids=rows[:, :-1], use_cache=False).logits


def measure(target: LlamaForCausalLM, draft: LlamaForCausalLM, rows: torch.Tensor, batch: int = 16) -> dict[str, float]:
    """Nats per token, and acceptance of one draft at temperature 1, over rows of text, shape (rows, 1 + context)."""
    sums = torch.zeros(3, dtype=torch.float64, device=target.device)
    with torch.no_grad():
        for part in rows.to(target.device).split(batch):
            p, q = logits_of(target, part).flatten(0, 1), logits_of(draft, part).flatten(0, 1)
            for place, logits in enumerate((p, q)):
                sums[place] += cross_entropy(logits, part[:, 1:].flatten(), reduction="sum").double()
            sums[2] += torch.minimum(p.softmax(-1), q.softmax(-1)).sum().double()
    means = (sums / (rows.shape[0] * (rows.shape[1] - 1))).tolist()
    return dict(zip(("target_loss", "draft_loss", "acceptance"), means, strict=True))


class Optimiser:
    """Muon for matrices [jordan2024muon], scaled to Adam's root mean square [liu2025muon]; AdamW for the rest."""

    def __init__(self, model: torch.nn.Module) -> None:
        matrices = [value for name, value in model.named_parameters() if value.ndim == 2 and "embed" not in name]
        rest = [value for name, value in model.named_parameters() if value.ndim != 2 or "embed" in name]
        muon: Any = torch.optim.Muon(matrices, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
        self._both = muon, torch.optim.AdamW(rest, betas=(0.9, 0.95), weight_decay=0.0)

    def step(self, rate: float) -> None:
        """One update at that learning rate; clears the gradients."""
        for optimiser in self._both:
            optimiser.param_groups[0]["lr"] = rate
            optimiser.step()
            optimiser.zero_grad()


def train_on_text(model: LlamaForCausalLM, files: Files, recipe: Recipe, bos: int, device: torch.device) -> list[float]:
    """Train one model for `recipe.steps` by the cross entropy of the text; the loss of every step, in nats a token.

    A GPU multiplies in bfloat16; the weights stay as they are.
    """
    optimiser, losses = Optimiser(model), list[torch.Tensor]()
    for step, rows in enumerate(islice(batches(files, recipe, bos), recipe.steps)):
        tokens = rows.to(device)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            loss = cross_entropy(logits_of(model, tokens).flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimiser.step(recipe.rate_at(step))
        losses.append(loss.detach())
    return torch.stack(losses).tolist()


def train(
    files: Files,
    held_out: torch.Tensor,
    tokenizer: PreTrainedTokenizerFast,
    recipe: Recipe,
    curve: TextIO,
    shape: Shape,
) -> tuple[LlamaForCausalLM, LlamaForCausalLM]:
    """Train target and draft; a point of the training curve, on held-out windows, is written now and then."""
    torch.manual_seed(recipe.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    target, draft = new_model(shape, tokenizer).to(device), new_model(DRAFT, tokenizer).to(device)
    optimisers, losses = (Optimiser(target), Optimiser(draft)), list[float]()
    stream = batches(files, recipe, tokenizer.bos_token_id)
    polish, own = recipe.steps, recipe.steps + recipe.polish
    for step in range(own + recipe.own):
        if step == own:
            texts = own_texts(target, stream, recipe)
            stream = (rows for rng in _epochs(recipe.seed) for rows in _shuffled(texts, recipe.batch, rng))
        rows, polishing = next(stream).to(device), step >= polish
        with torch.autocast(device.type, torch.bfloat16):
            with torch.set_grad_enabled(not polishing):
                p = logits_of(target, rows).flatten(0, 1).float()
            q = logits_of(draft, rows).flatten(0, 1).float()
        loss, labels = cross_entropy(p, rows[:, 1:].flatten()), p.detach().softmax(-1)
        (refusal(labels, q.softmax(-1)).mean() if polishing else loss + cross_entropy(q, labels)).backward()
        losses.append(loss.item())
        for optimiser in optimisers[polishing:]:
            optimiser.step(recipe.rate_at(step))
        if (step + 1) % 50 == 0 or step + 1 in (polish, own, own + recipe.own):
            point = {"step": step + 1, "train_loss": sum(losses) / len(losses), **measure(target, draft, held_out)}
            curve.write(json.dumps({name: round(value, 4) for name, value in point.items()}) + "\n")
            losses = []
    return target.cpu(), draft.cpu()
