"""Table 1 of [berdozsteering] on the shipped target, and one table of all that drafts.

    python -m benchmarks.drafters learn --out report/drafters [--device cuda --jobs 3]
    python -m benchmarks.drafters decode --out report/drafters
    python -m benchmarks.drafters elsewhere --out report/drafters --tasks spec_bench.jsonl
    python -m benchmarks.drafters times --out report/drafters
    python -m benchmarks.drafters report --out report/drafters
    python -m benchmarks.drafters small --target smollm2 --texts texts.safetensors --out small

`learn` trains every drafter with three seeds, some at once in processes of their own: minutes on a GPU, days on two
cores.  `decode` decodes the held-out prompts with each, all at once, and `elsewhere` kinds of text that nobody learnt
from.  `times` decodes in turns, one text at a time, which is what speed-ups are of.  Each goes on where it was stopped,
and `report` covers what there is.  `small` makes a draft model for another target: pretrained, distilled and steered,
each in a time that one can set.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.drafters import acceptance, elsewhere, pictures, running, tables
from benchmarks.drafters import times as speeds
from benchmarks.drafters.plan import TINY, WHOLE, Learner, Plan
from benchmarks.drafters.small import make
from benchmarks.reporting import show
from benchmarks.shipped_pair.recipe import Shape
from otspec.reporting.tables import markdown_report

app = typer.Typer(add_completion=False, help=__doc__, rich_markup_mode=None)

Out = Annotated[Path, typer.Option(help="Folder for everything.")]
Device = Annotated[str, typer.Option(help="cpu or cuda.")]
Tiny = Annotated[bool, typer.Option("--tiny", help="All of it at a size for a trial.")]
Texts = Annotated[int | None, typer.Option(help="To learn from.", show_default=str(WHOLE.texts))]
Jobs = Annotated[int, typer.Option(min=1, help="Processes at once.")]
Only = Annotated[str, typer.Option(help="Learners whose names have one of these in them, a list.")]
Steps = Annotated[int | None, typer.Option(help="Of training.", show_default=str(WHOLE.steps))]


@app.command()
def learn(
    out: Out,
    device: Device = "cpu",
    jobs: Jobs = 1,
    corpus: Annotated[Path | None, typer.Option(help="Python files; the standard library by default.")] = None,
    texts: Texts = None,
    steps: Steps = None,
    only: Only = "",
    tiny: Tiny = False,
) -> None:
    """Train."""
    out.mkdir(parents=True, exist_ok=True)
    running.learn(_chosen(_plan(tiny, texts, steps), only), out, device, jobs, corpus)


@app.command()
def decode(
    out: Out, device: Device = "cpu", jobs: Jobs = 1, texts: Texts = None, only: Only = "", tiny: Tiny = False
) -> None:
    """Decode the held-out prompts with all that is trained, in batches."""
    running.decode(_chosen(_plan(tiny, texts, None), only), out, device, jobs)


@app.command(name="elsewhere")
def decode_elsewhere(
    out: Out,
    tasks: Annotated[list[Path], typer.Option(help="JSON lines as in Spec-Bench; every category is a kind of text.")],
    kinds: Annotated[str, typer.Option(help="Categories that are wanted, a list.", show_default="all")] = "",
    device: Device = "cpu",
    jobs: Jobs = 1,
    first: Annotated[int, typer.Option(min=1, help="Prompts of a kind, at most.")] = 24,
    new: Annotated[int, typer.Option(min=1, help="New tokens of each.")] = 64,
    only: Only = "",
    tiny: Tiny = False,
) -> None:
    """Decode prompts of other kinds than were learnt from, and at home, with all that is trained; a table of it."""
    plan = replace(_chosen(_plan(tiny, None, None), only), prompts=first, new=new)
    wanted = elsewhere.Tasks(tuple(tasks), tuple(filter(None, kinds.split(","))))
    running.decode_elsewhere(plan, out, wanted, device, jobs)
    show(elsewhere.table(plan, elsewhere.gathered(plan, out)))


@app.command()
def times(
    out: Out,
    first: Annotated[int, typer.Option(min=2, help="Prompts.")] = 24,
    new: Annotated[int, typer.Option(min=1, help="New tokens of each.")] = 64,
    tiny: Tiny = False,
) -> None:
    """Decode one text at a time with every drafter of the first seed, in turns, by `otspec bench decode` on the CPU."""
    speeds.measure(_plan(tiny, None, None), out, first, new)


@app.command()
def report(out: Out, texts: Texts = None, steps: Steps = None, tiny: Tiny = False) -> None:
    """Write report.md, drafters.png and results.jsonl of what there is."""
    plan = _plan(tiny, texts, steps)
    records = acceptance.gathered(out, plan)
    found = [one(plan, records, out) for one in (tables.table_1, tables.ablations, tables.table)]
    (out / "results.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    pictures.draw(plan, records, out / "drafters.png")
    (out / "report.md").write_text(markdown_report(found, ["drafters.png"], [], "Drafters"))
    show(*found)


@app.command()
def small(
    out: Out,
    texts: Annotated[Path, typer.Option(help="What the target has written, by `otspec texts`.")],
    target: Annotated[str, typer.Option(help="Whose tokenizer they get, and whose laws they learn.")] = "smollm2",
    width: Annotated[int, typer.Option(min=32, help="Of hidden states; heads are of 32.")] = 128,
    layers: Annotated[int, typer.Option(min=1)] = 4,
    steps: Annotated[str, typer.Option(help="Of each training, at most.")] = "2000,600,600",
    seconds: Annotated[str, typer.Option(help="Of each training, at most; by default, no limit.")] = "inf,inf,inf",
    batch: Annotated[int, typer.Option(min=1, help="Texts of a step.")] = 16,
    device: Device = "cpu",
    dtype: Annotated[str | None, typer.Option(help="Of the target, as `otspec train` has it.")] = None,
) -> None:
    """Train a draft model for another target on text alone, then distil it, and steer it."""
    shape = Shape(width, layers, width // 32, 11 * width // 4)
    most, limits = [int(one) for one in steps.split(",")], [float(one) for one in seconds.split(",")]
    every = make(out, target, texts, shape, steps=most, seconds=limits, batch=batch, device=device, dtype=dtype)
    for _, record in every:
        typer.echo(json.dumps(record, indent=2))


def _chosen(plan: Plan, only: str) -> Plan:
    """The plan for some learners, in the order in which they are named."""

    def named(some: tuple[Learner, ...]) -> tuple[Learner, ...]:
        return tuple(dict.fromkeys(one for word in only.split(",") for one in some if word in one.name))

    return replace(plan, learners=named(plan.learners), ablations=named(plan.ablations))


def _plan(tiny: bool, texts: int | None, steps: int | None) -> Plan:
    plan = TINY if tiny else WHOLE
    return replace(plan, texts=texts or plan.texts, steps=steps or plan.steps)


if __name__ == "__main__":
    app()
