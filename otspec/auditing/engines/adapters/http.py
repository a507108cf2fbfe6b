"""Any server that speaks OpenAI's protocol: vLLM, SGLang, llama-server, OpenVINO model server.

One URL speculates, another one, if there is one, does not.  What is asked is ``/v1/completions``; what servers tell of
their drafts is read from ``/metrics``.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

from otspec.auditing.engines.adapters.wire import Server, request_seeds
from otspec.auditing.engines.engine import Acceptance, EngineDied, Sampling, Text
from otspec.errors import ProblemError, one_line
from otspec.settings import Count, Range, check_value

Json = Mapping[str, Any]
Timeout = Annotated[float, Range(0, math.inf, "pass a number of seconds above 0", open=True)]
METRIC = re.compile(r"^\w+:spec_decode_num_(\w+?)(?:_total)?(?:\{(.*?)\})? ([0-9.eE+]+)$", re.MULTILINE)
"""A line of ``/metrics`` of vLLM or llama.cpp on drafts: what is counted, its labels, how many."""
POSITION = re.compile(r'position="(\d+)"')
TOKEN = re.compile(r"token_id:(\d+)")
"""How vLLM spells a token where it was asked to tell ids in place of strings."""


class Http:
    """A server that completes prompts.

    Parameters
    ----------
    url : str
        Of the server that speculates, with or without ``/v1``.
    plain_url : str, optional
        Of one that has the same model and does not.  Without it, texts cannot be drawn without drafts.
    model : str, optional
        As the server calls it; not needed if it has one.
    method : str
        How it speculates, in words, for tables: servers do not say.
    logprobs : bool
        Whether to ask for log-probabilities.
    together : int
        Texts of one request (``n``); llama-server gives at most as many as it has slots.
    parallel : int
        Requests at a time.
    timeout : float
        Seconds until a request counts as lost.
    attempts : int
        How often a request is repeated that the server was too busy for (429, 503).
    key : str, optional
        Sent as ``Authorization: Bearer``.
    body : mapping, optional
        Fields that each request has besides ours, or in their place; None leaves a field out.
    pause : callable, optional
        Called with the seconds to wait for a busy server; by default the clock waits.

    Raises
    ------
    ProblemError
        If nobody answers, the model is not there, or a setting is out of its range.
    """

    name = "http"

    def __init__(
        self,
        *,
        url: str,
        plain_url: str | None = None,
        model: str | None = None,
        method: str = "as the server was started",
        logprobs: bool = True,
        together: int = 8,
        parallel: int = 4,
        timeout: float = 120.0,
        attempts: int = 5,
        key: str | None = None,
        body: Json | None = None,
        pause: Callable[[float], None] | None = None,
    ) -> None:
        for setting, count in (("together", together), ("parallel", parallel), ("attempts", attempts)):
            check_value(setting, count, Count)
        check_value("timeout", timeout, Timeout)
        if not isinstance(logprobs, bool) or not isinstance(body, Mapping | None):
            raise ProblemError(f"logprobs is {logprobs!r}, body {body!r}; pass True or False, and a mapping")
        if reserved := sorted({"n", "seed"} & set(body or {})):
            raise ProblemError(f"body has {' and '.join(reserved)}, which every request sets itself; leave that out")
        self.method = method
        self._logprobs, self._together, self._parallel, self._body = logprobs, together, parallel, dict(body or {})
        servers = [Server(at, key, timeout, attempts, pause) for at in (url, plain_url) if at is not None]
        self._drafting, self._plain = servers[0], servers[1] if plain_url is not None else None
        self._models = {server: _model(server, model) for server in servers}
        self.version = _version(self._drafting)

    def texts(self, prompt: str, count: int, length: int, sampling: Sampling, seed: int, *, drafts: bool) -> list[Text]:
        """Independent completions: see `otspec.auditing.engines.Engine`.

        Raises
        ------
        EngineDied
            If the server stops to answer.
        ProblemError
            If it refuses, tells no log-probabilities though they are asked for, or there is none without drafts.
        """
        server = self._drafting if drafts else self._plain
        if server is None:
            raise ProblemError(f"{self._drafting.url} speculates: give plain_url= of a server that does not")
        body = {
            "model": self._models[server],
            "prompt": prompt,
            "max_tokens": length,
            "temperature": sampling.temperature,
            "top_k": sampling.top_k or -1,
            "top_p": 1.0 if sampling.top_p is None else sampling.top_p,
            "min_p": sampling.min_p or 0.0,
            "return_token_ids": True,
            "return_tokens_as_token_ids": True,
            **({"logprobs": 1} if self._logprobs else {}),
        }
        body |= self._body
        fields = {field: value for field, value in body.items() if value is not None}
        seeds = request_seeds(seed, count, drafts=drafts)
        pieces = [seeds[first : first + self._together] for first in range(0, count, self._together)]
        with ThreadPoolExecutor(self._parallel) as threads:
            parts = threads.map(lambda piece: self._piece(server, fields, piece), pieces)
            return [text for part in parts for text in part]

    def acceptance(self) -> Acceptance | None:
        """What the server's ``/metrics`` say, of vLLM and of llama.cpp; None of others, or if it has no such page."""
        page = self._drafting.get("/metrics", text=True)
        return None if page is None else read_metrics(page)

    def close(self) -> None:
        """Nothing: the server is not ours."""

    def _piece(self, server: Server, fields: Json, seeds: range) -> list[Text]:
        """Texts of these seeds; a server that gives fewer than are asked for is asked again for the rest."""
        found: list[Text] = []
        while len(found) < len(seeds):
            wanted = len(seeds) - len(found)
            answer = server.post("/v1/completions", {**fields, "n": wanted, "seed": seeds[len(found)]})
            choices = answer.get("choices") if isinstance(answer, Mapping) else None
            if not choices:
                raise EngineDied(
                    f"{server.url} put out none of {wanted} texts of {fields['prompt']!r}: {one_line(answer)}"
                )
            try:
                texts = [read_choice(choice) for choice in sorted(choices, key=lambda choice: choice.get("index") or 0)]
            except (AttributeError, TypeError, ValueError) as error:
                raise EngineDied(f"{server.url} puts out choices that are none: {one_line(choices)}") from error
            if self._logprobs and any(choice.get("logprobs") is None and choice.get("text") for choice in choices):
                raise ProblemError(f"{server.url} tells no log-probabilities; logprobs=False does without them")
            found += texts[:wanted]
        return found


