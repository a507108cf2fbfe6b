"""The adapter of servers, against one in a thread that writes texts of a known law, and fails in every way."""

import json
import random
import socket
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from scipy.stats import chisquare

from otspec.engine_audit import Acceptance, EngineDied, Sampling
from otspec.engine_audit.adapters.http import Http, read_choice, read_metrics
from otspec.errors import ProblemError

LAW = (0.5, 0.3, 0.2)
"""Of every token, whatever came before."""
BIASED = (0.2, 0.3, 0.5)
"""Of every token after the first, where the server's rule is broken."""
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

    biased: bool = False
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
    refuses: tuple[int, str] | None = None
    asked: list[dict[str, Any]] = field(default_factory=list)


def write(script: Script, body: dict[str, Any], index: int) -> dict[str, Any]:
    coins = random.Random(body["seed"] + index)
    laws = [LAW, *[BIASED if script.biased else LAW] * (body["max_tokens"] - 1)]
    tokens = [coins.choices(range(3), law)[0] for law in laws]
    choice = {"index": index, "text": "".join("abc"[token] for token in tokens), "finish_reason": "length"}
    if script.ids:
        choice["token_ids"] = tokens
    told = {"tokens": ["x"] * len(tokens), "token_logprobs": [-float(token) for token in tokens]}
    return choice | {"logprobs": told if script.logprobs and "logprobs" in body else None}


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
        self.send(200, pages[self.path]) if self.path in pages else self.send(404, "no such page")

    def do_POST(self) -> None:
        script: Script = self.server.script
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if script.dies_after is not None and len(script.asked) >= script.dies_after:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()  # a reset, as of a process that was killed
            return
        if script.busy:
            self.send(script.busy.pop(), "later", Retry_After="3")
            return
        script.asked.append(body)
        if script.refuses is not None:
            self.send(script.refuses[0], json.dumps({"error": {"message": script.refuses[1]}}))
            return
        choices = [write(script, body, index) for index in range(min(body["n"], script.most))]
        self.send(200, json.dumps({"choices": choices}))


class Quiet(ThreadingHTTPServer):
    """Does not print that a line was cut."""

    script: Script

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing."""


class Fake:
    """A server in a thread."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self._server = Quiet(("127.0.0.1", 0), Handler)
        self._server.script = script
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def fake() -> Iterator[Fake]:
    server = Fake(Script())
    yield server
    server.stop()


@pytest.fixture
def plain() -> Iterator[Fake]:
    server = Fake(Script())
    yield server
    server.stop()


def second_tokens(engine: Http, *, drafts: bool, count: int = 400) -> list[int]:
    seen = Counter(text.tokens[1] for text in engine.texts("ab", count, 3, Sampling(), 1, drafts=drafts))
    return [seen[token] for token in range(3)]


def test_texts_have_their_tokens_and_log_probabilities(fake: Fake) -> None:
    texts = Http(url=fake.url + "/v1/").texts("ab", 37, 4, Sampling(), 5, drafts=True)
    assert len(texts) == 37
    assert {len(text.tokens) for text in texts} == {4}
    assert all(text.text == "".join("abc"[token] for token in text.tokens) for text in texts)
    assert all(text.logprobs == tuple(-float(token) for token in text.tokens) for text in texts)
    assert {text.ended for text in texts} == {"length"}


def test_sampling_is_sent_whole_since_servers_have_defaults_of_their_own(fake: Fake) -> None:
    engine = Http(url=fake.url)
    engine.texts("ab", 1, 2, Sampling(0.7, top_k=5, top_p=0.9, min_p=0.1), 1, drafts=True)
    engine.texts("ab", 1, 2, Sampling(), 1, drafts=True)
    sent = [{name: body[name] for name in ("temperature", "top_k", "top_p", "min_p")} for body in fake.script.asked]
    assert sent == [
        {"temperature": 0.7, "top_k": 5, "top_p": 0.9, "min_p": 0.1},
        {"temperature": 1.0, "top_k": -1, "top_p": 1.0, "min_p": 0.0},
    ]


