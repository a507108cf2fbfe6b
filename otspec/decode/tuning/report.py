"""What tuning found, as tables."""

from __future__ import annotations

from otspec.decode.tuning.candidates import PLAIN
from otspec.decode.tuning.costs import CostModel, PassTimes, Prediction
from otspec.decode.tuning.tuner import Tuning
from otspec.reporting.tables import TextTable


def tables(tuning: Tuning) -> list[TextTable]:
    """Times of passes, predictions, and the race."""
    return [passes_table(tuning), predictions_table(tuning), race_table(tuning)]


def passes_table(tuning: Tuning) -> TextTable:
    """Milliseconds of a pass by its rows."""
    models = {"target": tuning.model.target} | ({"draft": tuning.model.draft} if tuning.model.draft else {})
    counts = sorted({rows for times in models.values() for rows in times.rows})
    rows = [(name, *(_at(times, count) for count in counts)) for name, times in models.items()]
    note = "Milliseconds of one pass of decoding over so many rows, one text; the median."
    return TextTable("Passes", ("model", *map(str, counts)), rows, note, labels=1)


def _at(times: PassTimes, count: int) -> str:
    return f"{1e3 * times(count):.2f}" if count in times.rows else "-"


def predictions_table(tuning: Tuning) -> TextTable:
    """The best depth of every family, and plain decoding."""
    model = tuning.model
    rows = [_predicted(one, model) for one in (model.predict(PLAIN), *model.best())]
    note = (
        "The best depth L of every family, from acceptance by depth and times of passes. Draft, target, rest: "
        "milliseconds per step; rest is what steps took in trials beyond the passes"
        f"{'' if model.draft else ', among them those of the draft model, which has none without the target'}."
    )
    header = ("way", "tokens/step", "draft", "target", "rest", "ms/token", "speed-up")
    return TextTable("Predicted", header, rows, note, labels=1, details=frozenset(("draft", "target", "rest")))


def _predicted(one: Prediction, model: CostModel) -> tuple[str, ...]:
    draft = f"{1e3 * one.draft:.2f}" if model.draft else "-"
    times = (f"{1e3 * seconds:.2f}" for seconds in (one.target, one.rest, one.per_token))
    return (one.candidate.name, f"{one.tokens:.2f}", draft, *times, f"{model.speed_up(one):.2f}")


def race_table(tuning: Tuning) -> TextTable:
    """Predicted beside measured speed-up."""
    rows: list[tuple[str, ...]] = []
    for one in tuning.raced:
        predicted = tuning.model.speed_up(tuning.model.predict(one.candidate))
        measured = "1" if one.candidate == PLAIN else str(one.speed_up)
        milliseconds = 1e3 * sum(one.per_token) / len(one.per_token)
        rows.append((one.candidate.name, f"{predicted:.2f}", measured, f"{milliseconds:.2f}", str(len(one.per_token))))
    note = (
        "Speed-up over plain decoding of the same prompts, in turn, from call to text: geometric mean of the ratios, "
        "and its interval, which holds with 95 % for all rows together."
    )
    return TextTable("Measured", ("way", "predicted", "measured", "ms/token", "texts"), rows, note, labels=1)
