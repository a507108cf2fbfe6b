"""EAGLE-style draft models, fed with the target's hidden states at every token: model, drafter and training."""