def test_a_lossless_and_a_biased_server_are_told_apart(fake: Fake, plain: Fake) -> None:
    engine = Http(url=fake.url, plain_url=plain.url)
    expected = [400 * chance for chance in LAW]
    assert chisquare(second_tokens(engine, drafts=False), expected).pvalue > 1e-9
    assert chisquare(second_tokens(engine, drafts=True), expected).pvalue > 1e-9
    fake.script.biased = True
    assert chisquare(second_tokens(engine, drafts=True), expected).pvalue < 1e-9


def test_every_text_has_a_seed_of_its_own(fake: Fake, plain: Fake) -> None:
    engine = Http(url=fake.url, plain_url=plain.url, together=4)
    used = []
    for seed in (1, 2):
        for drafts, server in ((True, fake), (False, plain)):
            engine.texts("ab", 10, 2, Sampling(), seed, drafts=drafts)
            used += [body["seed"] + index for body in server.script.asked for index in range(body["n"])]
            server.script.asked.clear()
    assert len(used) == len(set(used)) == 40


def test_the_same_seed_gives_the_same_texts(fake: Fake) -> None:
    engine = Http(url=fake.url, together=4, parallel=3)
    first, again = (engine.texts("ab", 30, 5, Sampling(), 1, drafts=True) for _ in range(2))
    assert first == again


def test_a_server_that_gives_fewer_texts_is_asked_again(fake: Fake) -> None:
    whole = Http(url=fake.url).texts("ab", 16, 5, Sampling(), 1, drafts=True)
    fake.script.most = 3
    assert Http(url=fake.url).texts("ab", 16, 5, Sampling(), 1, drafts=True) == whole


def test_a_busy_server_is_waited_for(fake: Fake) -> None:
    pauses: list[float] = []
    fake.script.busy = [503, 429]
    engine = Http(url=fake.url, pause=pauses.append)
    assert len(engine.texts("ab", 3, 2, Sampling(), 1, drafts=True)) == 3
    assert pauses == [3.0, 3.0]  # as it asked for


def test_a_server_that_stays_busy_is_given_up(fake: Fake) -> None:
    fake.script.busy = [429] * 9
    with pytest.raises(ProblemError, match=r"was too busy .* 2 times: try later"):
        Http(url=fake.url, attempts=2, pause=lambda _: None).texts("ab", 3, 2, Sampling(), 1, drafts=True)
    assert len(fake.script.busy) == 7


def test_no_server() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(ProblemError, match=rf"no server answers at http://127.0.0.1:{port} \(.*refused\): start one"):
        Http(url=f"http://127.0.0.1:{port}")


def test_an_url_is_one() -> None:
    with pytest.raises(ProblemError, match="url = 'localhost:8000'; it begins with http"):
        Http(url="localhost:8000")


def test_a_wrong_model(fake: Fake, plain: Fake) -> None:
    with pytest.raises(ProblemError, match="has no model 'huge'; it has tiny"):
        Http(url=fake.url, model="huge")
    plain.script.models = ("other",)
    with pytest.raises(ProblemError, match="has no model 'tiny'; it has other"):
        Http(url=fake.url, plain_url=plain.url, model="tiny")


def test_one_of_several_models_has_to_be_named(fake: Fake) -> None:
    fake.script.models = ("tiny", "small")
    with pytest.raises(ProblemError, match="has tiny, small: give model="):
        Http(url=fake.url)
    assert Http(url=fake.url, model="small").texts("ab", 1, 2, Sampling(), 1, drafts=True)
    assert fake.script.asked[0]["model"] == "small"


def test_a_server_without_log_probabilities(fake: Fake) -> None:
    fake.script.logprobs = False
    with pytest.raises(ProblemError, match="tells no log-probabilities; logprobs=False"):
        Http(url=fake.url).texts("ab", 1, 2, Sampling(), 1, drafts=True)
    (text,) = Http(url=fake.url, logprobs=False).texts("ab", 1, 2, Sampling(), 1, drafts=True)
    assert text.logprobs is None
    assert "logprobs" not in fake.script.asked[-1]


def test_a_server_that_dies_in_the_middle(fake: Fake) -> None:
    fake.script.dies_after = 2
    engine = Http(url=fake.url, together=4, parallel=1)
    with pytest.raises(EngineDied, match=r"died at the request for 4 texts of 'ab', seed \d+: ") as caught:
        engine.texts("ab", 40, 2, Sampling(), 1, drafts=True)
    assert len(str(caught.value).splitlines()) == 1
    assert len(fake.script.asked) == 2


