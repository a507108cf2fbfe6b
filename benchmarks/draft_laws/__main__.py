"""What draft laws are worth, what the rules in use leave of it, and what solvers of them cost.

python -m benchmarks.draft_laws laws [--positions 200] [--data llama3,gemma2] [--out FOLDER]
python -m benchmarks.draft_laws shipped | rules
python -m benchmarks.draft_laws without-replacement | distinct-laws | luce | slackness | earliest-deadline
"""

from __future__ import annotations

from benchmarks.draft_laws import duels, laws, rules, shipped, solving
from benchmarks.questions import driver

QUESTIONS = (
    laws.LAWS,
    shipped.SHIPPED,
    rules.RULES,
    solving.WITHOUT_REPLACEMENT,
    solving.DISTINCT_LAWS,
    solving.LUCE,
    duels.SLACKNESS,
    duels.EARLIEST_DEADLINE,
)
app = driver(__doc__, QUESTIONS)

if __name__ == "__main__":
    app()
