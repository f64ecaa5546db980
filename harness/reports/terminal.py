"""The terminal, to which texts of a run come: names of topics, last lines of nodes, errors.

Such a text is shown as it is, and does nothing: it is no markup, and its control characters (those
of Unicode that turn the direction of writing, too) are printed as escapes. This is the one place
for that: whatever a command prints goes through `guarded`, whatever rich draws through `console`.
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
"""All but tabs and line ends; lone surrogates could not be printed at all."""


def plain(text: str) -> str:
    """The text without power over a terminal: each control character as its escape."""
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


class Terminal(Console):
    """Draws texts of a run as they are."""

    def render_str(self, text: str, **how: Any) -> Text:
        """As rich does it; before anything is measured."""
        return super().render_str(plain(text), **how)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """As rich does it, without control characters that are not rich's own."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(plain(segment.text), segment.style)


def console(*, stderr: bool = False, width: int | None = None) -> Terminal:
    """What tables and colours are drawn on."""
    stream = sys.stderr if stderr else sys.stdout
    return Terminal(file=getattr(stream, "unguarded", stream), width=width, markup=False)


class _Guarded:
    """A stream whose texts are plain."""

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
    """Print only plain texts meanwhile, to standard output and standard error."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast(TextIO, _Guarded(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
