"""What a run comes to: Table 1 of the paper for each beginning, Welch's tests, and one table of all drafters."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.drafters.plan import FREE, PRETRAINED, WAYS, Learner, Plan, Way
from benchmarks.drafters.times import measured, per_draft, speed
from benchmarks.reporting import Record
from otspec.decode.drafters.sd2.training import LONGEST
from otspec.decode.training import KINDS
from otspec.decode.training.folder import CURVE, RECORD
from otspec.reporting.means import welch
from otspec.reporting.tables import TextTable

CHAIN, GREEDY, TREE = WAYS
SHOWN = (1, 2, 4, 8)
"""Depths whose share of steps is shown."""


def of_way(records: Iterable[Record], name: str, way: Way) -> list[Record]:
    """A drafter's records of whole texts, one a seed."""
    wanted = way._asdict() if name not in FREE else {"temperature": way.temperature}
    mine = [one for one in records if one["name"] == name and "tokens" in one and "window" not in one]
    found = [one for one in mine if all(one[key] == value for key, value in wanted.items())]
    return sorted(found, key=lambda one: int(one["seed"]))


def taus(records: Iterable[Record], name: str, way: Way) -> list[float]:
    """Tokens a call of the target, one a seed."""
    return [one["tokens"] / one["sequence_steps"] for one in of_way(records, name, way)]


def reach(records: Iterable[Record], name: str, way: Way) -> list[float]:
    """The share of a text's steps that accept 1, 2, ... drafts, over all seeds."""
    mine = of_way(records, name, way)
    steps = sum(one["sequence_steps"] for one in mine)
    depth = max((len(one["accepted"]) for one in mine), default=0)
    got = [sum(one["accepted"][at] for one in mine if at < len(one["accepted"])) for at in range(depth)]
    return [each / steps for each in got]


def by_window(records: Iterable[Record], name: str) -> dict[float, float]:
    """Accepted drafts a step, by the middle of the window of the text, over all seeds."""
    found: dict[float, list[Record]] = {}
    for one in records:
        if one["name"] == name and "window" in one:
            found.setdefault(float(np.mean(one["window"])), []).append(one)
    return {
        at: sum(sum(one["accepted"]) for one in some) / sum(one["sequence_steps"] for one in some)
        for at, some in sorted(found.items())
    }


def by_offset(records: Iterable[Record], name: str) -> list[float]:
    """Held-out acceptance of a steered draft by how old the steering is, the mean over seeds; empty where it is not."""
    found = [one["by_offset"] for one in records if one["name"] == name and "by_offset" in one]
    return [float(one) for one in np.mean(found, axis=0)] if found else []


def held_out(records: Iterable[Record], name: str) -> float | None:
    """Held-out acceptance of a draft model that reads nothing of the target, the mean over seeds."""
    found = [one["held_out"] for one in records if one["name"] == name and "held_out" in one]
    return float(np.mean(found)) if found else None


def curves(plan: Plan, out: Path, learner: Learner) -> list[list[dict[str, Any]]]:
    """The points of the curve of each seed that is there."""
    files = [learner.folder(out, seed) / CURVE for seed in range(plan.seeds)]
    return [[json.loads(line) for line in file.read_text().splitlines()] for file in files if file.exists()]


def training(out: Path, learner: Learner, seed: int) -> dict[str, Any]:
    """What is known of a training; nothing where there was none."""
    path = learner.folder(out, seed) / RECORD
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


def table_1(plan: Plan, records: Sequence[Record], out: Path) -> TextTable:
    """Table 1 and Table 3 of the paper: pretrained, distilled, steered and EAGLE-style, by what they begin with."""
    rows = []
    for learner in plan.learners:
        mine = taus(records, learner.name, CHAIN)
        if not mine:
            continue
        plain = taus(records, f"{learner.start}-{PRETRAINED}", CHAIN)
        distilled = next((one for one in plan.learners if one[:2] == (learner.start, "distilled")), None)
        beside = taus(records, distilled.name, CHAIN) if distilled and learner not in (distilled,) else []
        points = curves(plan, out, learner)
        rows.append(
            (
                learner.start,
                learner.kind,
                spread([one[-1]["acceptance"] for one in points], 4),
                spread([one[-1]["loss"] for one in points], 4),
                spread(mine, 3),
                spread(taus(records, learner.name, GREEDY), 3),
                *(welch(mine, plain) if learner.learns else ("-", "-")),
                *(welch(mine, beside) if learner.learns and beside else ("-", "-")),
                *(shown(speed(measured(out), learner.name, f"{learner.start}-{PRETRAINED}", heat)) for heat in (1, 0)),
            )
        )
    header = (
        *("begins as", "drafter", "held-out", "loss", "tau, T = 1", "tau, T = 0", "t", "p"),
        *("t to distilled", "p", "speed-up, T = 1", "T = 0"),
    )
    note = (
        f"L = {CHAIN.depth}, one path. ± is the standard deviation over {plan.seeds} seeds, of training and decoding. "
        "t, p: Welch's test of tau at T = 1 against the pretrained drafter, and against the distilled one. Held-out: "
        "acceptance of one draft on texts that were not learnt from; loss: of the last steps of training. Speed-up: "
        "over the pretrained drafter of its row, of the first seed on a CPU, with 95 % intervals over prompts."
    )
    return TextTable("Pretrained, distilled, steered, EAGLE-style", header, rows, note)


