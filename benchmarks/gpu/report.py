"""What a run left, for a person to read: how fast, where a step goes, and where the host waits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from benchmarks.reporting import Record
from otspec.decode.base.metrics import PHASES
from otspec.reporting.machine import processor, versions
from otspec.reporting.tables import TextTable, markdown_report

LABELS = ("pair", "batch", "method", "K x L", "draft top-k")


def machine(device: torch.device, dtype: torch.dtype) -> dict[str, str]:
    """What the figures belong to."""
    about = {"processor": processor(), "dtype": str(dtype).removeprefix("torch."), **versions("torch", "transformers")}
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        about |= {
            "gpu": properties.name,
            "gpu memory": f"{properties.total_memory / 1e9:.0f} GB",
            "cuda": str(torch.version.cuda),
        }
    return about


def report(records: Sequence[Record], about: dict[str, str], command: str) -> str:
    """All tables, in Markdown."""
    measured = [one for one in records if "error" not in one]
    paragraphs = [
        f"`{command}` on " + ", ".join(f"{name} {value}" for name, value in about.items()) + ".",
        "K paths of L tokens, temperature 1, target laws whole, draft laws cut to their top k. Pairs with a "
        "slash have random weights, which show nothing about block efficiency on real text.",
    ]
    return markdown_report([speeds(records), steps(measured), waits(measured)], (), paragraphs, "Decoding on a GPU")


def speeds(records: Sequence[Record]) -> TextTable:
    """Tokens a second, and the ratio to plain decoding of the same batch."""
    plain = {(one["pair"], one["batch"]): one for one in records if one["method"] == "vanilla" and "error" not in one}
    rows = []
    for one in records:
        if "error" in one:
            rows.append((*_labels(one), one["error"], *["-"] * 4))
            continue
        beside = plain.get((one["pair"], one["batch"]))
        rows.append(
            (
                *_labels(one),
                f"{one['tokens_per_s']:.1f} [{', '.join(f'{run:.1f}' for run in one['tokens_per_s_least_and_most'])}]",
                f"{one['tokens_per_s'] / beside['tokens_per_s']:.2f}" if beside else "-",
                f"{one['block_efficiency']:.2f}",
                f"{one['accepted'][0] / one['offered'][0]:.2f}" if one["offered"] else "-",
                "-" if one["peak_bytes"] is None else f"{one['peak_bytes'] / 1e9:.2f}",
            )
        )
    header = (*LABELS, "tokens/s", "over vanilla", "block eff.", "accepted 1", "peak, GB")
    note = (
        "Tokens of all texts, prompts not timed: median of three runs [least, most]. Accepted 1: share of a text's "
        "steps that accept a draft."
    )
    return TextTable("Speed", header, rows, note, labels=len(LABELS))


def steps(measured: Sequence[Record]) -> TextTable:
    """Milliseconds of a step by phase, and synchronisations."""
    rows = []
    for one in measured:
        calls = one["target_calls"]
        seconds = {phase: spent / (1 if phase == "prompt" else calls) for phase, spent in one["seconds"].items()}
        rows.append(
            (
                *_labels(one),
                *(f"{1e3 * spent:.2f}" for spent in seconds.values()),
                "-" if one["synchronisations"] is None else f"{one['synchronisations']:.1f}",
            )
        )
    header = (*LABELS, *PHASES, "rest", "syncs")
    note = (
        "Milliseconds of a step of the whole batch; prompt: of the whole run. Syncs: times that the "
        "host waits for the device in a step."
    )
    return TextTable("Where a step goes", header, rows, note, labels=len(LABELS))


def waits(measured: Sequence[Record]) -> TextTable | None:
    """The lines that make the host wait; None where nothing reported them."""
    rows = [
        (*_labels(one), place, str(times))
        for one in measured
        for place, times in sorted(one["synchronised_at"].items(), key=lambda found: -found[1])
    ]
    note = "Waits in the steps of a short run."
    return TextTable("Where the host waits", (*LABELS, "line", "times"), rows, note, len(LABELS) + 1) if rows else None


def _labels(one: dict[str, Any]) -> tuple[str, ...]:
    drafts = (f"{one['paths']} x {one['depth']}", str(one["draft_top_k"] or "none")) if one["paths"] else ("-", "-")
    return one["pair"], str(one["batch"]), one["method"], *drafts
