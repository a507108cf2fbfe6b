"""The audit of whole inference engines: it finds out whether speculative text is the target's own.

`otspec.auditing` calls verification rules; here an engine is a black box that completes prompts, with drafts and
without.
"""

from otspec.engine_audit.engine import Acceptance, Engine, EngineDied, Sampling, Text

__all__ = ["Acceptance", "Engine", "EngineDied", "Sampling", "Text"]
