"""The progress of a benchmark on a terminal and elsewhere."""

import io
import sys

import pytest

from harness.bench.output.progress import progress_display
from harness.bench.points import Client, Measure, Point, Sweep, Turn
from harness.reports import terminal

POINT = Point(measure=Measure.GROUPS, sweep=Sweep.MEMBERS, client=Client.OWN, members=10)


class FakeTerminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO) -> str:
    """What the progress of one measurement leaves on standard error."""
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm-256color")
    with terminal.guarded(), progress_display() as show:
        show(Turn(0, POINT, "builtin"), 3, 70)
    return stream.getvalue()


def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its colours are for the terminal; nobody is to read them as escapes."""
    text = shown(monkeypatch, FakeTerminal())
    assert "\x1b[" in text
    assert "\\x1b" not in text
    assert "3/70" in text
    assert "builtin: groups 10" in text


def test_a_file_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without colours."""
    assert shown(monkeypatch, io.StringIO()) == "3/70 builtin: groups 10\n"
