"""Rows of the table in docs/engines.md, from what `otspec audit-engine --json` wrote.

python -m benchmarks.engine_rows vllm.json openvino.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HEAD = (
    "| engine | drafts | sampling | texts | verdict | total variation | accepted |",
    "|---|---|---|---:|---|---|---|",
)


def row(result: Mapping[str, Any]) -> str:
    """One audit as a line of the table."""
    places = result["places"]
    verdict = result["verdict"]
    cells = (
        f"{result['engine']} {result['version']}",
        result["method"],
        "; ".join(dict.fromkeys(place["sampling"] for place in places)) or "greedy",
        f"{result['texts']:,}",
        f"**{verdict}**" if verdict == "not lossless" else verdict,
        _variation(result),
        "; ".join(filter(None, (_accepted(result.get("acceptance")), _first(result.get("first_drafts"))))),
    )
    return f"| {' | '.join(cells)} |"


def _variation(result: Mapping[str, Any]) -> str:
    """The largest lower bound and its position; where there is none, the bias that would have been found."""
    worst = max(result["places"], key=lambda place: (place["lower"], place["evidence"]), default=None)
    if worst is not None and worst["lower"] > 0:
        return f"≥ {worst['lower']:.3f} at token {worst['position']}"
    control = result["control"]
    if control["caught"] is None or control["tv"] is None:
        return ""
    return f"{control['tv']:.3f} a token is found in {control['caught']:,}"


def _accepted(told: list[Any] | None) -> str:
    """Accepted tokens as the engine counts them, the fields of an `Acceptance`."""
    return "" if told is None else f"{told[2]:,} of {told[1]:,} drafts"


def _first(figures: Mapping[str, Any] | None) -> str:
    """How many texts accept a first draft, and how many can, the fields of a `FirstDrafts`."""
    if figures is None:
        return ""
    accepted, optimum = (figures[name] / figures["texts"] for name in ("accepted", "optimum"))
    return f"{accepted:.3f} of first drafts, at most {optimum:.3f} can be"


def main(files: list[str]) -> None:
    """Print the table."""
    sys.stdout.write(
        "".join(f"{line}\n" for line in (*HEAD, *(row(json.loads(Path(file).read_text())) for file in files)))
    )


if __name__ == "__main__":
    main(sys.argv[1:])
