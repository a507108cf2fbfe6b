"""The front of audits for whole inference engines: it finds out whether speculative text is the target's own.

Where `otspec.auditing.rules` calls verification rules, an engine is a black box that completes prompts, with drafts and
without.  What computes is imported when first asked for, so that the command can list the settings at once.
"""

from typing import TYPE_CHECKING

from otspec.auditing.engines.engine import Acceptance, Engine, EngineDied, Sampling, Text
from otspec.auditing.engines.settings import EngineAuditOptions, EngineAuditSettings
from otspec.lazy import attach

if TYPE_CHECKING:
    from otspec.auditing.engines.audit import audit_engine, audit_texts
    from otspec.auditing.engines.laws import FunctionLaws, Laws, ModelLaws
    from otspec.auditing.engines.report import EngineAudit, EngineOutcome, EngineVerdict

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

__getattr__, __dir__ = attach(__name__)
