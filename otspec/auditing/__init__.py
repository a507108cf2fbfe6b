"""The audit of anybody's verification rule: `otspec.audit`, and `otspec.audit_paths` for several tokens at once.

One driver audits any subject (`otspec.auditing.driver`); `otspec.auditing.positions` and `otspec.auditing.paths` have
the two.  What computes is imported when first asked for, so that the command can list the settings at once.
"""

import importlib
from typing import TYPE_CHECKING, Any

from otspec.auditing.settings import AuditOptions, AuditSettings
from otspec.lazy import names_of

if TYPE_CHECKING:
    from otspec.auditing.outcome import AuditVerdict
    from otspec.auditing.paths import PathAudit, audit_paths
    from otspec.auditing.positions import audit
    from otspec.auditing.report import Audit

_HOME_OF = {
    "Audit": "report",
    "AuditVerdict": "outcome",
    "PathAudit": "paths",
    "audit": "positions",
    "audit_paths": "paths",
}

__all__ = ["Audit", "AuditOptions", "AuditSettings", "AuditVerdict", "PathAudit", "audit", "audit_paths"]


_found = names_of(__name__, {name: f"{__name__}.{module}" for name, module in _HOME_OF.items()})


def __getattr__(name: str) -> Any:
    if name in ("paths", "positions"):
        return importlib.import_module(f"{__name__}.{name}")
    return _found(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
