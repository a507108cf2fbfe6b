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
