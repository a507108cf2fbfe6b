"""Models by name, a target with what drafts for it."""
