"""What a test needs of the machine: skipped where it is missing, failed where it was promised.

A test asks with `require("root", "xfs")`. Where the machine lacks one, the test is skipped with a
sentence that says how to get it, and the session ends with a count of what was skipped for what.

`HIGHWATER_REQUIRE` names the capabilities that must be there (comma-separated, or `all`), so that a
continuous-integration machine that lost one fails instead of quietly testing less. `HIGHWATER_HIDE`
names those that are to be taken for missing; `tests.tools.bare` hides the programs themselves, too.
"""

import os
import platform
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from harness.brokers.zookeeper.home import find_zookeeper
from harness.plans.errors import PlanError
from harness.simulation import huge_pages
from harness.simulation.validation import tlc
from harness.targets import doctor
from harness.targets.linux import clocks
from harness.targets.linux.disks import throttles

SEARCH_PATH: Final = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
"""A user's PATH may lack the administrator's folders."""

KAFKA_JARS: Final = Path(__file__).parents[2] / ".kafka" / "libs"
"""What `make kafka` fetches."""

KAFKA_39_JARS: Final = KAFKA_JARS.parents[1] / ".kafka39" / "libs"
"""What `make kafka-zookeeper` fetches."""

ZOOKEEPER_JARS: Final = KAFKA_JARS.parents[1] / ".zookeeper" / "libs"
"""What `make zookeeper` fetches."""

JAVA_CLIENT: Final = KAFKA_JARS.with_name("client") / "highwater-java-client.jar"
"""What `make java-client` compiles."""

FRANZ_GO: Final = "github.com/twmb/franz-go@v1.22.3"
"""The library of the sample of a client program in Go."""

KAFKA_PROGRAMS: Final = KAFKA_JARS.with_name("programs")
"""What `make kafka-programs` fetches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """Something that a machine may lack.

    programs: those that it takes. package: Debian's, which has them. remedy: what else gets it.
    there: whether the machine has it, beside the programs. needs: other capabilities.
    """

    programs: tuple[str, ...] = ()
    package: str | None = None
    remedy: str = ""
    there: Callable[[], bool] = lambda: True
    needs: tuple[str, ...] = ()

    @property
    def how_to_get(self) -> str:
        """What to do on a machine that lacks it."""
        return f"apt-get install {self.package}" if self.package else self.remedy


def _runs(*argv: str) -> bool:
    try:
        return subprocess.run(argv, capture_output=True, timeout=30, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _has_machines() -> bool:
    """Three that `vagrant up` made."""
    try:
        told = subprocess.run(
            ("vagrant", "status", "--machine-readable"),
            capture_output=True, text=True, timeout=60, check=False,
        ).stdout  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return False
    return all(f",n{node},state,running" in told for node in (1, 2, 3))


def _has_zookeeper() -> bool:
    """The jars of Debian's package, or those that `make zookeeper` fetches."""
    try:
        find_zookeeper()
    except PlanError:
        return False
    return True


def _has_tlc() -> bool:
    """The jar that `make tlc` fetches, or that TLC_JAR names."""
    try:
        tlc.find_jar()
    except tlc.TlcError:
        return False
    return True


def _has_huge_pages() -> bool:
    """On demand, and for what glibc allocates."""
    kernel = tuple(int(part) for part in re.findall(r"\d+", platform.release())[:2])
    setting = huge_pages.kernel_setting()
    return kernel >= (6, 1) and huge_pages.available({}, platform.libc_ver(), setting)


def _probed(name: str) -> Capability:
    """What only the doctor can try."""
    return Capability(
        remedy=f"see highwater doctor, {name}",
        there=lambda: not doctor.missing_capabilities({name}),
        needs=("netns",),
    )


_CONTAINER: Final = "in a container: --cap-add SYS_ADMIN --cap-add NET_ADMIN, or --privileged"

