"""Pictures: what is written, on what paper, with which words."""

import re
import struct
import zlib
from pathlib import Path

import pytest

pytest.importorskip("altair")
pytest.importorskip("vl_convert")

from otspec.reporting.charts import Group
from otspec.reporting.pictures import SCALE, WIDTH, Part, picture, sheet
from otspec.reporting.style import LIGHT
from tests.reporting.examples import NAMES, STYLES, every_chart

CHARTS = every_chart()
ALL = sheet([Part("llama3", STYLES, [Group("Time", "Median and quartiles.", list(CHARTS.values()))])])


def test_a_picture_is_as_wide_as_a_sheet_and_has_all_words(tmp_path: Path) -> None:
    for columns in (1, 2, 3):
        shown = [chart for name, chart in CHARTS.items() if name != "bars" or columns == 1]  # its legend is wide
        picture(shown, STYLES, columns=columns).save(tmp_path / "p.png")
        content = (tmp_path / "p.png").read_bytes()
        assert content.startswith(b"\x89PNG")
        width, _ = struct.unpack(">II", content[16:24])
        assert SCALE * WIDTH <= width <= SCALE * (WIDTH + 80), columns
    ALL.save(tmp_path / "p.svg")
    text = (tmp_path / "p.svg").read_text()
    told = {*re.findall(r">([^<>]+)</text>", text)}
    assert {"llama3", "Time", "Median and quartiles.", "ms per token", "token 0", "log10 of M", *NAMES} <= told
    assert f'fill="{LIGHT.paper}"' in text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.png", "p.svg"]


def test_a_png_is_made_smaller_and_keeps_its_pixels() -> None:
    import vl_convert

    def pixels(png: bytes) -> bytes:
        found, at = [], 8
        while at < len(png):
            (length,) = struct.unpack_from(">I", png, at)
            name, data = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
            assert zlib.crc32(name + data) == struct.unpack_from(">I", png, at + 8 + length)[0]
            found.append((name, zlib.decompress(data) if name == b"IDAT" else data))
            at += length + 12
        assert [name for name, _ in found][:: len(found) - 1] == [b"IHDR", b"IEND"]
        return b"".join(name + data for name, data in found)

    before, after = vl_convert.vegalite_to_png(ALL.spec, scale=SCALE), ALL.png()
    assert len(after) < 0.6 * len(before)
    assert pixels(after) == pixels(before)


def test_the_key_explains_series_by_the_marks_that_show_them() -> None:
    def marks(name: str) -> list[str]:
        key = picture([CHARTS[name]], STYLES).spec["vconcat"][0]
        assert [row["label"] for row in key["data"]["values"]] == list(NAMES)
        return [layer["mark"]["type"] for layer in key["layer"]]

    assert marks("places") == ["text", "rule", "point", "point"]
    assert marks("points") == ["text", "point", "point"]
    assert marks("columns") == ["text", "square"]
    assert len(picture([CHARTS["places"]]).spec["vconcat"]) == 1  # no key where none is asked for
