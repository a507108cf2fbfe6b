"""The audit of anybody's verification rule, `otspec.audit`."""

from otspec.auditing.front import audit
from otspec.auditing.report import Audit, AuditVerdict

__all__ = ["Audit", "AuditVerdict", "audit"]
