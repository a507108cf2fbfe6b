"""The audit of whole inference engines: it finds out whether speculative text is the target's own.

`otspec.auditing` calls verification rules; here an engine is a black box that completes prompts, with drafts and
without.  What computes is imported when first asked for, so that the command can list the settings at once.
"""

from typing import TYPE_CHECKING

from otspec.engine_audit.engine import Acceptance, Engine, EngineDied, Sampling, Text
from otspec.engine_audit.settings import EngineAuditOptions, EngineAuditSettings
from otspec.lazy import names_of

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


__getattr__ = names_of(__name__, {name: f"{__name__}.{module}" for name, module in _HOME_OF.items()})


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
