"""The audit of anybody's verification rule, `otspec.audit`."""

from otspec.auditing.front import audit
from otspec.auditing.report import Audit, Verdict

__all__ = ["Audit", "Verdict", "audit"]
