"""The audit of rules that verify several tokens, or several paths, at once: `otspec.audit_paths`."""

from otspec.auditing.paths.entry import audit_paths
from otspec.auditing.paths.report import PathAudit

__all__ = ["PathAudit", "audit_paths"]
