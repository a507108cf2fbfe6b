"""Prompts of our own: short, of several kinds, after which a model is neither sure nor at a loss."""

DEFAULT = (
    "import numpy as",
    "The capital of the country is",
    "def read(path",
    "Once there was a",
)
