"""What this process and its children have used: processor time and memory.

The JVM that Spark runs in is such a child.
"""

import os
from pathlib import Path


def cpu_s() -> float:
    """The processor time until now, of all threads, in seconds."""
    fields = [(told / "stat").read_text().rpartition(")")[2].split() for told in _at_work()]
    return sum(int(f[11]) + int(f[12]) for f in fields) / os.sysconf("SC_CLK_TCK")


def peak_mb() -> int:
    """The greatest resident memory of each process until now, added, in MiB."""
    lines = [
        line.split() for told in _at_work() for line in (told / "status").read_text().splitlines()
    ]
    return sum(int(line[1]) for line in lines if line[0] == "VmHWM:") >> 10


def _at_work() -> list[Path]:
    """What /proc says of this process and of its children."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [Path("/proc/self"), *(Path("/proc", child) for child in children)]
