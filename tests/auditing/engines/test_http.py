"""The adapter of servers, against one in a thread that writes random texts, and fails in every way."""

import json
import random
import socket
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from otspec.auditing.engines import Acceptance, EngineDied, Sampling, Text
from otspec.auditing.engines.adapters.http import Http, read_choice, read_metrics
from otspec.errors import ProblemError
from tests.each import each

LAW = (0.5, 0.3, 0.2)
"""Of every token, whatever came before."""
METRICS = """# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0",model_name="m"} 7.0
vllm:spec_decode_num_drafts_created{engine="0",model_name="m"} 1.7e+09
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="m"} 21.0
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="m"} 9.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="0"} 6.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="1"} 3.0
"""


@dataclass
class Script:
    """How the server behaves, and what it was asked."""

    logprobs: bool = True
    ids: bool = True
    most: int = 100
    """Texts that it gives for one request."""
    busy: list[int] = field(default_factory=list)
    """Statuses of the next answers."""
    dies_after: int | None = None
    """Requests that it answers before it cuts the line."""
    pages: dict[str, str] = field(default_factory=lambda: {"/version": '{"version": "0.32.0"}', "/metrics": METRICS})
    models: tuple[str, ...] = ("tiny",)
    lacking: int = 404
    refuses: tuple[int, str] | None = None
    requests: list[dict[str, Any]] = field(default_factory=list)


def write(script: Script, body: dict[str, Any], index: int) -> dict[str, Any]:
    coins = random.Random(body["seed"] + index)
    tokens = coins.choices(range(3), LAW, k=body["max_tokens"])
    choice = {"index": index, "text": "".join("abc"[token] for token in tokens), "finish_reason": "length"}
    if script.ids:
        choice["token_ids"] = tokens
    shown = {"tokens": ["x"] * len(tokens), "token_logprobs": [-float(token) for token in tokens]}
    return choice | {"logprobs": shown if script.logprobs and "logprobs" in body else None}


class Handler(BaseHTTPRequestHandler):
    server: Any

    def log_message(self, *args: Any) -> None:
        """Nothing."""

    def send(self, status: int, content: str, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content.encode())), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(content.encode())

    def do_GET(self) -> None:
        script: Script = self.server.script
        pages = script.pages | {"/v1/models": json.dumps({"data": [{"id": name} for name in script.models]})}
        self.send(200, pages[self.path]) if self.path in pages else self.send(script.lacking, "no such page")

    def do_POST(self) -> None:
        script: Script = self.server.script
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if script.dies_after is not None and len(script.requests) >= script.dies_after:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()  # a reset, as of a process that was killed
            return
        if script.busy:
            self.send(script.busy.pop(), "later", Retry_After="3")
            return
        script.requests.append(body)
        if self.path in script.pages:
            self.send(200, script.pages[self.path])
            return
        if script.refuses is not None:
            self.send(script.refuses[0], json.dumps({"error": {"message": script.refuses[1]}}), Location="/on")
            return
        choices = [write(script, body, index) for index in range(min(body["n"], script.most))]
        self.send(200, json.dumps({"choices": choices}))


