"""Verification of drafted trees in decoding: on the host, to which laws come in one copy, or on the models' device.

`verifiers` chooses the rule of `otspec.verification`, and `step` the verifier of a step; `laws` brings both
models' laws to the host, and `on_device` what the device accepts, by `captured` graphs on a GPU.
"""

from otspec.extras import require

require("torch")
require("transformers")
