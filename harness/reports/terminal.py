"""Prints texts of a run on the terminal safely: topic names, last lines of nodes, errors.

Such a text is no markup, and its control characters are printed as escapes, also those of Unicode
that change the direction of writing. Everything that a command prints goes through `guarded`;
everything that rich draws goes through `console`.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TextIO, cast

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

_CONTROLS: Final = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""All control characters but tabs and line ends. Lone surrogates cannot be printed at all."""


def plain(text: str) -> str:
    """Return the text with each control character as an escape."""
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


class Terminal(Console):
    """A console that draws texts of a run without interpreting them."""

    def render_str(self, text: str, **how: Any) -> Text:
        """Render a text; control characters are replaced before anything is measured."""
        return super().render_str(plain(text), **how)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render with rich's own control characters only."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(plain(segment.text), segment.style)


def console(*, stderr: bool = False, width: int | None = None) -> Terminal:
    """Return a console for tables and colours."""
    stream = sys.stderr if stderr else sys.stdout
    return Terminal(file=getattr(stream, "unguarded", stream), width=width, markup=False)


class _Guarded:
    """A stream that replaces control characters."""

    def __init__(self, stream: TextIO) -> None:
        self.unguarded = stream

    def write(self, text: str) -> int:
        self.unguarded.write(plain(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unguarded, name)


@contextmanager
def guarded() -> Iterator[None]:
    """Replace control characters in everything printed to standard output and standard error."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast(TextIO, _Guarded(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
