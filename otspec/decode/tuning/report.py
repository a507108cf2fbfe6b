"""What tuning found, as tables."""

from __future__ import annotations

from otspec.decode.tuning.candidates import PLAIN
from otspec.decode.tuning.tuner import Tuning
from otspec.reporting.tables import TextTable


def tables(tuning: Tuning) -> list[TextTable]:
    """Predictions, and the race."""
    return [predictions_table(tuning), race_table(tuning)]


def predictions_table(tuning: Tuning) -> TextTable:
    """The best depth of every family, and plain decoding."""
    model = tuning.model
    best = sorted(model.best(), key=lambda one: -model.trial(one.candidate).texts)
    rows = [
        (
            one.candidate.name,
            f"{one.tokens:.2f}",
            *(f"{1e3 * seconds:.2f}" for seconds in (one.step, one.per_token)),
            f"{model.speed_up(one):.2f}",
            str(model.trial(one.candidate).texts),
        )
        for one in (model.predict(PLAIN), *best)
    ]
    note = (
        "The best depth L of every family, from acceptance by depth and the times of steps in trials. The better half "
        "of the families had more texts; what fewer show is less sure."
    )
    header = ("way", "tokens/step", "ms/step", "ms/token", "speed-up", "texts")
    return TextTable("Predicted", header, rows, note, labels=1)


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
