"""What a process has loaded, moved into huge pages.

A node looks at modules, types and tables all over its memory for each request. In pages of 4 KiB a
processor often has to look up where they are, above all in a virtual machine. Python's allocator
never asks for huge pages, so the node has its memory moved once, when everything is loaded
(madvise(2); MADV_COLLAPSE is new in Linux 6.1).
"""

import contextlib
import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Final

HUGE_BYTES: Final = 2 << 20
MADV_COLLAPSE: Final = 25


def use_huge_pages() -> None:
    """Move this process's own memory into huge pages, where it fills them. Without such a kernel,
    or free memory in large pieces, nothing changes."""
    with contextlib.suppress(AttributeError, OSError):
        madvise = ctypes.CDLL(None).madvise
        madvise.argtypes = (ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int)
        for start, length in huge_ranges(Path("/proc/self/maps").read_text()):
            madvise(start, length, MADV_COLLAPSE)


def huge_ranges(maps: str) -> Iterator[tuple[int, int]]:
    """Yield the start and length, in bytes, of what fills huge pages in a process's private,
    writable memory without a file. maps: the text of /proc/PID/maps.
    """
    for row in maps.splitlines():
        addresses, permissions, _offset, _device, inode, *_ = row.split()
        if permissions != "rw-p" or inode != "0":
            continue
        start, end = (int(address, 16) for address in addresses.split("-"))
        start, end = -(-start // HUGE_BYTES) * HUGE_BYTES, end // HUGE_BYTES * HUGE_BYTES
        if start < end:
            yield start, end - start
