"""Our rules behind the functions that inference engines call, on tensors of any device; docs/device.md says which."""

from otspec.extras import require

require("torch")
