"""What learns: draft models from their target (`otspec train`), and `routers` of shortlists."""

from otspec.decode.training.folder import train_into
from otspec.decode.training.kinds import KINDS, Kind
from otspec.decode.training.lessons import Lessons
from otspec.decode.training.loop import Course, Point, train
from otspec.decode.training.losses import LOSSES, Said
from otspec.decode.training.texts import own_texts

__all__ = ["KINDS", "LOSSES", "Course", "Kind", "Lessons", "Point", "Said", "own_texts", "train", "train_into"]
