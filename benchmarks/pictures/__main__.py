"""Draw what a page explains: ``python -m benchmarks.pictures nested_labels docs/nested_labels.png``."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.pictures import branching_node, interval, nested_labels

PICTURES = {module.__name__.rpartition(".")[2]: module.draw for module in (nested_labels, branching_node, interval)}


def main() -> None:
    """Draw a picture."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pictures", description="Draw what a page explains.")
    parser.add_argument("name", choices=PICTURES)
    parser.add_argument("path", type=Path, help="a .png or .svg file")
    given = parser.parse_args()
    PICTURES[given.name]().save(given.path)


if __name__ == "__main__":
    main()
