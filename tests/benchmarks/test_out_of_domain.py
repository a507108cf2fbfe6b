"""Drafters and shortlists on other kinds of text than they learnt from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from benchmarks import out_of_domain  # noqa: E402
from otspec.decode import shipped  # noqa: E402


def test_acceptance_is_that_of_both_laws_token_by_token(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    asked = [{"category": kind, "turns": [f"def {kind}(x): return x + 1 "] * 8} for kind in ("sums", "strings")]
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text("".join(json.dumps(one) + "\n" for one in asked))
    monkeypatch.setattr(out_of_domain, "WINDOW", 24)
    monkeypatch.setattr("sys.argv", ["", "--tasks", str(tasks), "--windows", "2", "--out", str(tmp_path)])
    out_of_domain.main()
    records = [json.loads(line) for line in (tmp_path / "records.jsonl").read_text().splitlines()]
    kinds = {one["text"] for one in records}
    assert kinds == {out_of_domain.OWN, "sums", "strings"}
    target, draft, tokenizer = shipped.load()
    text = "\n\n".join(asked[0]["turns"])
    tokens = torch.tensor(tokenizer(text, add_special_tokens=False).input_ids[: 2 * 24]).view(2, 24)
    with torch.no_grad():
        p, q = (model(tokens[:, :-1]).logits.softmax(-1) for model in (target, draft))
    wanted = float(torch.minimum(p, q).sum(-1).mean())
    (found,) = (one for one in records if one.get("drafter") == "draft model" and one["text"] == "sums")
    assert found["acceptance"] == pytest.approx(wanted, abs=1e-4)
    lists = {one["shortlist"]: one["tokens"] for one in records if one["text"] == "strings" and "shortlist" in one}
    assert lists["DynaSpec over FR-Spec"] == pytest.approx(lists["DynaSpec"] - lists["FR-Spec"])
    assert all(1 <= lists[name] <= 5 for name in ("whole head", "FR-Spec", "DynaSpec"))
    assert "Tokens a call, by shortlist" in capsys.readouterr().out
