"""The elements of a program's output: which input each was made from. Pure."""

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

from harness.plans.app_workload import Output
from harness.workloads.clients.text_payload import Extracted, Found, Ids

TORN: Final = "torn"
UNREADABLE: Final = "unreadable"
MAX_TEXT: Final = 1_000_000
"""Characters of an element that are searched."""
_NUMBER: Final = re.compile(r"(?<![\w.-])\d{9,19}(?![\w.-])")


class Place(NamedTuple):
    """Where an element is: an offset of a partition; else partition 0, and the number of a line,
    row or request from 0."""

    partition: int
    position: int


@dataclass(frozen=True, slots=True)
class Element:
    """An element: the value of its input, or the reason why there is none, and when it was first
    seen, ns since the start of the run."""

    value: int | None
    error: str | None
    seen_ns: int


class Extraction:
    """Finds the input's value in the text of an element."""

    def __init__(self, output: Output, ids: Ids) -> None:
        self._ids = ids
        self._number = output.value == "number"
        self._pattern = None if output.pattern is None else re.compile(output.pattern)
        self._ignore = None if output.ignore is None else re.compile(output.ignore)

    def element(self, text: str, seen_ns: int) -> Element | None:
        """Return the element of a text; None if it is no output of this run's program: empty,
        ignored, or of an earlier run."""
        if not text.strip() or (self._ignore is not None and self._ignore.search(text)):
            return None
        found = self._extracted(text[:MAX_TEXT])
        match found.found:
            case Found.ID:
                return Element(found.value, None, seen_ns)
            case Found.OTHER_RUN:
                return None
            case Found.TORN:
                return Element(None, TORN, seen_ns)
            case _:
                return Element(None, UNREADABLE, seen_ns)

    def _extracted(self, text: str) -> Extracted:
        if self._pattern is not None:
            match = self._pattern.search(text)
            if match is None:
                return Extracted(Found.NONE)
            text = match[1] or ""
        if not self._number:
            return self._ids.find(text)
        number = _NUMBER.search(text)
        return Extracted(Found.NONE) if number is None else Extracted(Found.ID, int(number[0]))
