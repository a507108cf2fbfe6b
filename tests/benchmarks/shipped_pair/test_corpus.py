from pathlib import Path

import pytest

pytest.importorskip("torch")
from benchmarks.shipped_pair.corpus import read_corpus


def test_the_standard_library_is_read_in_order_without_tests_and_tables() -> None:
    sources = read_corpus()
    names = [source.name for source in sources]
    assert names == sorted(set(names))
    assert {"argparse.py", "json/decoder.py", "asyncio/tasks.py"} <= set(names)
    assert not any("test" in name.split("/") or name.startswith(("encodings/", "site-packages/")) for name in names)
    assert sum(len(source.text) for source in sources) > 5_000_000


def test_files_are_read_in_their_own_encoding_and_machines_leave_no_trace(tmp_path: Path) -> None:
    (tmp_path / "old.py").write_bytes("# coding: latin-1\nname = 'é'\n".encode("latin-1"))
    (tmp_path / "_sysconfigdata_here.py").write_text("prefix = '/here'\n")
    (tmp_path / "pkg" / "tests").mkdir(parents=True)
    (tmp_path / "pkg" / "tests" / "case.py").write_text("assert True\n")
    (source,) = read_corpus(tmp_path)
    assert (source.name, source.text) == ("old.py", "# coding: latin-1\nname = 'é'\n")
