"""What learns: draft models from their target (`otspec train`), and `routers` of shortlists."""

from otspec.decode.lessons.kind import Kind
from otspec.decode.lessons.lesson import Lessons
from otspec.decode.lessons.losses import LOSSES, Said
from otspec.decode.lessons.texts import own_texts
from otspec.decode.training.folder import train_into
from otspec.decode.training.kinds import KINDS
from otspec.decode.training.loop import Course, Point, train

__all__ = ["KINDS", "LOSSES", "Course", "Kind", "Lessons", "Point", "Said", "own_texts", "train", "train_into"]
