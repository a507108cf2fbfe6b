"""Audits, of rules and of engines: `otspec.audit`, and `otspec.audit_paths` for several tokens at once.

Sequential tests (`evidence`), settings, outcomes and reports are here; `rules` and `engines` are two fronts on them.
What computes is imported when first needed, so that the command can list the settings at once.
"""

from typing import TYPE_CHECKING

from otspec.auditing.settings import AuditOptions, AuditSettings
from otspec.lazy import names_of

if TYPE_CHECKING:
    from otspec.auditing.outcome import AuditVerdict
    from otspec.auditing.rules.entry import audit, audit_paths
    from otspec.auditing.rules.report import Audit, PathAudit

_HOME_OF = {
    "Audit": "rules.report",
    "AuditVerdict": "outcome",
    "PathAudit": "rules.report",
    "audit": "rules.entry",
    "audit_paths": "rules.entry",
}

__all__ = ["Audit", "AuditOptions", "AuditSettings", "AuditVerdict", "PathAudit", "audit", "audit_paths"]


__getattr__ = names_of(__name__, {name: f"{__name__}.{module}" for name, module in _HOME_OF.items()})


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
