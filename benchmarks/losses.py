"""By which loss a drafter learns to be accepted: one, two and four drafts of a token; four paths under nested labels.

    python -m benchmarks.losses --out report/losses
    python -m benchmarks.losses --target smollm2 --texts texts.safetensors --draft-tokens 8192 --rate 3e-3 --batch 1 ...

One `parallel` drafter is trained for every loss and seed, on the same texts in the same order for all losses.
alpha*(n) is exact, over all positions of the texts held out and the mean over depths; tokens of nested labels are exact
given recorded trees.  What is in the folder is not done again.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.reporting import Record, finish
from benchmarks.tables import with_error
from otspec.data.trees import TreeSource
from otspec.decode.drafters.hidden_states import two_layers
from otspec.decode.lessons.lesson import Lesson
from otspec.decode.lessons.losses import loss_named
from otspec.decode.lessons.texts import most_frequent, own_texts, read_texts
from otspec.decode.pair.loading import SHIPPED, Models, load_models, with_named_draft
from otspec.decode.recording.positions import record
from otspec.decode.recording.trees import TreeRecording
from otspec.decode.training import KINDS, Course, Lessons, train_into
from otspec.decode.training.folder import RECORD
from otspec.laws import IntArray
from otspec.paths import Nested, Tree
from otspec.reporting.console import console, progress_as_ours
from otspec.reporting.means import standard_error, welch
from otspec.reporting.tables import TextTable

KIND = "parallel"
LOSSES = (
    *("kl", "reverse-kl", "jsd", "tvd", "alpha:2", "alpha:4"),
    *("kl+alpha:1", "kl+alpha:2", "kl+alpha:4", "kl+topk:10"),
)
COUNTS = (1, 2, 4)
"""Drafts of one token, n."""
PATHS, DEPTH = 4, 3
FIGURES = (*(f"alpha*({n})" for n in COUNTS), f"nested, K = {PATHS}, L = {DEPTH}")
HELD_OUT = 64
"""Texts that are not learnt from."""
PROMPT = 32
"""Tokens of the held-out texts that trees are drafted after."""


def accepted(model: Any, kind: str, lesson: Lesson, counts: Sequence[int]) -> list[list[float]]:
    """alpha*(n) for each of the counts at each depth that is answered, the mean over the positions of a lesson."""
    answers = KINDS[kind].answers(model, lesson, torch.Generator(), DEPTH)
    wanted = [lesson.wanted(one.logits.shape[1]) for one in answers]
    both = list(zip(wanted, answers, strict=True))
    return [[1 - loss_named(f"alpha:{n}")(law, one).item() for law, one in both] for n in counts]


def alphas(model: Any, held_out: Lessons) -> list[float]:
    """alpha*(n) for each of `COUNTS`: the mean over all drafted depths and all positions of the held-out texts."""
    found = []
    with torch.no_grad():
        for rows in torch.arange(len(held_out.texts)).split(held_out.batch):
            each = accepted(model, KIND, held_out.lesson(rows.tolist()), COUNTS)
            found += [np.mean(each, axis=1)] * len(rows)
    means: list[float] = np.mean(found, axis=0).tolist()
    return means


def nested(models: Models, prompts: Sequence[Sequence[int]], trees: int, file: Path) -> float:
    """Drafted tokens that nested labels accept of recorded trees, the mean."""
    recording = TreeRecording(models, ("target", "draft"), prompts, trees, new=16, paths=PATHS, depth=DEPTH)
    record(recording, file)
    source = TreeSource(file)
    each = (source.tree(index) for index in range(len(source)))
    drafted = [Tree.of(one.paths, one.target, one.draft) for one in each]
    rule = Nested()
    lengths = [rule.stop_law(tree).sum(axis=1) @ tree.depth for tree in drafted]
    file.unlink()
    return float(np.mean(lengths))


def measured(asked: argparse.Namespace, models: Models) -> Iterator[Record]:
    """A record for every loss and seed."""
    texts = _texts(asked, models)
    learnt, aside = texts[:-HELD_OUT], texts[-HELD_OUT:]
    kept = most_frequent(learnt, asked.draft_tokens, models.target) if asked.draft_tokens else None
    layers = two_layers(models.target)
    lessons, held_out = (Lessons(models.target, some, layers, asked.batch, kept=kept) for some in (learnt, aside))
    prompts = aside[:, :PROMPT].tolist()
    for seed in range(asked.seeds):
        for loss in asked.losses.split(","):
            folder = asked.out / f"{loss.replace(':', '')}-{seed}"
            if not (folder / RECORD).exists():
                course = Course(asked.steps, asked.rate, loss=loss, seed=seed)
                names = (asked.target, None)
                train_into(folder, KIND, models, names, lessons.again(seed), held_out, course, every=asked.steps)
            with_draft = with_named_draft(models, str(folder))
            found = alphas(with_draft.draft, held_out)
            found.append(nested(with_draft, prompts, asked.trees, asked.out / "trees.safetensors"))
            console.print(f"{loss}, seed {seed}: " + ", ".join(f"{one:.4f}" for one in found), highlight=False)
            yield {"loss": loss, "seed": seed, **dict(zip(FIGURES, found, strict=True))}


def _texts(asked: argparse.Namespace, models: Models) -> IntArray:
    if asked.texts is not None:
        return read_texts(asked.texts, models.target)
    begin = [[models.tokenizer.bos_token_id]]
    return own_texts(models.target, begin, 1024 + HELD_OUT, 96, path=asked.out / "texts.safetensors")


def table(records: Sequence[Record], title: str) -> TextTable:
    """Losses by what they come to; Welch's test against the first."""
    losses = list(dict.fromkeys(one["loss"] for one in records))
    values = {
        loss: {name: [one[name] for one in records if one["loss"] == loss] for name in FIGURES} for loss in losses
    }

    def told(loss: str, name: str) -> str:
        mine, first = values[loss][name], values[losses[0]][name]
        tested = "" if loss == losses[0] else f" (p {welch(mine, first)[1]})"
        return with_error(float(np.mean(mine)), standard_error(np.array(mine)), ".4f") + tested

    lines = [(loss, *(told(loss, name) for name in FIGURES)) for loss in losses]
    note = (
        f"A parallel drafter. alpha*: the mean over all drafted depths, held-out texts. ± standard errors across "
        f"seeds; p: Welch's test against {losses[0]}."
    )
    return TextTable(title, ("loss", *FIGURES), lines, note, labels=1)


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default=SHIPPED, help="as otspec train takes it")
    parser.add_argument("--texts", type=Path, help="a file of otspec texts; the shipped target writes its own")
    parser.add_argument("--draft-tokens", type=int, help="how many tokens are drafted; all by default")
    parser.add_argument("--dtype", default="float32", help="of the target")
    parser.add_argument("--losses", default=",".join(LOSSES), help="a list")
    parser.add_argument("--seeds", type=int, default=3, help="trainings with each")
    parser.add_argument("--steps", type=int, default=300, help="of a training")
    parser.add_argument("--batch", type=int, default=8, help="texts of a step")
    parser.add_argument("--rate", type=float, default=3e-3, help="of learning")
    parser.add_argument("--trees", type=int, default=256, help="that nested labels verify")
    parser.add_argument("--out", type=Path, default=Path("report_losses"), help="folder for everything")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    progress_as_ours()
    models = load_models(asked.target, None, "cpu", asked.dtype)
    records = list(measured(asked, models))
    title = f"Losses: {asked.target}, {asked.steps} steps of {asked.batch} texts, {asked.seeds} seeds"
    finish(asked.out, records, [table(records, title)], [])


if __name__ == "__main__":
    main()
