"""The audit of whole inference engines: it finds out whether speculative text is the target's own.

`otspec.auditing` calls verification rules; here an engine is a black box that completes prompts, with drafts and
without.  What computes is imported when first asked for, so that the command can list the settings at once.
"""

import importlib
from typing import TYPE_CHECKING, Any

from otspec.engine_audit.engine import Acceptance, Engine, EngineDied, Sampling, Text
from otspec.engine_audit.settings import EngineAuditOptions, EngineAuditSettings

if TYPE_CHECKING:
    from otspec.engine_audit.entry import audit_engine
    from otspec.engine_audit.given import audit_texts
    from otspec.engine_audit.laws import FunctionLaws, Laws, ModelLaws
    from otspec.engine_audit.outcome import EngineOutcome, EngineVerdict
    from otspec.engine_audit.report import EngineAudit

_HOME_OF = {
    "EngineAudit": "report",
    "EngineOutcome": "outcome",
    "EngineVerdict": "outcome",
    "FunctionLaws": "laws",
    "Laws": "laws",
    "ModelLaws": "laws",
    "audit_engine": "entry",
    "audit_texts": "given",
}

__all__ = [
    "Acceptance",
    "Engine",
    "EngineAudit",
    "EngineAuditOptions",
    "EngineAuditSettings",
    "EngineDied",
    "EngineOutcome",
    "EngineVerdict",
    "FunctionLaws",
    "Laws",
    "ModelLaws",
    "Sampling",
    "Text",
    "audit_engine",
    "audit_texts",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
