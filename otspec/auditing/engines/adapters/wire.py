"""Requests to a server, with patience while it is busy and one sentence for each way in which it fails."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPException
from typing import Any

import numpy as np

from otspec.auditing.engines.engine import EngineDied
from otspec.errors import ProblemError, one_line

BUSY = (429, 503)
LONGEST_PAUSE = 30.0
"""Seconds; a server that asks for more patience is taken at this."""


class Server:
    """A server at a URL, with or without ``/v1``.

    A request takes `timeout` seconds and, while the server is busy, so many attempts; `pause` waits for the seconds
    that it is called with, by default by the clock.  The key is of the header ``Authorization``.
    """

    def __init__(
        self, url: str, key: str | None, timeout: float, attempts: int, pause: Callable[[float], None] | None
    ) -> None:
        if not str(url).startswith(("http://", "https://")):
            raise ProblemError(f"url = {url!r}; it begins with http:// or https://")
        self.url = url.rstrip("/").removesuffix("/v1")
        self._headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
        self._timeout, self._attempts, self._pause = timeout, attempts, pause or time.sleep

    def get(self, page: str, *, text: bool = False) -> Any:
        """A page's JSON, or its text; None if the server has no such page.

        Raises
        ------
        ProblemError
            If no server answers.
        """
        try:
            with self._open(page, None) as answer:
                content = answer.read()
        except urllib.error.HTTPError as error:
            with error:
                if error.code in (401, 403) and page.startswith("/v1/"):  # others are of its own business
                    raise ProblemError(f"{self.url} wants another key than key= is ({error.code})") from error
                return None
        except (OSError, HTTPException, ValueError) as error:
            raise ProblemError(
                f"no server answers at {self.url} ({_why(error)}): start one, or mend the URL"
            ) from error
        try:
            return content.decode() if text else json.loads(content)
        except ValueError:
            return None

    def post(self, page: str, body: Mapping[str, Any]) -> Any:
        """What the server answers to JSON.

        Raises
        ------
        EngineDied
            If it stops to answer, or says that it failed.
        ProblemError
            If it refuses the request, or is busy for too long.
        """
        request = f"the request for {body.get('n')} texts of {body.get('prompt')!r}, seed {body.get('seed')}"
        for attempt in range(self._attempts):
            try:
                with self._open(page, json.dumps(body).encode()) as answer:
                    content = answer.read()
                return json.loads(content)
            except urllib.error.HTTPError as error:
                with error:
                    said = _message(error)
                    at = error.headers.get("Location") if 300 <= error.code < 400 else error.url
                    said += "" if at in (None, self.url + page) else f"; it leads to {at}, so give the URL of that"
                    if error.code not in BUSY:
                        kind = EngineDied if error.code >= 500 else ProblemError
                        verb = "failed at" if error.code >= 500 else "refuses"
                        raise kind(f"{self.url} {verb} {request}: {error.code}, {said}") from error
                    self._pause(_patience(error.headers.get("Retry-After"), attempt))
            except ValueError as error:
                said = one_line(content.decode(errors="replace"))
                raise EngineDied(f"{self.url} answers {request} with no JSON ({_why(error)}): {said}") from error
            except (OSError, HTTPException) as error:
                raise EngineDied(f"{self.url} died at {request}: {_why(error)}") from error
        raise ProblemError(f"{self.url} was too busy for {request}, {self._attempts} times: try later, or parallel=1")

    def _open(self, page: str, body: bytes | None) -> Any:
        request = urllib.request.Request(self.url + page, data=body, headers=self._headers)
        return urllib.request.urlopen(request, timeout=self._timeout)


def _patience(retry_after: str | None, attempt: int) -> float:
    """Seconds to wait: as long as the server asks for, otherwise twice as long each time."""
    try:
        wanted = float(retry_after) if retry_after is not None else 0.5 * 2**attempt
    except ValueError:  # a date
        wanted = LONGEST_PAUSE
    return min(max(wanted, 0.0), LONGEST_PAUSE)


def _message(error: urllib.error.HTTPError) -> str:
    """What a server says of an error, in one line."""
    said = error.read().decode(errors="replace")
    try:
        parsed = json.loads(said)
    except ValueError:
        parsed = None
    while isinstance(parsed, Mapping) and (inner := parsed.get("error", parsed.get("message"))) is not None:
        parsed = inner
    return one_line(parsed if isinstance(parsed, str) else said or error.reason or error)


def _why(error: BaseException) -> str:
    """The reason of a failure of the network, in a few words."""
    reason = getattr(error, "reason", error)
    return getattr(reason, "strerror", None) or str(reason) or type(error).__name__


LARGEST = 2**31
"""Seeds stay below it: engines hold them in 32 bits, some with a sign."""


def request_seeds(seed: int, count: int, *, drafts: bool) -> range:
    """Seeds of so many requests, one after the other.

    They are consecutive, as engines number the completions of one request from its seed on, so that two requests of one
    call share none.  With drafts and without they differ: texts that are compared must not be drawn by the same coins.
    """
    entropy = np.random.SeedSequence((abs(seed), int(seed < 0), int(drafts)))
    start = int(entropy.generate_state(1)[0]) % max(1, LARGEST - count)
    return range(start, start + count)
