"""The law of decoded text against the target's own, on a tiny random pair: chi-square over many runs.

    python -m benchmarks.decode_law [--runs 100000] [--batch 1000] [--rules nested,interval,...]

A run decodes three tokens after one prompt, with K = 2 paths of L = 2 tokens; all continuations are enumerated for the
exact law.  `typical` is lossy, and is there to show that the test can tell.
"""

from __future__ import annotations

import argparse
import itertools
from typing import Any

import numpy as np
import torch
from scipy.stats import chisquare
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from otspec.decode import MultiDraft, Strategy, run
from otspec.decode.methods import typical
from otspec.laws import FloatArray, law_from_logits
from otspec.reporting.console import console

VOCAB, LENGTH, PROMPT = 4, 3, [1, 2, 0]
RARE = 5
"""Continuations that are expected less often than this are counted together."""
SETTINGS: dict[str, dict[str, Any]] = {
    "temperature 1": {},
    "temperature 0.6": {"temperature": 0.6},
    "top-k 3": {"top_k": 3},
    "top-p 0.8": {"top_p": 0.8},
}


def model(seed: int) -> PreTrainedModel:
    """A random Llama model of two layers."""
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=64,
        initializer_range=0.5,
        bos_token_id=None,
        eos_token_id=None,
    )
    torch.manual_seed(seed)
    return LlamaForCausalLM(config).eval()


def exact_law(target: PreTrainedModel, settings: dict[str, Any]) -> FloatArray:
    """Probability of each continuation, shape (VOCAB ** LENGTH,), from passes over the whole texts."""
    texts = torch.tensor(list(itertools.product(range(VOCAB), repeat=LENGTH)))
    with torch.no_grad():
        logits = target(torch.cat((torch.tensor(PROMPT).expand(len(texts), -1), texts), dim=1)).logits
    law = np.ones(len(texts))
    for text, tokens in enumerate(texts.tolist()):
        for i, token in enumerate(tokens):
            law[text] *= law_from_logits("logits", logits[text, len(PROMPT) - 1 + i], **settings)[token]
    return law


def counts(target: PreTrainedModel, strategy: Strategy, settings: dict[str, Any], runs: int, batch: int) -> FloatArray:
    """How often each continuation was decoded, shape (VOCAB ** LENGTH,)."""
    found = np.zeros(VOCAB**LENGTH)
    prompts = torch.tensor([PROMPT] * batch)
    for seed in range(runs // batch):
        texts = run(target, strategy, prompts, max_new_tokens=LENGTH, seed=seed, **settings).new_tokens
        found += np.bincount(np.array(texts) @ VOCAB ** np.arange(LENGTH)[::-1], minlength=found.size)
    return found


def main() -> None:
    """Print a row per rule and setting."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--batch", type=int, default=1000, help="texts decoded at a time")
    parser.add_argument("--rules", default="nested,interval,traversal,block,typical")
    parser.add_argument("--settings", default=",".join(SETTINGS))
    asked = parser.parse_args()
    target, draft = model(0), model(1)
    for rule, name in itertools.product(asked.rules.split(","), asked.settings.split(",")):
        strategy = typical(draft, 2, 2) if rule == "typical" else MultiDraft(draft, paths=2, depth=2, solver=rule)
        law = exact_law(target, SETTINGS[name])
        found = counts(target, strategy, SETTINGS[name], asked.runs, asked.batch)
        expected = law / law.sum() * found.sum()
        rare = expected < RARE
        observed = np.append(found[~rare], found[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
        cells = expected > 0
        test = chisquare(observed[cells], expected[cells])
        impossible = int(found[law == 0].sum())
        console.print(
            f"{rule:12s} {name:16s} {int(found.sum()):8d} runs  chi-square {test.statistic:8.1f} on "
            f"{cells.sum() - 1:3d}  p = {test.pvalue:.3f}  impossible texts {impossible}",
            highlight=False,
            soft_wrap=True,
        )


if __name__ == "__main__":
    main()
