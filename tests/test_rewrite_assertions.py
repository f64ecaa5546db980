"""What continuous integration rewrites before its first session is what the session takes."""

import subprocess
import sys
from pathlib import Path

REWRITE = """
import sys
from pathlib import Path
from tests.tools.rewrite_assertions import rewritten

print("rewritten:", rewritten([Path(sys.argv[1])]))
"""
MODULE = """
def test_one():
    one = 1
    assert one == 2
"""


def run(*arguments: str) -> str:
    """What Python prints with these arguments."""
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=60, check=False
    ).stdout


def test_a_session_takes_what_was_rewritten_before(tmp_path: Path) -> None:
    module = tmp_path / "test_one.py"
    module.write_text(MODULE)
    assert "rewritten: 1" in run("-c", REWRITE, str(module))
    (kept,) = (tmp_path / "__pycache__").iterdir()
    before = kept.stat()
    assert "assert 1 == 2" in run("-m", "pytest", "-p", "no:cacheprovider", str(module))
    after = kept.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert list((tmp_path / "__pycache__").iterdir()) == [kept]
    assert "rewritten: 0" in run("-c", REWRITE, str(module))
