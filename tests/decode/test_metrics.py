"""Sums merge, and laws come to the host whole."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from otspec.decode.laws import to_host  # noqa: E402
from otspec.decode.metrics import Metrics  # noqa: E402


def _metrics(*steps: tuple[int, int]) -> Metrics:
    metrics = Metrics(tokens=sum(accepted + 1 for _, accepted in steps), target_calls=len(steps))
    for levels, accepted in steps:
        metrics.step(levels, accepted, 1 + 2 * levels)
    return metrics


def test_two_runs_together_are_one_run_of_all_steps() -> None:
    one, other = _metrics((3, 1), (2, 2)), _metrics((4, 0), (0, 0), (4, 4))
    assert one + other == _metrics((3, 1), (2, 2), (4, 0), (0, 0), (4, 4))
    assert (one + other).offered == [4, 4, 3, 2]
    assert (one + other).accepted == [3, 2, 1, 1]
    assert (one + other).acceptance == [3 / 4, 2 / 4, 1 / 3, 1 / 2]
    assert (one + other).block_efficiency == 12 / 5
    assert Metrics(**json.loads(json.dumps(one.record()))) == one
    assert np.isnan(Metrics().block_efficiency)


def test_laws_come_whole_however_many_tokens_were_foreseen() -> None:
    laws = torch.zeros(3, 20, dtype=torch.float32)
    laws[0, 7] = 1.0
    laws[1, [19, 0, 4]] = torch.tensor([0.5, 0.25, 0.25])
    laws[2, [3, 5]] = 0.5
    for support in (None, 1, 2, 3, 40):
        rows = to_host(laws, support)
        assert (rows.token is None) == (support != 3), support
        whole = np.zeros((3, 20))
        if rows.token is None:
            whole = rows.probability
        else:
            np.add.at(whole, (np.arange(3)[:, None], rows.token), rows.probability)
        np.testing.assert_array_equal(whole, laws.double().numpy(), err_msg=f"support {support}")


def test_the_package_itself_needs_no_torch() -> None:
    code = "import sys, otspec; assert not {'torch', 'transformers'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
