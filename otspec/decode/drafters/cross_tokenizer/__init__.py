"""Drafting with a model of another tokenizer than the target's: token-level intersection [timor2025accelerating]."""