class Fake(ThreadingHTTPServer):
    """A server in a thread, which does not print that a line was cut."""

    def __init__(self, script: Script) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script = script
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.thread = Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing."""

    def stop(self) -> None:
        self.shutdown()
        self.thread.join()
        self.server_close()


@pytest.fixture
def servers() -> Iterator[Callable[..., Fake]]:
    """Starts servers that behave as told, which end with the test."""
    started: list[Fake] = []

    def start(**behaviour: Any) -> Fake:
        started.append(Fake(Script(**behaviour)))
        return started[-1]

    yield start
    for one in started:
        one.stop()


Servers = Callable[..., Fake]


def ask(engine: Http, count: int = 1, length: int = 2, seed: int = 1, *, drafts: bool = True) -> list[Text]:
    return engine.texts("ab", count, length, Sampling(), seed, drafts=drafts)


def test_texts_have_their_tokens_and_log_probabilities(servers: Servers) -> None:
    texts = ask(Http(url=servers().url + "/v1/"), 37, 4)
    assert len(texts) == 37
    for text in texts:
        assert (len(text.tokens), text.text) == (4, "".join("abc"[token] for token in text.tokens))
        assert (text.logprobs, text.ended) == (tuple(-float(token) for token in text.tokens), "length")


def test_sampling_is_sent_whole_and_fields_of_the_user_take_the_place_of_ours(servers: Servers) -> None:
    """Servers have defaults of their own."""
    fake = servers()
    engine = Http(url=fake.url)
    engine.texts("ab", 1, 2, Sampling(0.7, top_k=5, top_p=0.9, min_p=0.1), 1, drafts=True)
    ask(engine)
    ask(Http(url=fake.url, body={"top_k": None, "ignore_eos": True}))
    names = ("temperature", "top_k", "top_p", "min_p", "ignore_eos")
    assert [{name: body[name] for name in names if name in body} for body in fake.script.requests] == [
        {"temperature": 0.7, "top_k": 5, "top_p": 0.9, "min_p": 0.1},
        {"temperature": 1.0, "top_k": -1, "top_p": 1.0, "min_p": 0.0},
        {"temperature": 1.0, "top_p": 1.0, "min_p": 0.0, "ignore_eos": True},
    ]


def test_every_text_has_a_seed_of_its_own_and_the_same_at_every_call(servers: Servers) -> None:
    """Also of a server that gives fewer texts than are asked for, and is asked again for the rest."""
    fake, plain, used = servers(), servers(), []
    engine = Http(url=fake.url, plain_url=plain.url, together=4)
    for seed in (1, 2):
        for drafts, server in ((True, fake), (False, plain)):
            ask(engine, 10, seed=seed, drafts=drafts)
            used += [body["seed"] + index for body in server.script.requests for index in range(body["n"])]
            server.script.requests.clear()
    assert len(used) == len(set(used)) == 40
    whole = ask(Http(url=fake.url), 16, 5)
    assert ask(Http(url=fake.url, together=4, parallel=3), 16, 5) == whole
    fake.script.most = 3
    assert ask(Http(url=fake.url), 16, 5) == whole


def test_a_busy_server_is_waited_for_and_given_up_if_it_stays_so(servers: Servers) -> None:
    pauses: list[float] = []
    fake = servers(busy=[503, 429])
    assert len(ask(Http(url=fake.url, pause=pauses.append), 3)) == 3
    assert pauses == [3.0, 3.0]  # as it asked for
    fake.script.busy = [429] * 9
    with pytest.raises(ProblemError, match=r"was too busy .* 2 times: try later"):
        ask(Http(url=fake.url, attempts=2, pause=lambda _: None))
    assert len(fake.script.busy) == 7


def test_models_are_named_where_there_are_several_and_log_probabilities_done_without(servers: Servers) -> None:
    fake = servers(models=("tiny", "small"), logprobs=False)
    (text,) = ask(Http(url=fake.url, model="small", logprobs=False))
    assert text.logprobs is None
    assert fake.script.requests[0]["model"] == "small"
    assert "logprobs" not in fake.script.requests[0]


FAILING: dict[str, tuple[dict[str, Any], dict[str, Any], int, type[Exception], str]] = {
    "a wrong model": ({}, {"model": "huge"}, 1, ProblemError, "has no model 'huge'; it has tiny"),
    "one of several": ({"models": ("tiny", "small")}, {}, 1, ProblemError, "has tiny, small: give model="),
    "no log-probabilities": ({"logprobs": False}, {}, 1, ProblemError, "tells no log-probabilities; logprobs=False"),
    "dies": (
        {"dies_after": 2},
        {"together": 4, "parallel": 1},
        40,
        EngineDied,
        r"died at the request for 4 .*, seed \d+: ",
    ),
    "fails": ({"refuses": (500, "an issue")}, {}, 1, EngineDied, "failed at the request .* 500, an issue"),
    "refuses": ({"refuses": (400, "no min_p")}, {}, 1, ProblemError, "refuses the request .* 400, no min_p"),
    "an error as an answer": ({"refuses": (200, "loading")}, {}, 1, EngineDied, "none of 1 texts of 'ab': .*loading"),
    "no JSON": ({"pages": {"/v1/completions": "data: {"}}, {}, 1, EngineDied, "with no JSON .*: data: {"),
    "no choices": ({"pages": {"/v1/completions": '{"choices": [3]}'}}, {}, 1, EngineDied, r"that are none: \[3\]"),
    "moved": ({"refuses": (307, "on")}, {}, 1, ProblemError, "refuses .* 307, on; it leads to /on, so give the URL"),
    "moved, lost": ({"refuses": (302, "on")}, {}, 1, ProblemError, "404, no such page; it leads to http://.*/on, so"),
    "no texts": ({"most": 0}, {}, 1, EngineDied, "put out none of 1 texts of 'ab'"),
}


@pytest.mark.parametrize("name", FAILING)
def test_what_goes_wrong_is_one_line(servers: Servers, name: str) -> None:
    behaviour, settings, count, kind, message = FAILING[name]
    with pytest.raises(kind, match=message) as caught:
        ask(Http(url=servers(**behaviour).url, **settings), count)
    assert type(caught.value) is kind
    assert len(str(caught.value).splitlines()) == 1


def test_what_cannot_be_asked_is_one_line(servers: Servers) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(ProblemError, match=rf"no server answers at http://127.0.0.1:{port} \(.*refused\): start one"):
        Http(url=f"http://127.0.0.1:{port}")
    with pytest.raises(ProblemError, match="url = 'localhost:8000'; it begins with http"):
        Http(url="localhost:8000")
    for setting, value in (("together", 0), ("parallel", "4"), ("attempts", 1.5), ("timeout", 0), ("logprobs", "no")):
        with pytest.raises(ProblemError, match=f"{setting} is {value!r}[;,].* pass (an integer >= 1|a number|True or)"):
            Http(url="http://127.0.0.1:1", **{setting: value})  # type: ignore[arg-type]
    with pytest.raises(ProblemError, match="body has seed, which every request sets"):
        Http(url="http://127.0.0.1:1", body={"seed": None})
    fake = servers()
    with pytest.raises(ProblemError, match="has no model 'tiny'; it has other"):
        Http(url=fake.url, plain_url=servers(models=("other",)).url, model="tiny")
    with pytest.raises(ProblemError, match="speculates: give plain_url="):
        ask(Http(url=fake.url), drafts=False)


def test_servers_say_what_they_are_and_what_they_accepted(servers: Servers) -> None:
    fake = servers()
    assert Http(url=fake.url).acceptance() == Acceptance(7, 21, 9, (6, 3))
    assert Http(url=servers(pages={}, lacking=403).url).acceptance() is None
    for pages, version in (
        ({"/version": '{"version": "0.32.0"}'}, "vLLM 0.32.0"),
        ({"/get_server_info": '{"version": "0.5.23"}'}, "SGLang 0.5.23"),
        ({"/props": '{"build_info": "b11549"}'}, "llama.cpp b11549"),
        ({"/version": "<html>"}, "unknown"),
    ):
        fake.script.pages = pages
        assert Http(url=fake.url).version == version
        assert Http(url=fake.url).acceptance() is None
    page = (
        "llamacpp:n_decode_total 5\nllamacpp:spec_decode_num_draft_tokens_total 12\n"
        "llamacpp:spec_decode_num_accepted_tokens_total 4\nllamacpp:spec_decode_num_drafts_total 5\n"
    )
    assert read_metrics(page) == Acceptance(5, 12, 4)
    assert read_metrics("llamacpp:n_decode_total 5\n") is None


IDS, LOGPROBS = (5, 7), (-1.0, -2.0)


@each(
    case={
        "vLLM's spelling": ({"tokens": ["token_id:5", "token_id:7"], "token_logprobs": [*LOGPROBS]}, IDS, LOGPROBS),
        "llama.cpp's": ({"content": [{"id": 5, "logprob": -1.0}, {"id": 7, "logprob": -2.0}]}, IDS, LOGPROBS),
        "strings": ({"tokens": [" a", "token_id:7"], "token_logprobs": [*LOGPROBS]}, (), None),
        "strings in content": ({"content": [{"token": " a", "logprob": -1.0}]}, (), None),
        "one too few": ({"tokens": ["token_id:5", "token_id:7"], "token_logprobs": [-1.0]}, IDS, None),
        "nothing, of no text": (None, (), None),
    }
)
def test_tokens_are_told_in_several_ways(case: tuple[Any, tuple[int, ...], tuple[float, ...] | None]) -> None:
    text = read_choice({"text": case[0] and "ab", "logprobs": case[0], "finish_reason": None})
    assert text == (case[1], "ab" if case[0] else "", case[2], "")
