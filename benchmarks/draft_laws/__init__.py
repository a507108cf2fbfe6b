"""The driver of draft laws: what each is worth with every rule that verifies it."""
