"""Columns of numbers as a few bytes inside a page, exactly and in any order of magnitude.

A block is gzip in base64 of: the length of its head (4 bytes, little-endian), its head (JSON,
UTF-8), its columns one after the other. A column is stored less its least value, a byte of all its
numbers after the other, the lowest first: the high bytes hardly change, so that they compress to
nothing. Whatever grows steadily is stored as differences. Equal columns make equal bytes.

`codec.js` reads it; it holds numbers up to 2**53.
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
"""Of gzip: the higher ones take three times as long and save a hundredth."""
GREATEST = 1 << 53


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """Whole numbers; steady: stored as differences, each to the one before."""

    numbers: Numbers
    steady: bool = False


def pack(head: Mapping[str, Any], columns: Mapping[str, Column] | None = None) -> str:
    """A block as base64 text; `head` is JSON that the reader gets besides the columns, numbers that
    JavaScript does not hold exactly as text.

    Raises ValueError for such a number in a column.
    """
    described = []
    planes = []
    for name, column in (columns or {}).items():
        base, width, stored = _planes(column)
        described.append(
            {"name": name, "length": len(column.numbers), "base": base, "width": width,
             "steady": column.steady}
        )  # fmt: skip
        planes.append(stored)
    text = json.dumps(
        {"head": _exact(head), "columns": described}, separators=(",", ":"), ensure_ascii=False
    ).encode()
    whole = len(text).to_bytes(4, "little") + text + b"".join(planes)
    return base64.b64encode(gzip.compress(whole, LEVEL, mtime=0)).decode("ascii")


def _exact(found: Any) -> Any:
    if isinstance(found, int):
        return found if abs(found) <= GREATEST else str(found)
    if isinstance(found, Mapping):
        return {key: _exact(value) for key, value in found.items()}
    if isinstance(found, list | tuple):
        return [_exact(each) for each in found]
    return found


def _planes(column: Column) -> tuple[int, int, bytes]:
    """The least value, how many bytes a number takes beyond it, and the planes."""
    numbers = column.numbers
    if not len(numbers):
        return 0, 0, b""
    if max(abs(int(numbers.min())), abs(int(numbers.max()))) > GREATEST:
        raise ValueError("a number beyond 2**53 cannot be shown exactly; pass it as text")
    if column.steady:
        numbers = np.diff(numbers, prepend=0)
    base = int(numbers.min())
    above = (numbers - base).astype("<u8")
    width = (int(above.max()).bit_length() + 7) // 8
    grid = above.view(np.uint8).reshape(-1, 8)[:, :width]
    return base, width, np.ascontiguousarray(grid.T).tobytes()
