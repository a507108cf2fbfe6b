"""How the shipped pair is made: a tokenizer, two Llamas, and one loop that trains both.

The draft learns from the target while the target learns from the text: at every step and position, the draft's label is
the target's law of that moment, so one pass over the text serves both.  Then the target is done, and the draft alone is
polished: what it learns is acceptance itself, of one draft and of several, first on the same text and then on text that
the target has sampled, which is where drafts are made.  Every sequence begins with bos; eos ends every file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch.nn.functional import cross_entropy
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from benchmarks.shipped_pair.muon import Muon
from otspec.errors import DataError

BOS, EOS = "<|begin|>", "<|end|>"
VOCAB = 2048
CONTEXT = 256
OWN_TEXTS = 4096
"""Sequences that the target samples for the draft to learn from, or fewer where no more are needed."""
OWN_PROMPT = 8
"""Tokens of the text that each of them begins with."""
SIBLINGS = 4
"""Drafts of one position that the draft model is polished for, beside a single one."""


@dataclass(frozen=True)
class Shape:
    """Width, layers, heads and inner width of a model."""

    width: int
    layers: int
    heads: int
    inner: int


TARGET = Shape(width=128, layers=24, heads=4, inner=352)
DRAFT = Shape(width=192, layers=1, heads=6, inner=768)


@dataclass(frozen=True)
class Recipe:
    """Length, batch and learning rate of a training run; everything else about it follows from these and the seed."""

    steps: int = 2000
    polish: int = 600
    """Steps of the draft alone, after the others."""
    own: int = 1000
    """Steps of the draft alone on text of the target's own, after those."""
    seed: int = 0
    batch: int = 16
    context: int = CONTEXT
    rate: float = 6e-3
    warm_up: int = 50
    decay: float = 0.4

    def rate_at(self, step: int) -> float:
        """A trapezoid: up over `warm_up` steps, level, down to 0 over the last `decay` of `steps`; two lower ones."""
        if step < self.steps:
            return self._trapezoid(step, self.steps, self.decay)
        if step < self.steps + self.polish:
            return 0.5 * self._trapezoid(step - self.steps, self.polish, 0.7)
        return 0.5 * self._trapezoid(step - self.steps - self.polish, self.own, 0.7)

    def _trapezoid(self, done: int, steps: int, decay: float) -> float:
        return self.rate * min(1.0, (done + 1) / self.warm_up, (steps - done) / (decay * steps))

    @property
    def in_all(self) -> int:
        """Steps of all three parts."""
        return self.steps + self.polish + self.own

    def continues(self, other: Recipe, step: int) -> bool:
        """Whether both train alike before that step; their lengths may differ while the rate is level."""
        alike = all(self.rate_at(before) == other.rate_at(before) for before in range(step))
        return alike and replace(other, steps=self.steps, polish=self.polish, own=self.own) == self


def train_tokenizer(texts: Sequence[str], vocab: int = VOCAB, context: int = CONTEXT) -> PreTrainedTokenizerFast:
    """Byte-pair encoding of bytes, so that every text has one and is decoded exactly."""
    tokenizer: Any = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer: Any = trainers.BpeTrainer(
        vocab_size=vocab,
        special_tokens=[BOS, EOS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", pair=f"{BOS} $A $B", special_tokens=[(BOS, 0)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=BOS,
        eos_token=EOS,
        pad_token=EOS,
        model_max_length=context,
        clean_up_tokenization_spaces=False,
    )


def tokens_of(tokenizer: PreTrainedTokenizerFast, text: str) -> list[int]:
    """The tokens of one file, with eos and without bos."""
    return [*tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).ids, tokenizer.eos_token_id]


