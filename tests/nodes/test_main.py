"""The process that `python -m nodes` runs in: its settings, and what it loads."""

import ctypes
import subprocess
import sys

import pytest

PROGRAM = """
import resource
from nodes.__main__ import tune_memory_allocator

tune_memory_allocator()
for number in range(40):
    if number == 20:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    messages = [b"x" * size for size in [1 << 20] * 8]
    messages.clear()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "mallopt"), reason="the C library is not glibc: no mallopt"
)
def test_memory_of_large_messages_is_used_again() -> None:
    """Twenty rounds of eight messages of a megabyte: without the setting 40,000 page faults."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True)
    assert int(done.stdout) < 100


def test_a_broker_with_a_quorum_loads_nothing_of_zookeeper() -> None:
    """It would take a noticeable part of every start."""
    program = "import sys, nodes.__main__; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    loaded = {name for name in done.stdout.decode().split() if "zookeeper" in name}
    assert loaded == {"nodes.config.zookeeper"}
    assert b"nodes.wire.controller_requests" not in done.stdout
    assert b"kazoo" not in done.stdout
