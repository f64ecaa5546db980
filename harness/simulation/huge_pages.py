"""Memory in huge pages for the processes that simulate.

A simulated cluster is spread over hundreds of megabytes. In pages of 4 KiB a processor spends much
of its time on looking up where they are, in a virtual machine up to half of it. glibc can ask the
kernel for pages of 2 MiB (its tunable glibc.malloc.hugetlb, since 2.35), but Python's own allocator
cannot, so Python has to use that of glibc.
"""

import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

VARIABLES: Final[Mapping[str, str]] = {
    "PYTHONMALLOC": "malloc",
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}
SINCE: Final = (2, 35)
_KERNEL: Final = Path("/sys/kernel/mm/transparent_hugepage/enabled")


@contextmanager
def for_new_processes() -> Iterator[None]:
    """Let Python processes that begin within the block use huge pages, if `available`."""
    added = VARIABLES if available(os.environ, platform.libc_ver(), kernel_setting()) else {}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


def available(environment: Mapping[str, str], libc: tuple[str, str], kernel: str) -> bool:
    """Whether new processes can have huge pages, and the user has chosen no allocator.

    libc: its name and version, as platform.libc_ver. kernel: when it gives huge pages, as in
    /sys/kernel/mm/transparent_hugepage/enabled.
    """
    name, version = libc
    numbers = tuple(int(part) for part in version.split(".") if part.isdigit())
    return (
        name == "glibc"
        and numbers >= SINCE
        and any(each in kernel for each in ("[madvise]", "[always]"))
        and not VARIABLES.keys() & environment.keys()
    )


def kernel_setting() -> str:
    """Return when the kernel gives huge pages, in its own words; empty if it has none."""
    try:
        return _KERNEL.read_text()
    except OSError:
        return ""
