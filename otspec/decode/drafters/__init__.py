"""Drafters: who proposes tokens, and by which law."""
