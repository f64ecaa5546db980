"""A few thousand hostile frames against a real node; `tests.tools.wire_fuzz` sends a million."""

import asyncio
from pathlib import Path

from tests.tools.wire_fuzz import attack


def test_hostile_frames_break_nothing(tmp_path: Path) -> None:
    """The node runs on, stays small, logs little, and serves other clients; see the fuzzer."""
    result = asyncio.run(attack(2000, 20_261_120, tmp_path))
    assert result.frames >= 2000
    assert result.rounds > 0
