"""What containers of a program print. For whole ones see tests/system."""

import io

from harness.workloads.app.containers import Chunks


def test_chunks_of_any_size_become_lines() -> None:
    """Docker cuts them where it likes."""
    parts = [b"on", b"", b"e\ntwo\nth", b"x" * 20_000, b"\nlast"]
    lines = list(io.BufferedReader(Chunks(iter(parts))))
    assert lines == [b"one\n", b"two\n", b"th" + b"x" * 20_000 + b"\n", b"last"]
