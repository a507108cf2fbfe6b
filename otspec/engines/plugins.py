"""What engines load of every package that offers it, by entry point.  Nothing happens unless the environment asks."""

from __future__ import annotations

import os

from otspec.engines.loading import asked
from otspec.extras import require


def vllm() -> None:
    """Entry point `otspec` in `vllm.general_plugins`: with OTSPEC_VLLM=1, `otspec.engines.vllm.put_in_place`.

    With OTSPEC_RECORD=FOLDER what is verified is kept there, whoever does it.

    Raises
    ------
    ProblemError
        If a variable has a value that it cannot have, or vLLM's function takes other arguments than ours.
    """
    ours = asked("OTSPEC_VLLM")
    if not ours and not os.environ.get("OTSPEC_RECORD"):
        return
    from otspec.engines import vllm_recorder
    from otspec.engines.vllm import MODULE, put_in_place

    if ours:
        put_in_place()
    if recorder := vllm_recorder.asked_for():
        vllm_recorder.put_in_place(require(MODULE), recorder)


def sglang() -> None:
    """Entry point `otspec` in `sglang.srt.plugins`: with OTSPEC_SGLANG=1, `otspec.engines.sglang.put_in_place`.

    Raises
    ------
    ProblemError
        If the variable is neither 0 nor 1, or SGLang's function takes other arguments than ours.
    """
    if asked("OTSPEC_SGLANG"):
        from otspec.engines.sglang import put_in_place

        put_in_place()