CAPABILITIES: Final[Mapping[str, Capability]] = {
    "huge-pages": Capability(
        remedy="Linux 6.1, glibc 2.35; echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
        there=_has_huge_pages,
    ),
    "root": Capability(remedy="run the tests as root", there=lambda: os.geteuid() == 0),
    "netns": Capability(remedy=_CONTAINER, there=lambda: _runs("unshare", "--net", "true")),
    "userns": Capability(
        remedy="sysctl -w user.max_user_namespaces=10000",
        there=lambda: _runs("unshare", "--user", "--map-root-user", "--net", "true"),
    ),
    "loop": Capability(
        programs=("mkfs.ext4",),
        package="e2fsprogs",
        there=lambda: Path("/dev/loop-control").exists(),
        needs=("root",),
    ),
    "xfs": Capability(programs=("mkfs.xfs",), package="xfsprogs", needs=("loop", "xfs-kernel")),
    "xfs-kernel": Capability(
        remedy="modprobe xfs",
        there=lambda: "\txfs\n" in Path("/proc/filesystems").read_text(),
    ),
    "disk-limits": Capability(
        remedy="mount /sys/fs/cgroup read-write, with +io in its cgroup.subtree_control",
        there=lambda: bool(throttles.groups()),
        needs=("root",),
    ),
    **{name: _probed(name) for name in ("nftables", "bad-links", "resets", "freeze")},
    "java": Capability(programs=("java",), package="openjdk-17-jre-headless"),
    "kafka": Capability(
        remedy="make kafka (needs Maven: apt-get install maven)",
        there=lambda: any(KAFKA_JARS.glob("kafka-server-4*.jar")),
        needs=("java",),
    ),
    "kafka-tools": Capability(
        remedy="make kafka (needs Maven: apt-get install maven)",
        there=lambda: any(KAFKA_JARS.glob("kafka-tools-4*.jar")),
        needs=("kafka",),
    ),
    "zookeeper": Capability(
        remedy="make zookeeper (needs Maven), or apt-get install zookeeper",
        there=_has_zookeeper,
        needs=("java",),
    ),
    "kafka-zookeeper": Capability(
        remedy="make kafka-zookeeper (needs Maven: apt-get install maven)",
        there=lambda: any(KAFKA_39_JARS.glob("kafka-server-3.9*.jar")),
        needs=("zookeeper",),
    ),
    "kafka-programs": Capability(
        remedy="make kafka-programs (needs Maven: apt-get install maven)",
        there=lambda: any(KAFKA_PROGRAMS.glob("kafka-streams-4*.jar")),
        needs=("kafka-tools",),
    ),
    "java-client": Capability(
        remedy="make java-client (needs Maven and a JDK: apt-get install maven)",
        there=JAVA_CLIENT.is_file,
        needs=("java",),
    ),
    "go": Capability(programs=("go",), package="golang-go"),
    "franz-go": Capability(
        remedy="a network: Go's module proxy has the library of the sample",
        there=lambda: _runs("go", "mod", "download", FRANZ_GO),
        needs=("go",),
    ),
    "tlc": Capability(
        remedy="make tlc (needs Maven: apt-get install maven)", there=_has_tlc, needs=("java",)
    ),
    "javac": Capability(programs=("javac",), package="openjdk-17-jdk-headless", needs=("java",)),
    "kcat": Capability(programs=("kcat",), package="kcat"),
    "faketime": Capability(package="libfaketime", there=lambda: clocks.library() is not None),
    "sshd": Capability(programs=("sshd",), package="openssh-server", needs=("root",)),
    "docker": Capability(
        programs=("dockerd", "docker-init"), package="docker.io", needs=("root", "mmdebstrap")
    ),
    "mmdebstrap": Capability(programs=("mmdebstrap",), package="mmdebstrap"),
    "openssl": Capability(programs=("openssl",), package="openssl"),
    "chromium": Capability(programs=("chromium",), package="chromium"),
    "ruby": Capability(programs=("ruby",), package="ruby"),
    "vagrant": Capability(
        programs=("vagrant",),
        remedy="apt-get install vagrant; NODES=3 vagrant up",
        there=_has_machines,
    ),
}


@cache
def has(name: str) -> bool:
    """Whether this machine has the capability."""
    hidden = os.environ.get("HIGHWATER_HIDE", "").split(",")
    return "all" not in hidden and name not in hidden and is_there(name)


def is_there(name: str) -> bool:
    """The same, hidden or not."""
    wanted = CAPABILITIES[name]
    programs = all(shutil.which(each, path=SEARCH_PATH) for each in wanted.programs)
    return programs and all(map(is_there, wanted.needs)) and wanted.there()


def lacking(names: Iterable[str]) -> list[str]:
    """Those of the capabilities that this machine lacks, what they need first."""
    lacks: dict[str, None] = {}
    for name in names:
        for needed in lacking(CAPABILITIES[name].needs):
            lacks[needed] = None
        if not has(name) and all(map(has, CAPABILITIES[name].needs)):
            lacks[name] = None
    return list(lacks)


def require(*names: str) -> None:
    """Skip the running test unless the machine has these capabilities; fail it where they were
    promised."""
    lacks = lacking(names)
    if not lacks:
        return
    promised = os.environ.get("HIGHWATER_REQUIRE", "").split(",")
    if broken := [name for name in lacks if "all" in promised or name in promised]:
        pytest.fail(f"HIGHWATER_REQUIRE promises {', '.join(broken)}, but this machine has none")
    pytest.skip("; ".join(map(_sentence, lacks)))


def _sentence(name: str) -> str:
    return f"this machine has no {name}: {CAPABILITIES[name].how_to_get}"


_LACKS: Final = re.compile(r"this machine has no ([\w-]+):")


def wanting(reasons: Iterable[str]) -> Counter[str]:
    """How many tests were skipped for want of each capability, by the reasons of the skipped."""
    return Counter(name for reason in reasons for name in _LACKS.findall(reason))


def summary(wanted: Mapping[str, int]) -> list[str]:
    """The table at the end of a session, and what installs all of it; nothing without any."""
    if not wanted:
        return []
    width = max(map(len, wanted))
    lines = [
        f"{name:<{width}}  {count:>5} skipped   {CAPABILITIES[name].how_to_get}"
        for name, count in sorted(wanted.items())
    ]
    packages = sorted({p for name in wanted if (p := CAPABILITIES[name].package)})
    command = [f"to run them: apt-get install {' '.join(packages)}"] if packages else []
    return [*lines, *command]
