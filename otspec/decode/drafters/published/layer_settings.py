"""What the settings of a layer have to be before transformers makes one of them, and how readers of old keys find them.

transformers 5 has ``rope_parameters`` where others have ``rope_theta`` and ``rope_scaling``; a folder may have either,
or both, which readers then take for one or the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transformers.activations import ACT2FN

from otspec.decode.drafters.published.checkpoint import Checkpoint

THETA, SCALING, PARAMETERS = OF_ROPE = ("rope_theta", "rope_scaling", "rope_parameters")
"""Where settings of rotary positions are."""
ROPES: Mapping[str, tuple[str, ...]] = {
    "default": (),
    "linear": ("factor",),
    "dynamic": ("factor",),
    "yarn": ("factor",),
    "longrope": ("short_factor", "long_factor"),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
}
"""What each of their types cannot do without; the factors of longrope are lists."""
SIZES = (
    *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim"),
    *("intermediate_size", "max_position_embeddings"),
)


def check_sizes(checkpoint: Checkpoint, settings: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """Raise unless numbers are numbers, sizes above 0 that heads divide, and the activation is known.

    Parameters
    ----------
    checkpoint : Checkpoint
    settings : mapping
        Of its layers.
    defaults : mapping
        Those of the layers' family, whose kinds are wanted.

    Raises
    ------
    DataError
        Naming the first that is not.
    """
    for name, value in settings.items():
        kind = int if name in SIZES else type(defaults.get(name))
        if kind not in (bool, int, float):
            continue
        checkpoint.setting(name, int if kind is float and type(value) is int else kind, within=settings)
        if name in SIZES and value < 1:
            raise checkpoint.refusal(f"its setting {name!r} is {value}, and at least 1 is wanted")
    heads = settings["num_attention_heads"]
    groups = settings.get("num_key_value_heads") or heads
    if heads % groups or ("head_dim" not in settings and settings["hidden_size"] % heads):
        raise checkpoint.refusal(
            f"its {heads} heads do not go into {groups} groups and a width of {settings['hidden_size']}"
        )
    if str(name := settings.get("hidden_act", "silu")) not in ACT2FN:
        raise checkpoint.refusal(f"its setting 'hidden_act' is {name!r}, an activation that is not known")


def rope_of(checkpoint: Checkpoint, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of rotary positions as transformers 5 has them, wherever they are.

    Raises
    ------
    DataError
        If two places contradict each other, the type is not known, or something of it is missing or no number.
    """
    found: dict[str, Any] = {}
    for place in OF_ROPE:
        if settings.get(place) is None:
            continue
        rope = {THETA: settings[THETA]} if place == THETA else dict(checkpoint.setting(place, dict, within=settings))
        if "type" in rope:
            rope.setdefault("rope_type", rope.pop("type"))
        for name, value in rope.items():
            if name in found and found[name] != value:
                raise checkpoint.refusal(
                    f"its settings contradict each other: {name} is {found[name]!r}, and in {place!r} it is {value!r}"
                )
        found |= rope
    kind = found.setdefault("rope_type", "default") if found else "default"
    if str(kind) not in ROPES:
        raise checkpoint.refusal(f"its rope_type is {kind!r}, which is not known; known: {', '.join(ROPES)}")
    for name in (*ROPES[kind], *([THETA] if THETA in found else [])):
        if name not in found:
            raise checkpoint.refusal(f"its rope_type is {kind!r}, and there is no {name!r}")
        numbers = found[name] if kind == "longrope" and isinstance(found[name], list) else [found[name]]
        if not all(type(one) in (int, float) and one > 0 for one in numbers):
            raise checkpoint.refusal(f"its setting {name!r} of rotary positions is {found[name]!r}, no number above 0")
    return found


def with_old_keys(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that readers of the old keys find, too, in place of 10 000 and no scaling."""
    rope = settings.get(PARAMETERS)
    if not isinstance(rope, dict) or THETA not in rope:
        return dict(settings)
    scaling = {name: value for name, value in rope.items() if name != THETA}
    more = {} if rope.get("rope_type", "default") == "default" else {SCALING: scaling}
    return {**settings, THETA: rope[THETA], **more}
