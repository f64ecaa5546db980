"""A few thousand frames of malice against a real node; `tests.tools.wire_fuzz` sends a million."""

import asyncio
from pathlib import Path

from tests.tools.wire_fuzz import attack


def test_malice_breaks_nothing(tmp_path: Path) -> None:
    """The node lives, stays small, logs little, and serves who behaves; see the fuzzer."""
    result = asyncio.run(attack(2000, 20_261_120, tmp_path))
    assert result.frames >= 2000
    assert result.rounds > 0
