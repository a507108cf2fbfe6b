"""How much a rule accepts on drafts of a shape, and the synthetic models on which that is measured."""
