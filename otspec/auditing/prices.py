"""The former name of `otspec.auditing.lossy_rules`; its names work for one release."""

from otspec.deprecation import former_names

_HOME = "otspec.auditing.lossy_rules"
_RENAMED = {"Lossy": "LossyRule", "Price": "LossyFigures", "price": "measure_texts", "token_price": "measure_token"}
_MOVED = ("LOSSY", "MAX_TEXTS", "lenient", "typical")

__getattr__ = former_names(
    __name__, {old: f"{_HOME}:{new}" for old, new in (*_RENAMED.items(), *((name, name) for name in _MOVED))}
)
