"""Steered draft models (SD2), whose layers the target's hidden states shift: model, drafter and training."""
