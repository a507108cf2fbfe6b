"""What engines load of every package that offers it, by entry point.  Nothing happens unless the environment asks."""

from __future__ import annotations

from otspec.engines.loading import asked


def vllm() -> None:
    """Entry point `otspec` in `vllm.general_plugins`: with OTSPEC_VLLM=1, `otspec.engines.vllm.put_in_place`.

    Raises
    ------
    ProblemError
        If the variable is neither 0 nor 1, or vLLM's function takes other arguments than ours.
    """
    if asked("OTSPEC_VLLM"):
        from otspec.engines.vllm import put_in_place

        put_in_place()


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
