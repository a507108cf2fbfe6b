"""The audit of anybody's verification rule, `otspec.audit`."""

from otspec.auditing.entry import audit
from otspec.auditing.report import Audit, AuditVerdict

__all__ = ["Audit", "AuditVerdict", "audit"]
