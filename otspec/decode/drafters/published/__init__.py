"""Draft models as others publish them and engines serve them: models, drafter, readers, writers and training."""
