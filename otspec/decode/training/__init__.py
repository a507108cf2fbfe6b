"""Draft models that learn from a target: `otspec train`."""

from otspec.decode.training.kinds import KINDS, Kind
from otspec.decode.training.lessons import Lessons
from otspec.decode.training.loop import Course, Point, train
from otspec.decode.training.losses import LOSSES
from otspec.decode.training.texts import own_texts

__all__ = ["KINDS", "LOSSES", "Course", "Kind", "Lessons", "Point", "own_texts", "train"]
