"""The control groups whose limits are set, and the files of both versions of cgroups."""

from pathlib import Path

import pytest

from harness.targets.linux.disks import throttles
from harness.targets.linux.disks.throttles import ControlGroup, candidates

V1 = """\
24 23 0:21 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
30 24 0:27 / /sys/fs/cgroup/blkio rw,relatime shared:9 - cgroup cgroup rw,blkio
31 24 0:28 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""
V2 = "30 24 0:27 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"


def test_cgroup_v1_has_our_group_and_the_root_group() -> None:
    """Writeback is accounted to the root group; cgroup v2 has no such files there."""
    found = list(candidates("7:blkio:/jobs/a\n6:freezer:/\n0::/jobs/a\n", V1))
    assert found == [
        ControlGroup(directory=Path("/sys/fs/cgroup/blkio/jobs/a"), unified=False),
        ControlGroup(directory=Path("/sys/fs/cgroup/blkio"), unified=False),
        ControlGroup(directory=Path("/sys/fs/cgroup/unified/jobs/a"), unified=True),
    ]


def test_cgroup_v2_has_only_our_group() -> None:
    """The group of this process."""
    found = list(candidates("0::/user.slice/session-1.scope\n", V2))
    assert found == [
        ControlGroup(directory=Path("/sys/fs/cgroup/user.slice/session-1.scope"), unified=True)
    ]


def test_without_mounted_cgroups_there_is_no_group() -> None:
    """The list is empty."""
    assert list(candidates("7:blkio:/\n0::/\n", "")) == []


@pytest.mark.parametrize("unified", [False, True])
def test_limits_are_written_and_read_for_one_device(tmp_path: Path, unified: bool) -> None:
    """In the formats of the kernel's documentation of blkio and io."""
    group = ControlGroup(directory=tmp_path, unified=unified)
    names = ["io.max"] if unified else [f"blkio.throttle.{k}_device" for k in throttles.KINDS]
    for name in names:
        (tmp_path / name).write_text("7:9 5\n")
    assert group.limits("7:1") == ""
    group.set("7:1", bytes_per_s=1000, operations_per_s=0)
    written = [(tmp_path / name).read_text() for name in names]
    if unified:
        assert written == ["7:1 rbps=1000 wbps=1000 riops=max wiops=max"]
    else:
        assert written == ["7:1 1000", "7:1 1000", "7:1 0", "7:1 0"]
    assert "1000" in group.limits("7:1")
