"""Audits, of rules and of engines: `otspec.audit`, and `otspec.audit_paths` for several tokens at once.

Sequential tests (`evidence`), settings, outcomes and reports are here; `rules` and `engines` are two fronts on them.
What computes is imported when first needed, so that the command can list the settings at once.
"""

from typing import TYPE_CHECKING

from otspec.auditing.settings import AuditOptions, AuditSettings
from otspec.lazy import attach

if TYPE_CHECKING:
    from otspec.auditing.outcome import AuditVerdict
    from otspec.auditing.rules.audit import audit, audit_paths
    from otspec.auditing.rules.report import Audit, PathAudit

__all__ = ["Audit", "AuditOptions", "AuditSettings", "AuditVerdict", "PathAudit", "audit", "audit_paths"]

__getattr__, __dir__ = attach(__name__)
