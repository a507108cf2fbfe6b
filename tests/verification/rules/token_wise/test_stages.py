"""Which levels of a tree are walked together."""

from otspec.verification.rules.token_wise.stages import Stage, stages_of


def test_stages_have_few_problems() -> None:
    assert stages_of((1, *8 * (4,)), 33) == [Stage(0, 8, 15)]  # at the root, and twice two drafts on seven levels
    assert stages_of((1, *8 * (32,)), 33) == [Stage(0, 8, 16)]  # of 32 slots below the root
    assert stages_of((1, 1, 1), 3) == [Stage(0, 2, 0)]
    assert stages_of((1, 4, 16, 64, 256), 341) == [Stage(0, 2, 5), Stage(2, 3, 1), Stage(3, 4, 1)]
    assert stages_of((1, 2, 4, 8), 15, most=1) == [Stage(0, 1, 1), Stage(1, 2, 1), Stage(2, 3, 1)]
    assert stages_of((1, 3), 4) == [Stage(0, 1, 1)]
