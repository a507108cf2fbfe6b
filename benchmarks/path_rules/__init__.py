"""The driver of path rules: what each accepts of drafted trees."""
