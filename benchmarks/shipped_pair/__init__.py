"""How the pair of models that comes with the package was trained and recorded."""
