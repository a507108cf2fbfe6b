"""The audit of whole inference engines: it finds out whether speculative text is the target's own.

`otspec.auditing` calls verification rules; here an engine is a black box that completes prompts, with drafts and
without.
"""

from otspec.engine_audit.engine import Acceptance, Engine, EngineDied, Sampling, Text
from otspec.engine_audit.entry import audit_engine
from otspec.engine_audit.laws import FunctionLaws, Laws, ModelLaws
from otspec.engine_audit.outcome import EngineOutcome, EngineVerdict
from otspec.engine_audit.report import EngineAudit
from otspec.engine_audit.settings import EngineAuditOptions, EngineAuditSettings

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
]
