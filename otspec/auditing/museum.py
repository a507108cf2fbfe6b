"""The former name of `otspec.auditing.known_bugs`; its names work for one release."""

from otspec.deprecation import former_names

_HOME = "otspec.auditing.known_bugs"
_RENAMED = {"EXHIBITS": "KNOWN_BUGS", "Exhibit": "KnownBug", "Hung": "Audits", "SOUND_SINGLE": "CORRECT_SINGLE"}
_MOVED = (
    *("GumbelPair", "ReleasedHierarchical", "TAIL", "always_accepts", "coarse_race", "coarse_race_law", "drawn_from"),
    *("greedy_silently", "in_bfloat16", "tail_instance", "token_wise_law"),
)

__getattr__ = former_names(
    __name__, {old: f"{_HOME}:{new}" for old, new in (*_RENAMED.items(), *((name, name) for name in _MOVED))}
)
