"""The papers' claims as executable checks."""
