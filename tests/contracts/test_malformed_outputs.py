"""Models whose outputs are no numbers, now and then: the text stays the target's, or one sentence says whose."""

import copy
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from otspec import ProblemError  # noqa: E402
from otspec.decode import run  # noqa: E402
from tests.contracts.catalogue import CATALOGUE  # noqa: E402
from tests.contracts.draft_models import Models, models  # noqa: E402
from tests.contracts.test_lossless import OVERFLOWING  # noqa: E402
from tests.decode.models import greedy_text  # noqa: E402

CASES = 40
"""Ten times as many by hand, with `--slow`."""

VALUES = (torch.nan, torch.inf, -torch.inf, 1e300, -1e300)
PROMPT = [1, 0, 2]


def spoilt(model: Any, rng: np.random.Generator) -> Any:
    """The model, some of whose logits are something else after some texts: all of them, or one token's."""
    model = copy.deepcopy(model)
    value, rate = VALUES[rng.integers(len(VALUES))], float(rng.choice([0.05, 0.5, 1.0]))
    token = None if rng.random() < 0.5 else int(rng.integers(model.config.vocab_size))

    def spoil(module: Any, given: Any, logits: Any) -> Any:
        drawn = (logits[..., :1] * 1e3).frac().abs()  # the same after the same text, but for rounding
        bad = (drawn < rate).expand_as(logits).clone()
        if token is not None:
            bad[..., :token] = False
            bad[..., token + 1 :] = False
        return logits.masked_fill(bad, value)

    model.lm_head.register_forward_hook(spoil)
    return model


def outcome(of: Models, strategy: Any, asked: dict[str, Any]) -> tuple[list[int] | None, str]:
    """The new tokens, or what is said in their place."""
    try:
        return run(of.target, strategy, torch.tensor([PROMPT]), **asked).new_tokens[0], ""
    except ProblemError as error:
        return None, str(error)


@pytest.mark.filterwarnings("ignore:some logits")
def test_outputs_that_are_no_numbers_end_in_the_target_s_text_or_in_a_line(pytestconfig: pytest.Config) -> None:
    rng = np.random.default_rng(7)
    cases = CASES * (10 if pytestconfig.getoption("--slow") else 1)
    whole = said = 0
    for _ in range(cases):
        entry = CATALOGUE[str(rng.choice(OVERFLOWING))]
        of = models(entry.vocab)
        whose = str(rng.choice(["target", "draft"]))
        of = of._replace(**{whose: spoilt(getattr(of, whose), rng)})
        temperature = float(rng.choice([0.0, 1.0]))
        asked: dict[str, Any] = {"max_new_tokens": 8, "temperature": temperature, "seed": int(rng.integers(100))}
        text, error = outcome(of, entry.make(of), asked)
        if text is None:
            assert "\n" not in error
            said += 1
            continue
        assert all(0 <= token < entry.vocab for token in text)
        whole += 1
        if whose == "draft":
            assert len(text) == 8
            if temperature == 0:
                assert text == greedy_text(of.target, PROMPT, 8)[len(PROMPT) :]
    assert min(whole, said) > cases // 10
