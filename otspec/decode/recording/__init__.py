"""The laws of a pair of models, stored in files: positions along the target's own text, and drafted trees."""

from otspec.extras import require

require("torch")
require("transformers")
