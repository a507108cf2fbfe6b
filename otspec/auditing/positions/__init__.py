"""The audit of a rule that verifies the drafts of one position: `otspec.audit`."""

from otspec.auditing.positions.entry import audit

__all__ = ["audit"]
