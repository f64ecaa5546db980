"""Columns of exact numbers as a few bytes inside a page.

A block is base64 of gzip of: the length of its head (4 bytes, little-endian), its head (JSON,
UTF-8), its columns one after the other. The smallest value of a column is subtracted from all. Then
the lowest byte of every number is stored, then the second byte of every number, and so on: the high
bytes hardly change and compress to almost nothing. Columns that grow steadily are stored as
differences. Equal columns make equal bytes.

`codec.js` reads the blocks; JavaScript has exact integers up to 2**53.
"""

import base64
import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Numbers: TypeAlias = npt.NDArray[np.int64]

LEVEL = 6
"""The gzip level: higher ones take three times as long and save 1 %."""
GREATEST = 1 << 53


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """Integers. steady: stored as differences to the number before."""

    numbers: Numbers
    steady: bool = False


def pack(head: Mapping[str, Any], columns: Mapping[str, Column] | None = None) -> str:
    """Return a block as base64 text. `head` is JSON that the reader gets besides the columns; its
    integers beyond 2**53 become text.

    Raises ValueError for such an integer in a column.
    """
    described = []
    byte_planes = []
    for name, column in (columns or {}).items():
        base, width, stored = _byte_planes(column)
        described.append(
            {"name": name, "length": len(column.numbers), "base": base, "width": width,
             "steady": column.steady}
        )  # fmt: skip
        byte_planes.append(stored)
    text = json.dumps(
        {"head": _exact(head), "columns": described}, separators=(",", ":"), ensure_ascii=False
    ).encode()
    whole = len(text).to_bytes(4, "little") + text + b"".join(byte_planes)
    return base64.b64encode(gzip.compress(whole, LEVEL, mtime=0)).decode("ascii")


def _exact(found: Any) -> Any:
    if isinstance(found, int):
        return found if abs(found) <= GREATEST else str(found)
    if isinstance(found, Mapping):
        return {key: _exact(value) for key, value in found.items()}
    if isinstance(found, list | tuple):
        return [_exact(each) for each in found]
    return found


def _byte_planes(column: Column) -> tuple[int, int, bytes]:
    """Return the smallest value, the bytes per number above it, and the bytes by plane."""
    numbers = column.numbers
    if not len(numbers):
        return 0, 0, b""
    if max(abs(int(numbers.min())), abs(int(numbers.max()))) > GREATEST:
        raise ValueError("a number beyond 2**53 cannot be stored exactly; pass it as text")
    if column.steady:
        numbers = np.diff(numbers, prepend=0)
    base = int(numbers.min())
    above = (numbers - base).astype("<u8")
    width = (int(above.max()).bit_length() + 7) // 8
    grid = above.view(np.uint8).reshape(-1, 8)[:, :width]
    return base, width, np.ascontiguousarray(grid.T).tobytes()
