"""What learns: draft models from their target (`otspec train`), and `routers` of shortlists."""

from otspec.extras import require

require("torch")
require("transformers")

from otspec.decode.distillation.losses import LOSSES, Prediction  # noqa: E402
from otspec.decode.distillation.spec import DraftModelSpec  # noqa: E402
from otspec.decode.distillation.teacher import TeacherData  # noqa: E402
from otspec.decode.distillation.texts import own_texts  # noqa: E402
from otspec.decode.training.folder import train_into  # noqa: E402
from otspec.decode.training.loop import Forecast, Point, TrainingConfig, train  # noqa: E402
from otspec.decode.training.resume import read_record, with_earlier  # noqa: E402
from otspec.decode.training.specs import KINDS  # noqa: E402

__all__ = [
    "KINDS",
    "LOSSES",
    "DraftModelSpec",
    "Forecast",
    "Point",
    "Prediction",
    "TeacherData",
    "TrainingConfig",
    "own_texts",
    "read_record",
    "train",
    "train_into",
    "with_earlier",
]
