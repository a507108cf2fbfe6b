"""The driver of draft laws: what each is worth with every solver and rule that verifies it, and what that costs."""
