"""Slow and exact: rules in rational arithmetic, and the law of a rule's output by enumeration, for tests and claims."""
