"""`--chat`, `--turns` and `--draft none`, as a user types them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("jinja2")

from safetensors import safe_open

from otspec.decode.pair.conversations import turn_seed
from otspec.decode.pair.loading import load_models
from tests.cli.test_commands import otspec_command
from tests.decode.test_conversations import TEMPLATE
from tests.saved_pair import save

LINES = [
    {"question_id": 1, "category": "writing", "turns": ["ab", "c"]},
    {"question_id": 2, "category": "math", "turns": ["d"]},
    {"question_id": 3, "category": "writing", "turns": ["e", "f"]},
]


@pytest.fixture(scope="module")
def chatty(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Folders of a pair whose tokenizer has a chat template."""
    folders = save(tmp_path_factory.mktemp("chatty"))
    for folder in folders:
        (folder / "chat_template.jinja").write_text(TEMPLATE)
    return str(folders[0]), str(folders[1])


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    path = tmp_path / "question.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in LINES))
    return path


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What `otspec` says, or why it does not."""
    monkeypatch.setattr("otspec.reporting.pictures.Picture.save", lambda *_: None)

    def told(*arguments: str, status: int = 0) -> str:
        assert otspec_command(monkeypatch, *arguments) == status, capsys.readouterr().err
        said = capsys.readouterr()
        return " ".join((said.err if status else said.out).replace("│", " ").split())

    return told


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("batch", ["1", "2"])
def test_turns_are_asked_after_the_models_answers(
    run: Callable[..., str], chatty: tuple[str, str], tasks: Path, tmp_path: Path, batch: str
) -> None:
    out = tmp_path / "out.json"
    asked = ("decode", "--target", chatty[0], "--draft", chatty[1], "--prompts", str(tasks), "--batch", batch)
    run(*asked, "--max-new-tokens", "6", "--temperature", "0", "--seed", "3", "--json", str(out))
    lines = _lines(out)
    tokenizer = load_models(chatty[0], None, "cpu").tokenizer
    found = {
        (at, line["turn"]): text
        for line in lines
        for at, text in zip(line["conversations"], line["texts"], strict=True)
    }
    assert found.keys() == {(0, 0), (0, 1), (1, 0), (2, 0), (2, 1)}
    assert all(line["seed"] == turn_seed(3 + line["conversations"][0] // int(batch), line["turn"]) for line in lines)
    # Each turn again, by itself, as a prompt without a template that spells the conversation out.
    for at, turns in enumerate(LINES):
        text = ""
        for number, said in enumerate(turns["turns"]):  # type: ignore[arg-type, var-annotated]
            text += f"<u>{said}\n<a>"
            alone = tmp_path / "alone.json"
            line = ("decode", "--target", chatty[0], "--draft", chatty[1], "--prompt", text, "--no-chat")
            run(*line, "--max-new-tokens", "6", "--temperature", "0", "--json", str(alone))
            assert _lines(alone)[0]["texts"] == [found[at, number]]
            text += found[at, number] + "\n"
    assert tokenizer.chat_template == TEMPLATE


def test_which_turns(run: Callable[..., str], chatty: tuple[str, str], tasks: Path, tmp_path: Path) -> None:
    decode = ("decode", "--target", chatty[0], "--method", "vanilla", "--max-new-tokens", "2", "--prompts", str(tasks))
    out = ("--json", str(tmp_path / "out.json"))
    run(*decode, "--turns", "first", *out)
    assert [line["prompts"] for line in _lines(tmp_path / "out.json")] == [["ab"], ["d"], ["e"]]
    run(*decode, "--no-chat", *out)  # texts to go on with, of which there is one each
    assert len(_lines(tmp_path / "out.json")) == 3
    assert "takes a chat template; pass --turns first" in run(*decode, "--no-chat", "--turns", "all", status=2)
    assert "--turns: 'some'; pass first or all" in run(*decode, "--turns", "some", status=2)


def test_a_prompt_is_put_into_the_template_if_asked(
    run: Callable[..., str], chatty: tuple[str, str], tmp_path: Path
) -> None:
    texts = []
    for more in (("--prompt", "ab", "--chat"), ("--prompt", "<u>ab\n<a>"), ("--prompt", "ab")):
        out = tmp_path / "out.json"
        run("decode", "--target", chatty[0], "--draft", "none", "--method", "prompt-lookup", *more, "--json", str(out))
        texts.append(_lines(out)[0]["texts"])
    assert texts[0] == texts[1] != texts[2]


def test_conversations_are_measured_whole(
    run: Callable[..., str], chatty: tuple[str, str], tasks: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    asked = ("bench", "decode", "--target", chatty[0], "--draft", "none", "--tasks", str(tasks), "--turns", "all")
    told = run(*asked, "--temperature", "0,1", "--batch", "1,2", "--depth", "2", "--baselines", "prompt-lookup",
               "--max-new-tokens", "6", "--repeats", "2", "--out", str(out))  # fmt: skip
    lines = _lines(out / "results.jsonl")
    assert {line["method"] for line in lines} == {"vanilla", "prompt-lookup"}
    tokens = {(one["batch"], one["prompt"]): one["tokens"] for one in lines if one["method"] == "vanilla"}
    # In turn from every task: conversation 0 and 2 are of one, and are decoded together.
    assert tokens == {(1, 0): 12, (1, 1): 6, (1, 2): 12, (2, 0): 24, (2, 1): 6}
    assert {one.get("together") for one in lines if (one["batch"], one["prompt"]) == (2, 0)} == {2}
    assert len(lines) == 2 * 2 * 2 * (3 + 2)  # temperatures, methods, repeats, texts
    report = (out / "report.md").read_text()
    for title in (
        "temperature 1, batch 1",
        "temperature 1, batch 2",
        "temperature 0, batch 1",
        "temperature 0, batch 2",
    ):
        assert f"## Tokens per target call by task: {title}" in report
        assert f"## mean_acceptance_length by task: {title}" in report
        assert f"## As servers count: {title}" in report
    assert "batch 2" in told
    run(*asked, "--temperature", "0,1", "--batch", "1,2", "--depth", "2", "--baselines", "prompt-lookup",
        "--max-new-tokens", "6", "--repeats", "2", "--out", str(out))  # fmt: skip
    assert _lines(out / "results.jsonl") == lines  # nothing was left to measure


def test_what_is_recorded_and_learnt_from_is_what_is_asked(
    run: Callable[..., str], chatty: tuple[str, str], tasks: Path, tmp_path: Path
) -> None:
    pair = ("--target", chatty[0], "--draft", chatty[1])
    prompts = ("--prompts", str(tasks))
    recorded = tmp_path / "recorded.safetensors"
    run("record", *pair, *prompts, "--positions", "5", "--max-new-tokens", "4", "--out", str(recorded))
    safetensors = pytest.importorskip("safetensors")
    with safetensors.safe_open(recorded, framework="numpy") as file:
        assert json.loads(file.metadata()["otspec"])["prompts"]["count"] == 5  # each turn is a prompt
    run("router", str(tasks), "--draft", chatty[1], "--clusters", "4", "--most", "2", "--width", "4", "--epochs", "1",
        "--out", str(tmp_path / "router.safetensors"))  # fmt: skip
    run("train", "distilled", *pair, *prompts, "--texts", "2", "--length", "12", "--batch", "2", "--steps", "1",
        "--out", str(tmp_path / "trained"))  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("decode", "--prompt", "a"), "multi-draft drafts with a model, and there is none for"),
        (("decode", "--prompt", "a", "--method", "block"), "or a --method without one: vanilla, generate, "),
        (("decode", "--prompt", "a", "--draft", "none", "--drafter", "eagle"), "no draft model 'eagle' of"),
        (("record", "--prompts", "q", "--out", "r.safetensors"), "no draft model for"),
        (("tune", "--prompts", "q"), "and ways to draft with one are compared; pass --draft"),
        (("bench", "decode", "--prompts", "q", "--solver", "nested"), "leave out --solver; pass --draft"),
        (("bench", "decode", "--prompts", "q", "--baselines", "block,vanilla"), "block cannot do without: leave it"),
    ],
)  # fmt: skip
def test_what_takes_a_draft_model_says_so(
    refused: Callable[..., str], chatty: tuple[str, str], arguments: tuple[str, ...], message: str
) -> None:
    Path("q").write_text("a\n")
    assert message in refused(*arguments, "--target", chatty[0])


def test_texts_that_a_target_asks_itself(run: Callable[..., str], chatty: tuple[str, str], tmp_path: Path) -> None:
    """Written, gone on with, and learnt from, by a draft model of each kind that shares the target's parts."""
    out = tmp_path / "texts.safetensors"
    write = ("texts", "--target", chatty[0], "--length", "20", "--temperature", "1,0.5", "--out", str(out))
    assert "64 texts of 20 tokens" in run(*write, "--count", "64")
    assert "70 texts of 20 tokens" in run(*write, "--count", "70")
    for kind in ("eagle3", "parallel"):
        folder = tmp_path / kind
        learn = ("train", kind, "--target", chatty[0], "--texts", str(out), "--draft-tokens", "9", "--batch", "2")
        run(*learn, "--steps", "2", "--loss", "kl+alpha:2", "--out", str(folder))
        record = json.loads((folder / "training.json").read_text())
        assert record["texts"] == {
            "count": 64,
            "length": 20,
            "from": str(out),
        }  # whole batches are written, 64 held out
        told = run("decode", "--target", chatty[0], "--draft", str(folder), "--depth", "2", "--prompt", "a")
        assert "lossless" in told


