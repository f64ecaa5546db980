"""A run's texts do nothing to the terminal that shows them."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table

from harness.reports import terminal

HOSTILE = "[/red]\x1b]0;owned\x07\x9b31m\r\u202eabc[bold]"
SHOWN = r"[/red]\x1b]0;owned\x07\x9b31m\r\u202eabc[bold]"


def test_what_is_printed_is_plain(capsys: pytest.CaptureFixture[str]) -> None:
    """Line ends and tabs stay, and the streams are as they were afterwards."""
    with terminal.guarded():
        print(HOSTILE, "a\tb", sep="\n")
    assert capsys.readouterr().out == f"{SHOWN}\na\tb\n"
    print("\x1b")
    assert capsys.readouterr().out == "\x1b\n"


def test_what_is_drawn_is_neither_markup_nor_control(monkeypatch: pytest.MonkeyPatch) -> None:
    """In tables, their titles and lines; rich's own colours work, guarded or not."""
    screen = io.StringIO()
    monkeypatch.setattr("sys.stdout", screen)
    with terminal.guarded():
        console = terminal.console(width=120)
        table = Table(title=HOSTILE)
        table.add_column(HOSTILE)
        table.add_row(HOSTILE)
        console.print(table)
        console.print(HOSTILE, style="red")
    assert screen.getvalue().count(SHOWN) == 4
    assert "\x1b" not in screen.getvalue()
    coloured = terminal.Terminal(file=screen, force_terminal=True, markup=False)
    coloured.print(HOSTILE, style="red")
    last = screen.getvalue().splitlines()[-1]
    assert "\x1b[31m" in last
    assert "\x1b]" not in last


@given(st.text())
def test_plain_text_has_no_control_characters(text: str) -> None:
    """Whatever the text; and what is plain stays as it is."""
    plain = terminal.plain(text)
    assert terminal.plain(plain) == plain
    assert all(each in "\t\n" or ord(each) >= 0x20 for each in plain)
    plain.encode()
