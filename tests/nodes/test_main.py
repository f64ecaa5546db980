"""The settings of the process that `python -m nodes` runs in."""

import ctypes
import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
from nodes.__main__ import tune_memory_allocator

if sys.argv[1] == "tuned":
    tune_memory_allocator()
for number in range(40):
    if number == 20:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    messages = [b"x" * size for size in [1 << 20] * 8]
    messages.clear()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(setting: str) -> int:
    """The page faults of twenty rounds that allocate and free eight messages of a megabyte."""
    command = [sys.executable, "-c", PROGRAM, setting]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "mallopt"), reason="the C library is not glibc: no mallopt"
)
def test_memory_of_large_messages_is_used_again() -> None:
    assert page_faults("tuned") < 100
    assert page_faults("untuned") > 10_000  # what the setting is for
