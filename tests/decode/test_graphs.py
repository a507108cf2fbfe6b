"""Work is launched, captured and replayed, and puts out and draws the same; what a GPU does is tested in tests/gpu."""

from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from otspec.decode.base import graphs  # noqa: E402
from otspec.decode.base.graphs import Replayed, capture  # noqa: E402
from tests.decode.graph_stand_in import called_again  # noqa: E402


class Work:
    """The sum of what it finds and what it draws; which of its calls drew from what."""

    def __init__(self) -> None:
        self.given = torch.zeros(3)
        self.drawn_from: list[Any] = []

    def __call__(self, generator: Any) -> tuple[Any]:
        self.drawn_from.append(generator)
        return (self.given + torch.rand(3, generator=generator),)


def test_work_is_launched_then_captured_then_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "capture", called_again)
    work, replayed = Work(), Replayed[Any]()
    generator, same = (torch.Generator().manual_seed(3) for _ in range(2))
    addresses = []
    for step in range(5):
        work.given.fill_(step)
        (found,) = replayed.run(work, object(), generator)
        assert replayed.captured == (step > 0)
        assert torch.equal(found, step + torch.rand(3, generator=same))
        assert torch.equal(generator.get_state(), same.get_state())
        addresses.append(found.data_ptr())
    assert work.drawn_from[0] is generator
    assert generator not in work.drawn_from[1:]  # a graph has one of its own
    assert len(set(addresses[1:])) == 1


def test_without_a_pool_nothing_is_captured() -> None:
    work, replayed = Work(), Replayed[Any]()
    for _ in range(3):
        replayed.run(work, None)
    assert not replayed.captured
    assert len(work.drawn_from) == 3


def test_what_cannot_be_captured_says_so_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*given: object) -> Any:
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(graphs, "capture", refused)
    work, replayed = Work(), Replayed[Any]()
    replayed.run(work, object())
    for _ in range(2):
        with pytest.raises(RuntimeError, match="not permitted"):
            replayed.run(work, object())
    assert not replayed.captured
    replayed.run(work, None)


def test_a_capture_has_its_pool_and_its_generator_and_leaves_others_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []

    class Within:
        def __init__(self, graph: Any, **settings: Any) -> None:
            told.append((graph, settings))

        def __enter__(self) -> None:
            told.append("begun")

        def __exit__(self, *error: object) -> None:
            told.append("ended")

    def begun(generator: Any) -> Any:
        told.append(torch.is_grad_enabled())
        return generator

    own: list[Any] = []
    graph = SimpleNamespace(register_generator_state=own.append)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: graph)
    monkeypatch.setattr(torch.cuda, "graph", Within)
    pool, generator = object(), torch.Generator()
    found: Any = capture(begun, pool, generator)
    assert found == (graph, generator)
    assert own == [generator]
    settings = {"pool": pool, "capture_error_mode": "thread_local"}
    assert told == [(graph, settings), "begun", False, "ended"]
    capture(begun)
    assert own == [generator]
