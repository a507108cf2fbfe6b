"""The fastest lossless way to decode with a pair of models, on the machine at hand, by a short measurement.

`tune` measures and chooses, `Tuned` is its choice: settings that are saved to a file, loaded and used.

Inside: `candidates` are the ways to decode that it considers; `trials` decodes a little by each; from that `costs`
predicts the speed-up of every candidate, and `race` measures that of the best of them beside plain decoding.
`identity` names the machine that was measured on, and `report` shows all of it.
"""

from otspec.extras import require

require("torch")
require("transformers")

from otspec.decode.tuning.tuned import Tuned  # noqa: E402
from otspec.decode.tuning.tuner import Tuning, tune  # noqa: E402

__all__ = ["Tuned", "Tuning", "tune"]