def ablations(plan: Plan, records: Sequence[Record], out: Path) -> TextTable:
    """Figure 6 of the paper: steering, what is left of it without g, and what it is when one thing is changed."""
    starts = {one.start for one in plan.ablations}
    whole = [one for one in plan.learners if one.start in starts and one.kind in ("distilled", "sd2")]
    steered = {one.start: taus(records, one.name, CHAIN) for one in whole if one.kind == "sd2"}
    rows: list[tuple[str, ...]] = []
    for learner in (*whole, *plan.ablations):
        mine = taus(records, learner.name, CHAIN)
        if not mine:
            continue
        beside = steered.get(learner.start, [])
        rows.append(
            (
                learner.start,
                learner.kind,
                learner.loss or KINDS[learner.kind].loss,
                spread([one[-1]["acceptance"] for one in curves(plan, out, learner)], 4),
                spread(mine, 3),
                spread(taus(records, learner.name, GREEDY), 3),
                *(welch(mine, beside) if mine != beside else ("-", "-")),
            )
        )
    header = ("begins as", "drafter", "loss", "held-out", "tau, T = 1", "tau, T = 0", "t to sd2", "p")
    note = (
        f"L = {CHAIN.depth}, one path; distilled is the one without g. Held-out: acceptance of one draft, steered by "
        f"what the target thought 1 to {LONGEST} tokens before. t, p: Welch's test of tau at T = 1 against sd2."
    )
    return TextTable("Ablations of steering", header, rows, note)


def table(plan: Plan, records: Sequence[Record], out: Path) -> TextTable:
    """One row for everything that drafts."""
    times = measured(out)
    rows = []
    names = [(learner.name, learner) for learner in plan.learners]
    for name, learner in [*names, *((name, None) for name in FREE)]:
        mine = of_way(records, name, CHAIN)
        if not mine:
            continue
        shares = reach(records, name, CHAIN)
        learnt = [training(out, learner, seed) for seed in range(plan.seeds)] if learner else []
        rows.append(
            (
                *((learner.start, learner.kind) if learner else ("free", name)),
                f"{mine[0]['parameters']:,}".replace(",", " "),
                " ".join(f"{shares[depth - 1]:.2f}" for depth in SHOWN if depth <= len(shares)),
                spread(taus(records, name, CHAIN), 2),
                spread(taus(records, name, TREE) if learner else [], 2),
                spread(taus(records, name, GREEDY), 2),
                "-" if (each := per_draft(times, name)) is None else f"{each:.2f}",
                *(shown(speed(times, name, over, 1)) for over in ("vanilla", "generate")),
                shown(speed(times, name, "vanilla", 0)),
                spread([one["seconds"] / 60 for one in learnt if one], 1),
            )
        )
    header = (
        *("begins as", "drafter", "parameters"),
        f"reach {', '.join(map(str, SHOWN))}",
        *("tau, block", f"tau, nested, K = {TREE.paths}", "tau, T = 0", "ms a draft"),
        *("over vanilla", "over generate", "over vanilla, T = 0", "minutes"),
    )
    note = (
        f"L = {CHAIN.depth} and T = 1 by default. Reach: the share of a text's steps that accept so "
        "many drafts. Ms a draft, and speed-ups: one text at a time on a CPU, all in turns. Minutes: of training, "
        "beside what trained with it."
    )
    return TextTable("All drafters", header, rows, note)


def spread(values: Sequence[float | None], digits: int) -> str:
    """Mean and standard deviation."""
    known = [one for one in values if one is not None]
    if not known:
        return "-"
    deviation = f" ± {np.std(known, ddof=1):.{digits}f}" if len(known) > 1 else ""
    return f"{np.mean(known):.{digits}f}{deviation}"


def shown(value: object) -> str:
    """A figure, or a dash."""
    return "-" if value is None else str(value)
