"""Reads the blocks of a page as its script does."""

import base64
import gzip
import json
import re
from typing import Any

import numpy as np
import numpy.typing as npt


def block(page: str, name: str) -> dict[str, Any]:
    """Return the head of a page's block, with its columns under `columns`."""
    found = re.search(rf'<script type="text/plain" id="block-{name}">([^<]*)</script>', page)
    assert found is not None, f"the page has no block {name}"
    return unpacked(found[1])


def unpacked(text: str) -> dict[str, Any]:
    """Return the head of a block, with its columns under `columns`."""
    whole = gzip.decompress(base64.b64decode(text))
    begin = 4 + int.from_bytes(whole[:4], "little")
    content = json.loads(whole[4:begin])
    columns: dict[str, npt.NDArray[np.int64]] = {}
    for each in content["columns"]:
        size = each["length"] * each["width"]
        planes = np.frombuffer(whole[begin : begin + size], np.uint8).reshape(
            each["width"], each["length"]
        )
        numbers = np.full(each["length"], each["base"], np.int64)
        for plane, stored in enumerate(planes):
            numbers += stored.astype(np.int64) << (8 * plane)
        columns[each["name"]] = np.cumsum(numbers) if each["steady"] else numbers
        begin += size
    head: dict[str, Any] = content["head"]
    return head | {"columns": columns}
