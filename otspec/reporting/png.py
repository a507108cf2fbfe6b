"""PNG files in fewer bytes: vl-convert spends little time on compressing them."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

SIGNATURE = b"\x89PNG\r\n\x1a\n"
"""With which each such file begins."""


def smaller(png: bytes) -> bytes:
    """The same file with its pixels compressed as well as zlib can, which leaves about a third of the bytes."""
    *others, end = [chunk for chunk in _chunks(png) if chunk[0] != b"IDAT"]
    pixels = zlib.decompress(b"".join(data for name, data in _chunks(png) if name == b"IDAT"))
    written = [*others, (b"IDAT", zlib.compress(pixels, 9)), end]
    return SIGNATURE + b"".join(_packed(name, data) for name, data in written)


def _chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Names and contents of the parts of a file."""
    at = len(SIGNATURE)
    while at < len(png):
        (length,) = struct.unpack_from(">I", png, at)
        yield png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        at += length + 12  # with the length itself, the name and the check sum


def _packed(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
