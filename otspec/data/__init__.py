"""Positions to solve: calibrated synthetic ones, recorded ones of real models, and the user's own; recorded trees."""

from otspec.data.files import FileSource, write_npz
from otspec.data.position import Position, Source, check_positions
from otspec.data.profiles import PROFILES, Profile, ProfileSource
from otspec.data.recorded import TopSource
from otspec.data.sources import NAMES, RECORDED, open_source, open_trees
from otspec.data.trees import RecordedTree, TreeSource

__all__ = [
    "NAMES",
    "PROFILES",
    "RECORDED",
    "FileSource",
    "Position",
    "Profile",
    "ProfileSource",
    "RecordedTree",
    "Source",
    "TopSource",
    "TreeSource",
    "check_positions",
    "open_source",
    "open_trees",
    "write_npz",
]