def test_a_server_that_fails_at_a_request_died(fake: Fake) -> None:
    fake.script.refuses = (500, "EngineCore encountered an issue")
    with pytest.raises(EngineDied, match=r"failed at the request .* 500, EngineCore encountered an issue"):
        Http(url=fake.url).texts("ab", 1, 2, Sampling(), 1, drafts=True)


def test_a_request_that_is_refused(fake: Fake) -> None:
    fake.script.refuses = (400, "min_p is not supported")
    with pytest.raises(ProblemError, match=r"refuses the request .* 400, min_p is not supported") as caught:
        Http(url=fake.url).texts("ab", 1, 2, Sampling(), 1, drafts=True)
    assert not isinstance(caught.value, EngineDied)


def test_a_server_that_answers_with_no_texts_died(fake: Fake) -> None:
    fake.script.most = 0
    with pytest.raises(EngineDied, match="put out none of 1 texts of 'ab'"):
        Http(url=fake.url).texts("ab", 1, 2, Sampling(), 1, drafts=True)


def test_no_texts_without_drafts_if_one_server_speculates(fake: Fake) -> None:
    with pytest.raises(ProblemError, match="speculates: give plain_url="):
        Http(url=fake.url).texts("ab", 1, 2, Sampling(), 1, drafts=False)


def test_fields_of_the_user_take_the_place_of_ours(fake: Fake) -> None:
    engine = Http(url=fake.url, body={"top_k": None, "ignore_eos": True})
    engine.texts("ab", 1, 2, Sampling(), 1, drafts=True)
    (body,) = fake.script.asked
    assert "top_k" not in body
    assert body["ignore_eos"] is True


@pytest.mark.parametrize("setting", ["together", "parallel", "attempts"])
def test_settings_are_at_least_one(setting: str) -> None:
    with pytest.raises(ProblemError, match=f"{setting} = 0; it is at least 1"):
        Http(url="http://127.0.0.1:1", **{setting: 0})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pages", "version"),
    [
        ({"/version": '{"version": "0.32.0"}'}, "vLLM 0.32.0"),
        ({"/get_server_info": '{"version": "0.5.23"}'}, "SGLang 0.5.23"),
        ({"/props": '{"build_info": "b11549"}'}, "llama.cpp b11549"),
        ({"/version": "<html>"}, "unknown"),
    ],
)
def test_servers_say_what_they_are(fake: Fake, pages: dict[str, str], version: str) -> None:
    fake.script.pages = pages
    assert Http(url=fake.url).version == version


def test_metrics_tell_the_acceptance(fake: Fake) -> None:
    assert Http(url=fake.url).acceptance() == Acceptance(7, 21, 9, (6, 3))
    fake.script.pages = {}
    assert Http(url=fake.url).acceptance() is None


def test_metrics_of_llama_cpp() -> None:
    page = (
        "llamacpp:n_decode_total 5\nllamacpp:spec_decode_num_draft_tokens_total 12\n"
        "llamacpp:spec_decode_num_accepted_tokens_total 4\nllamacpp:spec_decode_num_drafts_total 5\n"
    )
    assert read_metrics(page) == Acceptance(5, 12, 4)
    assert read_metrics("llamacpp:n_decode_total 5\n") is None


@pytest.mark.parametrize(
    ("told", "tokens", "logprobs"),
    [
        ({"tokens": ["token_id:5", "token_id:7"], "token_logprobs": [-1.0, -2.0]}, (5, 7), (-1.0, -2.0)),
        ({"content": [{"id": 5, "logprob": -1.0}, {"id": 7, "logprob": -2.0}]}, (5, 7), (-1.0, -2.0)),
        ({"tokens": [" a", "token_id:7"], "token_logprobs": [-1.0, -2.0]}, (), None),
        ({"content": [{"token": " a", "logprob": -1.0}]}, (), None),
        (None, (), None),
    ],
    ids=["vLLM's spelling", "llama.cpp's", "strings", "strings in content", "nothing"],
)
def test_tokens_are_told_in_several_ways(
    told: dict[str, Any] | None, tokens: tuple[int, ...], logprobs: tuple[float, ...] | None
) -> None:
    text = read_choice({"text": "ab", "logprobs": told, "finish_reason": None})
    assert (text.tokens, text.logprobs, text.ended) == (tokens, logprobs, "")
