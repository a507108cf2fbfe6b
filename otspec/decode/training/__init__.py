"""What learns: draft models from their target (`otspec train`), and `routers` of shortlists."""

from otspec.extras import require

require("torch")
require("transformers")

from otspec.decode.lessons.kind import Kind  # noqa: E402
from otspec.decode.lessons.lesson import Lessons  # noqa: E402
from otspec.decode.lessons.losses import LOSSES, Prediction  # noqa: E402
from otspec.decode.lessons.texts import own_texts  # noqa: E402
from otspec.decode.training.earlier import read_record, with_earlier  # noqa: E402
from otspec.decode.training.folder import train_into  # noqa: E402
from otspec.decode.training.kinds import KINDS  # noqa: E402
from otspec.decode.training.loop import Course, Forecast, Point, train  # noqa: E402

__all__ = [
    "KINDS",
    "LOSSES",
    "Course",
    "Forecast",
    "Kind",
    "Lessons",
    "Point",
    "Prediction",
    "own_texts",
    "read_record",
    "train",
    "train_into",
    "with_earlier",
]
