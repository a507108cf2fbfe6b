"""The audit of anybody's verification rule: `otspec.audit`, and `otspec.audit_paths` for several tokens at once."""

from otspec.auditing.entry import audit
from otspec.auditing.paths import PathAudit, audit_paths
from otspec.auditing.report import Audit, AuditVerdict

__all__ = ["Audit", "AuditVerdict", "PathAudit", "audit", "audit_paths"]
