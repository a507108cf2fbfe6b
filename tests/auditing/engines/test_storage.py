"""Audits that are interrupted and go on."""

from pathlib import Path

import pytest

from otspec.auditing.engines import Sampling, Text, audit_engine
from otspec.errors import DataError
from tests.auditing.engines.engines import LAWS, QUICK, Faulty

FEW = QUICK | {"texts": 1000}


class Interrupted(Faulty):
    """Is interrupted at its ninth request."""

    def texts(self, prompt: str, count: int, length: int, sampling: Sampling, seed: int, *, drafts: bool) -> list[Text]:
        if self.requests == 8:
            raise KeyboardInterrupt
        return super().texts(prompt, count, length, sampling, seed, drafts=drafts)


def test_an_audit_goes_on_where_it_was_interrupted(tmp_path: Path) -> None:
    store = tmp_path / "texts.jsonl"
    with pytest.raises(KeyboardInterrupt):
        audit_engine(Interrupted(with_logprobs=True), prompts=["", "a"], laws=LAWS, store=store, **FEW)
    with store.open("a") as file:
        file.write('{"request": ["drafted", 0')  # a line that was cut off
    again, whole = Faulty(with_logprobs=True), Faulty(with_logprobs=True)
    resumed = audit_engine(again, prompts=["", "a"], laws=LAWS, store=store, **FEW)
    at_once = audit_engine(whole, prompts=["", "a"], laws=LAWS, **FEW)
    assert (resumed.to_json(), again.requests) == (at_once.to_json(), whole.requests - 8)
    more = Faulty(with_logprobs=True)
    audit_engine(more, prompts=["", "a"], laws=LAWS, store=store, **{**FEW, "alpha": 0.01})
    assert more.requests == 0


def test_texts_of_another_audit_are_refused(tmp_path: Path) -> None:
    store = tmp_path / "texts.jsonl"
    audit_engine(Faulty(), prompts=[""], laws=LAWS, store=store, **FEW)
    with pytest.raises(DataError, match=r"texts\.jsonl has the texts of another audit, with other prompts"):
        audit_engine(Faulty(), prompts=["a"], laws=LAWS, store=store, **FEW)
    with pytest.raises(DataError, match="with other settings"):
        audit_engine(Faulty(), prompts=[""], laws=LAWS, store=store, about={"settings": {"drafts": 3}}, **FEW)
    with pytest.raises(DataError, match="there is no folder"):
        audit_engine(Faulty(), prompts=[""], laws=LAWS, store=tmp_path / "none" / "texts.jsonl", **FEW)


@pytest.mark.parametrize("content", ["no JSON\n", "[1]\n", '{"a": 1}\n{"b": 2}\n', '{"a": 1}', "a note"])
def test_a_file_of_something_else_is_refused_and_left_alone(tmp_path: Path, content: str) -> None:
    store = tmp_path / "texts.jsonl"
    store.write_text(content)
    with pytest.raises(DataError, match=r"texts.jsonl"):
        audit_engine(Faulty(), prompts=[""], laws=LAWS, store=store, **FEW)
    assert store.read_text() == content