def windows(files: Sequence[Sequence[int]], context: int, bos: int) -> torch.Tensor:
    """The files end to end, cut into sequences, shape (sequences, 1 + context), each begun by bos; no shorter rest."""
    stream = torch.tensor([token for file in files for token in file])
    rows = stream[: len(stream) // context * context].reshape(-1, context)
    return torch.cat([torch.full((len(rows), 1), bos), rows], dim=1)


def batches(files: Sequence[Sequence[int]], recipe: Recipe, bos: int) -> Iterator[torch.Tensor]:
    """Batches of shape (batch, 1 + context) without end; every epoch has its own order of files and of windows."""
    for generator in _epochs(recipe.seed):
        order = torch.randperm(len(files), generator=generator).tolist()
        rows = windows([files[index] for index in order], recipe.context, bos)
        yield from _shuffled(rows, recipe.batch, generator)


def own_batches(texts: torch.Tensor, recipe: Recipe) -> Iterator[torch.Tensor]:
    """Batches of texts of the target's own without end; every epoch has its own order."""
    for generator in _epochs(recipe.seed):
        yield from _shuffled(texts, recipe.batch, generator)


def _epochs(seed: int) -> Iterator[torch.Generator]:
    return (torch.Generator().manual_seed(seed * 1_000_003 + epoch) for epoch in count())


def _shuffled(rows: torch.Tensor, batch: int, generator: torch.Generator) -> Sequence[torch.Tensor]:
    rows = rows[torch.randperm(len(rows), generator=generator)]
    return rows[: len(rows) // batch * batch].split(batch)


def own_texts(target: LlamaForCausalLM, stream: Iterator[torch.Tensor], recipe: Recipe) -> torch.Tensor:
    """What the target writes after a few tokens of the text, at temperature 1, shape (texts, 1 + context).

    Nothing ends it: after eos the next file begins, as in the text that the target has learnt from.
    """
    texts, found = min(OWN_TEXTS, recipe.own * recipe.batch), list[torch.Tensor]()
    while sum(map(len, found)) < texts:
        prompts = torch.cat([next(stream) for _ in range(8)])[:, :OWN_PROMPT].to(target.device)
        written = target.generate(
            prompts,
            attention_mask=torch.ones_like(prompts),
            do_sample=True,
            top_k=0,
            max_length=recipe.context + 1,
            eos_token_id=target.config.vocab_size,
        )
        found.append(written.cpu())
    return torch.cat(found)[:texts]


def new_model(shape: Shape, tokenizer: PreTrainedTokenizerFast, context: int = CONTEXT) -> LlamaForCausalLM:
    """A Llama of that shape with random weights, in torch's global random state."""
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=shape.width,
        intermediate_size=shape.inner,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        max_position_embeddings=context,
        tie_word_embeddings=True,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = LlamaForCausalLM(config)
    # The output layer of a residual branch starts at 0: the branch is silent until it has learnt something.
    for name, value in model.named_parameters():
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            torch.nn.init.zeros_(value)
    return model


def refusal(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """What the draft is polished to make small: how often it is refused, alone and as one of `SIBLINGS`, shape (...).

    One draft is refused with probability 1 - sum min(p, q).  Of n i.i.d. drafts no rule accepts x more often than it is
    among them, so 1 - sum min(p, 1 - (1 - q)^n) bounds how often all are refused.  The first alone would make the draft
    law all but a point mass where it is in doubt, and several drafts alike.

    Parameters
    ----------
    p, q : Tensor, shape (..., V)
    """
    several = -torch.expm1(SIBLINGS * torch.log1p(-q.clamp(max=1 - 1e-6)))
    return 1 - 0.5 * (torch.minimum(p, q).sum(-1) + torch.minimum(p, several).sum(-1))


def logits_of(model: LlamaForCausalLM, rows: torch.Tensor) -> torch.Tensor:
    """Next-token logits at every position of the rows but the last, shape (rows, context, V)."""
    return model(input_ids=rows[:, :-1], use_cache=False).logits


@dataclass(frozen=True)
class Measured:
    """Means over the positions of some text."""

    target_loss: float
    """Nats per token."""
    draft_loss: float
    acceptance: float
    """Of one draft at temperature 1: the sum of min(p, q)."""


def measure(target: LlamaForCausalLM, draft: LlamaForCausalLM, rows: torch.Tensor, batch: int = 16) -> Measured:
    """Losses and single-draft acceptance over rows of text, shape (rows, 1 + context)."""
    sums = torch.zeros(3, dtype=torch.float64, device=target.device)
    with torch.no_grad():
        for part in rows.to(target.device).split(batch):
            p, q = logits_of(target, part).flatten(0, 1), logits_of(draft, part).flatten(0, 1)
            labels = part[:, 1:].flatten()
            sums[0] += cross_entropy(p, labels, reduction="sum").double()
            sums[1] += cross_entropy(q, labels, reduction="sum").double()
            sums[2] += torch.minimum(p.softmax(-1), q.softmax(-1)).sum().double()
    return Measured(*(sums / (rows.shape[0] * (rows.shape[1] - 1))).tolist())


def train(
    files: Sequence[Sequence[int]],
    held_out: torch.Tensor,
    tokenizer: PreTrainedTokenizerFast,
    recipe: Recipe,
    report: Callable[[dict[str, float]], None],
    every: int = 50,
    checkpoint: Path | None = None,
    target_shape: Shape = TARGET,
) -> tuple[LlamaForCausalLM, LlamaForCausalLM]:
    """Train target and draft.

    Parameters
    ----------
    files : sequence of token lists
        See `tokens_of`.
    held_out : tensor
        Rows as `windows` gives them, measured every so many steps and after the last.
    report : callable
        Gets a point of the training curve.
    checkpoint : Path, optional
        Written every so many steps; if it is there, the run goes on from it.
    target_shape : Shape
    """
    torch.manual_seed(recipe.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    target, draft = new_model(target_shape, tokenizer).to(device), new_model(DRAFT, tokenizer).to(device)
    optimisers = Muon(target.named_parameters()), Muon(draft.named_parameters())
    first, own = 0, None
    if checkpoint is not None and checkpoint.exists():
        state = torch.load(checkpoint, map_location=device)
        first = state["step"]
        if not recipe.continues(Recipe(**state["recipe"]), first):
            raise DataError(f"{checkpoint} belongs to {state['recipe']}, not to {recipe}; remove it to start anew")
        target.load_state_dict(state["target"])
        draft.load_state_dict(state["draft"])
        for optimiser, saved in zip(optimisers, state["optimisers"], strict=True):
            optimiser.restore(saved)
        own = state["own"]
    stream = batches(files, recipe, tokenizer.bos_token_id)
    losses: list[float] = []
    for step in range(recipe.in_all):
        if step == recipe.steps + recipe.polish:
            if own is None:
                own = own_texts(target, stream, recipe)
            stream = own_batches(own, recipe)
        rows = next(stream)
        if step < first:
            continue
        rows, polishing = rows.to(device), step >= recipe.steps
        with torch.autocast(device.type, torch.bfloat16):
            with torch.set_grad_enabled(not polishing):
                p = logits_of(target, rows).flatten(0, 1).float()
            q = logits_of(draft, rows).flatten(0, 1).float()
        loss = cross_entropy(p, rows[:, 1:].flatten())
        labels = p.detach().softmax(-1)
        if polishing:
            refusal(labels, q.softmax(-1)).mean().backward()
        else:
            (loss + cross_entropy(q, labels)).backward()
        losses.append(loss.item())
        for optimiser in optimisers[polishing:]:
            optimiser.step(recipe.rate_at(step))
        if (step + 1) % every == 0 or step + 1 in (recipe.steps, recipe.steps + recipe.polish, recipe.in_all):
            now = measure(target, draft, held_out)
            report({"step": step + 1, "train_loss": sum(losses) / len(losses), **asdict(now)})
            losses = []
            if checkpoint is not None:
                state = {"recipe": asdict(recipe), "step": step + 1, "target": target.state_dict()}
                state |= {"draft": draft.state_dict(), "own": own, "optimisers": [one.state() for one in optimisers]}
                torch.save(state, checkpoint.with_suffix(".part"))
                checkpoint.with_suffix(".part").replace(checkpoint)
    return target.cpu(), draft.cpu()
