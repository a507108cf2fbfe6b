"""Conversations that a model writes by itself: who has the floor, and what is put in between turns."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jinja2")

from safetensors import safe_open
from safetensors.numpy import save_file
from scipy.stats import chisquare

from otspec.decode.distillation.self_chat import Speakers
from otspec.decode.distillation.texts import own_texts, read_texts
from otspec.errors import DataError, ProblemError
from tests.decode.models import law_after, tiny
from tests.decode.test_conversations import with_template

TEMPLATE = (
    "S{% for m in messages %}<{{ m.role[0] }}>{{ m.content }}#{% endfor %}{% if add_generation_prompt %}<a>{% endif %}"
)
FLOOR = Speakers((5,), (1, 6), (1, 7, 5))
"""Token 1 ends a turn."""


def test_what_a_template_has_around_turns() -> None:
    made = with_template(TEMPLATE)
    found = Speakers.of(made)
    assert [made.decode(part) for part in (found.opening, found.answer, found.question)] == ["S<u>", "#<a>", "#<u>"]


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (None, "has no chat template, which its own questions need"),
        ("{{ messages[0].content }}", "does not show three turns in a row: a turn is not there as it was written"),
        ("{{ raise_exception('no') }}", "does not show three turns in a row: no"),
        ("S{% for m in messages %}{{ m.content }}{% endfor %}", "has nothing before a turn, or nothing that ends it"),
    ],
)
def test_templates_that_show_no_turns(template: str | None, message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        Speakers.of(with_template(template))


def test_turns_follow_each_other() -> None:
    floor = FLOOR.begin(2)
    drawn = [(3, 1), (1, 4), (4, 4), (2, 2), (1, 1), (3, 3), (3, 1), (0, 0)]
    said, answering = [], []
    for one in drawn:
        answering.append(floor.answering)
        said.append(floor.observe(one))
    assert np.array(said).T.tolist() == [[3, 1, 6, 2, 1, 7, 5, 0], [1, 6, 4, 2, 1, 7, 5, 0]]
    assert [one[0] for one in answering] == [False, False, True, True, True, False, False, False]
    assert [one[1] for one in answering] == [False, True, True, True, True, False, False, False]


@pytest.mark.parametrize("asks", [1.0, 2.0])
def test_texts_of_both_have_the_targets_law_where_nothing_is_put_in(asks: float) -> None:
    """Answers and questions at temperatures of their own, counted after what came before."""
    target, count = tiny(8, seed=3), 3000
    inputs: dict[str, Any] = {"speakers": FLOOR, "temperatures": (1.0, 0.5), "ask_temperature": asks, "batch": count}
    texts = own_texts(target, [[5]], count, 5, **inputs)
    for row, temperature in enumerate((1.0, 0.5)):
        own = texts[row::2]
        law = len(own) * law_after(target, [5], temperature=asks)
        assert chisquare(np.bincount(own[:, 1], minlength=8), law).pvalue > 1e-4
        request = own[own[:, 1] == 1]
        assert (request[:, 2] == 6).all()  # put in
        law = len(request) * law_after(target, [5, 1, 6], temperature=temperature)
        assert chisquare(np.bincount(request[:, 3], minlength=8), law).pvalue > 1e-4


def test_texts_of_another_make_are_not_gone_on_with(tmp_path: Path) -> None:
    path, target = tmp_path / "texts.safetensors", tiny(8)
    write = partial(own_texts, target, [[5]], 2, 5, speakers=FLOOR, batch=2, path=path)
    before = write()
    with safe_open(path, "numpy") as file:
        header = {name: value for name, value in file.metadata().items() if name != "ask_temperature"}
    save_file({"texts": before.astype(np.int32)}, path, metadata=header)  # as it was before questions had a temperature
    assert np.array_equal(write(), before)
    made: list[tuple[dict[str, Any], str]] = [
        ({"temperatures": (0.5,)}, "of other prompts, temperatures or turns; remove it"),
        ({"speakers": Speakers((5,), (2,), (1, 7, 5))}, "of other prompts, temperatures or turns"),
        ({"speakers": None}, "of other prompts, temperatures or turns"),
        ({"ask_temperature": 0.6}, r"whose ask_temperature is 1\.0, not 0\.6; remove it"),
    ]
    for other, message in made:
        with pytest.raises(DataError, match=f"holds texts {message}"):
            write(**other)
    more = own_texts(target, [[5]], 6, 5, speakers=FLOOR, batch=2, path=path)
    assert np.array_equal(read_texts(path, target), more)
    with pytest.raises(DataError, match="another target has written"):
        read_texts(path, tiny(8, seed=1))
    (tmp_path / "no.safetensors").write_bytes(b"nothing")
    read: Any
    for read in (lambda file: read_texts(file, target), lambda file: own_texts(target, [[5]], 6, 5, path=file)):
        with pytest.raises(DataError, match="holds no texts"):
            read(tmp_path / "no.safetensors")
