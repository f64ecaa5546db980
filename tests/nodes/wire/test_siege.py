"""One round of the siege; `tests.tools.wire_siege` tells how long a calm client waits meanwhile."""

import sys
from collections.abc import Sequence

import pytest

from tests.support.tiers import at_turn
from tests.tools import wire_siege


@pytest.mark.slow
@at_turn(0, 2, "nodes/server/test_floods.py::test_ten_thousand_things_cost_little_memory")
def test_hostile_but_valid_requests_break_no_node(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every voter runs on, memory stays below its bound, and another leader can be elected."""
    arguments: Sequence[str] = ("siege", "--rounds", "1")
    monkeypatch.setattr(sys, "argv", list(arguments))
    assert wire_siege.main() == 0, capsys.readouterr().err
    assert "another leader elected" in capsys.readouterr().out