def test_a_target_asks_itself_at_a_temperature_of_its_own(
    run: Callable[..., str], refused: Callable[..., str], chatty: tuple[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "texts.safetensors"
    write = ("texts", "--target", chatty[0], "--length", "20", "--count", "64", "--out", str(out))
    run(*write, "--ask-temperature", "0.5")
    with safe_open(out, "numpy") as file:
        assert file.metadata()["ask_temperature"] == "0.5"
    assert "whose ask_temperature is 0.5, not 1.0" in refused(*write)
    folder = tmp_path / "eagle3"
    learn = ("train", "eagle3", "--target", chatty[0], "--texts", "magpie:2", "--length", "20", "--batch", "2")
    run(*learn, "--steps", "1", "--ask-temperature", "0.5", "--out", str(folder))
    about = json.loads((folder / "training.json").read_text())["texts"]
    assert about == {"count": 2, "length": 20, "from": "magpie:2", "ask_temperature": 0.5}
    with safe_open(folder / "texts.safetensors", "numpy") as file:
        assert file.metadata()["ask_temperature"] == "0.5"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("train", "eagle3", "--ask-temperature", "0.5"), "--ask-temperature is for texts whose questions the target"),
        (
            ("texts", "--ask-temperature", "0.5", "--prompts", "q", "--out", "t.safetensors"),
            "--ask-temperature is for texts whose questions the target asks itself",
        ),
        (
            ("train", "sd2", "--draft-tokens", "9", "--draft", "DRAFT"),
            "sd2 drafts all tokens; leave out --draft-tokens",
        ),
        (
            ("train", "eagle3", "--texts", "many"),
            "texts are 'many'; pass how many, magpie or magpie:N without --prompts",
        ),
        (("train", "eagle3", "--texts", "magpie:0"), "texts are 'magpie:0'"),
        (("train", "eagle3", "--texts", "no.safetensors"), "no.safetensors holds no texts"),
        (
            ("texts", "--temperature", "0", "--length", "9", "--out", "t.safetensors"),
            "texts are drawn at finite ones above 0",
        ),
        (("texts", "--out", "t.txt"), "give --out a name that ends in .safetensors"),
    ],
)
def test_texts_that_are_none(
    refused: Callable[..., str], chatty: tuple[str, str], arguments: tuple[str, ...], message: str
) -> None:
    Path("q").write_text("a\n")
    out = () if "--out" in arguments else ("--out", "new")
    asked = [chatty[1] if word == "DRAFT" else word for word in arguments]
    assert message in refused(*asked, "--target", chatty[0], *out)
