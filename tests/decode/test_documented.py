"""The examples of README.md and of the tutorial on decoding run as they stand."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", ["README.md", "docs/speed_up_a_decoder.md"])
def test_the_example_writes_text(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    (example,) = (block for block in blocks if "otspec.generate(" in block)
    exec(compile(example, page, "exec", dont_inherit=True), {})
    text, _, efficiency = capsys.readouterr().out.rstrip().rpartition(" ")
    assert "def read_lines(path):" not in text  # new tokens only
    assert len(text.split()) > 3
    assert 1 <= float(efficiency) <= 4
