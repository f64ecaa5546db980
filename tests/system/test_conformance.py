"""The table of foreign clients says what the tests show, and the documentation says the same."""

import importlib
from pathlib import Path

import pytest

from tests.tools.conformance import CLIENTS, TABLE, Cannot, Shown, markdown

DOCUMENT = Path(__file__).parents[2] / "docs" / "clients.md"


@pytest.mark.parametrize("what", TABLE)
def test_every_cell_is_shown_by_a_test_or_has_a_reason(what: str) -> None:
    """A test that is gone takes its cell with it."""
    assert tuple(TABLE[what]) == CLIENTS
    for cell in TABLE[what].values():
        if isinstance(cell, Shown):
            module = importlib.import_module(f"tests.system.test_foreign_{cell.module}")
            assert callable(getattr(module, cell.test))
        elif isinstance(cell, Cannot):
            assert cell.reason


def test_the_documentation_holds_the_table() -> None:
    """Made by `python -m tests.tools.conformance`."""
    assert markdown() in DOCUMENT.read_text()
