"""Former names of `otspec.kernels.interval.exchange`, which pickles of plans hold; they go with the next release."""

from otspec.deprecation import former_names

KEPT = (
    "CHUNK",
    "LEVEL",
    "Memory",
    "Places",
    "Sizes",
    "Workspace",
    "certify",
    "measure_places",
    "memory",
    "solve_and_certify",
    "trim",
)
RENAMED = {"hold_in_block": "exchange_in_block", "hold_lotteries": "solve_places", "room_for": "empty_places"}

__getattr__ = former_names(
    __name__,
    {
        former: f"otspec.kernels.interval.exchange:{present}"
        for former, present in ({name: name for name in KEPT} | RENAMED).items()
    },
)
