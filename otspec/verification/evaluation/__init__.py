"""How deep a rule gets on drafts of a shape, on synthetic models or contexts of real ones, and which shape to draft."""
