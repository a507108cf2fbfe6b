"""How often the host waits for the GPU in a step of decoding, or in another call, and where."""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from unittest.mock import patch

import torch

import otspec
from otspec.decode.step.loop import Decoder

SAID = "called a synchronizing CUDA operation"
"""What torch warns of."""
STEP = Decoder.step.__code__
HOME = Path(otspec.__file__).parent


@dataclass
class Count:
    """Synchronisations of a run; without a GPU nothing reports them."""

    known: bool
    within: CodeType = STEP
    """Of the function in which they count."""
    places: Counter[str] = field(default_factory=Counter)
    """Those that count, by the line of ours that caused them."""

    def per_step(self, steps: int) -> float | None:
        """In the mean; None where they are not reported, or the run is not made of our steps."""
        return self.places.total() / steps if self.known and self.places else None

    def note(self) -> None:
        """Count one, if the function is on the stack."""
        frame: FrameType | None = sys._getframe(1)
        place, within = "", False
        while frame is not None and not within:
            file = Path(frame.f_code.co_filename)
            if not place and file.is_relative_to(HOME):
                place = f"{file.relative_to(HOME.parent)}:{frame.f_lineno}"
            within = frame.f_code is self.within
            frame = frame.f_back
        if within:
            self.places[place] += 1


@contextmanager
def counted(device: torch.device, within: CodeType = STEP) -> Iterator[Count]:
    """Count the operations that make the host wait for the device, by torch's own warnings, and waits for an event.

    Those within one function count: by default, a step of decoding.
    """
    count = Count(device.type == "cuda", within)
    with warnings.catch_warnings():
        passed_on = warnings.showwarning

        def shown(message: Warning | str, *more: Any, **named: Any) -> None:
            if SAID in str(message):
                count.note()
            else:
                passed_on(message, *more, **named)

        warnings.filterwarnings("always", message=f".*{SAID}")
        warnings.showwarning = shown
        if not count.known:
            yield count
            return
        before, wait = torch.cuda.get_sync_debug_mode(), torch.cuda.Event.synchronize

        def waited(event: torch.cuda.Event) -> None:
            count.note()
            wait(event)

        torch.cuda.set_sync_debug_mode("warn")
        try:
            with patch.object(torch.cuda.Event, "synchronize", waited):
                yield count
        finally:
            torch.cuda.set_sync_debug_mode(before)
