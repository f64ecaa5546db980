"""Processes that simulate have their memory in huge pages, where C library and kernel give them."""

import os
from pathlib import Path

import pytest

from harness.simulation import huge_pages, workers
from harness.simulation.huge_pages import available
from tests.support.require import require

GLIBC = ("glibc", "2.36")
MADVISE = "always [madvise] never"


@pytest.mark.parametrize(
    ("environment", "libc", "kernel", "right"),
    [
        ({}, GLIBC, MADVISE, True),
        ({}, GLIBC, "[always] madvise never", True),
        ({}, GLIBC, "always madvise [never]", False),
        ({}, GLIBC, "", False),
        ({}, ("glibc", "2.34"), MADVISE, False),
        ({}, ("", ""), MADVISE, False),
        ({"PYTHONMALLOC": "debug"}, GLIBC, MADVISE, False),
        ({"GLIBC_TUNABLES": "glibc.malloc.check=3"}, GLIBC, MADVISE, False),
    ],
)
def test_who_has_huge_pages(
    environment: dict[str, str], libc: tuple[str, str], kernel: str, right: bool
) -> None:
    assert available(environment, libc, kernel) is right


def _huge_kib() -> int:
    """Take 64 MB, and return how much of this process's memory is in huge pages."""
    held = [bytes(1000) for _ in range(64_000)]
    rows = Path("/proc/self/smaps_rollup").read_text().splitlines()
    assert held
    return next(int(row.split()[1]) for row in rows if row.startswith("AnonHugePages:"))


def test_workers_have_them_and_the_parent_keeps_its_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    require("huge-pages")
    for name in huge_pages.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    before = dict(os.environ)
    with workers.pool(1) as pool:
        assert pool.submit(_huge_kib).result(timeout=60) > 0
    assert dict(os.environ) == before
