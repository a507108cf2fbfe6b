"""Where passes are captured, when a capture breaks off or there is no memory; the GPU's own part is in tests/gpu."""

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from otspec.decode import generate  # noqa: E402
from otspec.decode.base import graphs  # noqa: E402
from otspec.decode.models.passes import static  # noqa: E402
from otspec.decode.models.passes.static import LEAST_COLUMNS, StaticReader  # noqa: E402
from otspec.decode.models.passes.workspace import Workspace  # noqa: E402
from tests.decode.graph_stand_in import called_again  # noqa: E402
from tests.decode.models import pair  # noqa: E402

pytestmark = pytest.mark.usefixtures("no_gradients")

VOCAB = 8


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Two models over caches of fixed size."""
    monkeypatch.setattr(StaticReader, "takes", staticmethod(lambda _: True))
    return [copy.deepcopy(model) for model in pair(VOCAB, positions=LEAST_COLUMNS)]


def test_what_a_run_that_broke_off_recorded_to_takes_no_pass(models: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As CUDA has it: a pool whose capture broke off is being recorded to for good."""
    target, draft = models
    prompt = torch.tensor([[1, 2, 3]])
    expected = generate(target, draft, prompt, max_new_tokens=20, seed=2, paths=2, depth=3).new_tokens
    broken: set[int] = set()
    taken: list[object] = []

    def breaking_off(work: Any, pool: object, generator: Any) -> Any:
        if id(pool) in broken:
            raise RuntimeError("beginAllocateToPool: already recording to mempool_id")
        taken.append(pool)  # so that no other has its number
        if generator is not None:
            broken.add(id(pool))
            raise RuntimeError("operation not permitted when stream is capturing")
        return called_again(work, pool, generator)

    class WithPool(Workspace):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            self.pool = object()

    for one in models:
        static._FREE.pop(one)
    monkeypatch.setattr(static, "Workspace", WithPool)
    monkeypatch.setattr(static, "can_be_one", lambda _: True)
    monkeypatch.setattr(graphs, "capture", breaking_off)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", object)
    assert generate(target, draft, prompt, max_new_tokens=20, seed=2, paths=2, depth=3).new_tokens == expected
    assert broken
    assert any(id(pool) not in broken for pool in taken)


def test_a_gpu_without_room_says_for_what(models: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: object) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.")

    monkeypatch.setattr(static, "Workspace", full)
    with pytest.raises(torch.OutOfMemoryError, match="LlamaForCausalLM at 256 tokens of each of 1 texts; decode fewer"):
        generate(models[0], models[1], torch.tensor([[1, 2, 3]]), max_new_tokens=4, seed=2)
