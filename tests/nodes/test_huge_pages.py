"""What a node has loaded is in huge pages."""

import subprocess
import sys

from nodes.huge_pages import huge_ranges
from tests.support.require import require

MIB = 1 << 20
MAPS = """\
00400000-00600000 r-xp 00000000 fe:00 13 /usr/bin/python3
00600000-00a00000 rw-p 00200000 fe:00 13 /usr/bin/python3
01000000-01900000 rw-p 00000000 00:00 0 [heap]
7f0000100000-7f0000500000 rw-p 00000000 00:00 0
7f0000700000-7f0000a00000 rw-p 00000000 00:00 0
7f0000c00000-7f0001000000 ---p 00000000 00:00 0
7f0002000000-7f0002400000 rw-s 00000000 00:01 7 /dev/zero
"""


def test_whole_huge_pages_of_private_memory() -> None:
    assert list(huge_ranges(MAPS)) == [
        (0x01000000, 8 * MIB),
        (0x7F0000200000, 2 * MIB),
        (0x7F0000800000, 2 * MIB),
    ]


MOVE = """
import nodes.__main__
from pathlib import Path
from nodes.huge_pages import use_huge_pages

def huge():
    rows = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return int(next(row.split()[1] for row in rows if row.startswith("AnonHugePages:")))

before = huge()
use_huge_pages()
print(before, huge())
"""


def test_memory_moves() -> None:
    require("huge-pages")
    ran = subprocess.run(
        [sys.executable, "-c", MOVE], capture_output=True, text=True, check=True, timeout=120
    )
    before, after = map(int, ran.stdout.split())
    assert after > before
