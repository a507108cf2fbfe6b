"""vLLM's verification of drafts by our rule, on tensors of any device; docs/vllm.md says how."""

from otspec.extras import require

require("torch")
