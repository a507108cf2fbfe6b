"""What a pair of models says, kept in files: positions along the target's own text, and drafted trees."""

from otspec.extras import require

require("torch")
require("transformers")