def read_choice(choice: Json) -> Text:
    """A completion as servers tell it; tokens only if their ids are told, as strings of tokens can be ambiguous."""
    answer = choice.get("logprobs") or {}
    content = answer.get("content") or []
    logprobs = answer.get("token_logprobs") or [one.get("logprob") for one in content]
    tokens = choice.get("token_ids")
    if tokens is None:
        spelled = [TOKEN.fullmatch(str(token)) for token in answer.get("tokens") or ()]
        if spelled and all(spelled):
            tokens = [int(one.group(1)) for one in spelled if one]
        else:
            ids = [one.get("id") for one in content]
            tokens = ids if None not in ids else []
    fits = tokens and len(logprobs) == len(tokens) and None not in logprobs
    return Text(
        tokens=tuple(tokens),
        text=str(choice.get("text") or ""),
        logprobs=tuple(float(one) for one in logprobs) if fits else None,
        ended=str(choice.get("finish_reason") or ""),
    )


def read_metrics(page: str) -> Acceptance | None:
    """Counts of drafts from a page of metrics, as vLLM and llama.cpp write them; several engines are added up."""
    found = METRIC.findall(page)
    counts = Counter[str]()
    positions = Counter[int]()
    for what, labels, value in found:
        counts[what] += int(float(value))
        if what == "accepted_tokens_per_pos" and (place := POSITION.search(labels)):
            positions[int(place.group(1))] += int(float(value))
    if not found:
        return None
    per_position = tuple(positions[place] for place in sorted(positions))
    return Acceptance(counts["drafts"], counts["draft_tokens"], counts["accepted_tokens"], per_position)


def _model(server: Server, name: str | None) -> str:
    """The model's name at a server, which has to have it."""
    listed = server.get("/v1/models")
    data = listed.get("data") if isinstance(listed, Mapping) else ()
    has = [str(one.get("id")) for one in data or () if isinstance(one, Mapping)]
    if name is None and len(has) == 1:
        return has[0]
    if name is None:
        raise ProblemError(f"{server.url} has {', '.join(has) or 'no list of models'}: give model=, the one to audit")
    if has and name not in has:
        raise ProblemError(f"{server.url} has no model {name!r}; it has {', '.join(has)}")
    return name


def _version(server: Server) -> str:
    """What a server says of itself: pages that vLLM, SGLang and llama.cpp have."""
    for page, field, of in (
        ("/version", "version", "vLLM"),
        ("/get_server_info", "version", "SGLang"),
        ("/props", "build_info", "llama.cpp"),
    ):
        answer = server.get(page)
        if isinstance(answer, Mapping) and answer.get(field):
            return f"{of} {answer[field]}"
    return "unknown"
