"""What draft laws are worth, and what the rules in use leave of it.

    python -m benchmarks.draft_laws laws [--positions 200] [--data llama3,gemma2] [--out FOLDER]

What solvers of a draft law cost is measured by `otspec bench --scheme`.
"""

from __future__ import annotations

from benchmarks.draft_laws import laws
from benchmarks.questions import driver

QUESTIONS = (laws.LAWS,)
app = driver(__doc__, QUESTIONS)

if __name__ == "__main__":
    app()
