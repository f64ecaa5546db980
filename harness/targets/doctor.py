"""Find out by trying what this machine can do for a run, and say how to get what it lacks.

Every probe really uses the capability: it makes a namespace, loads a packet rule, mounts and
freezes an image, and removes everything afterwards. Plans and tests refer to capabilities by these
names.
"""

import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.nftables.main import NFTables
from rich.table import Column, Table
from rich.text import Text

from harness.recording.journal import Journal
from harness.targets.linux import clocks, kernel
from harness.targets.linux.disks import throttles, volumes
from harness.targets.linux.disks.volumes import Volume
from harness.targets.linux.network import holders
from harness.targets.linux.packets import diagnosis
from harness.targets.local import rootless

_TIMEOUT_S = 30
_MIN_JAVA = 17
_DAY_MS = 86_400_000

# A user's PATH may lack /usr/sbin and /sbin.
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


class ProbeFailed(Exception):
    """The machine lacks the capability; the text says what the probe saw."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """One thing that a run may need of the machine."""

    name: str
    available: bool
    detail: str
    """What the probe found, or why it failed."""
    needed_for: str
    """What a run cannot do without it."""
    how_to_get: str
    """The command that provides it, on Debian."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Probe:
    name: str
    run: Callable[[], str]
    """Return what was found, or raise OSError or ProbeFailed."""
    needed_for: str
    how_to_get: str
    in_namespace: bool = False
    """Works inside a user namespace too, for a user who is not root."""


def capabilities(names: Iterable[str] | None = None) -> list[Capability]:
    """Probe all capabilities, or the named ones, in a fixed order. Raises KeyError for others."""
    wanted = set(names) if names is not None else set(_PROBES)
    if unknown := sorted(wanted - set(_PROBES)):
        raise KeyError(f"no such capability: {', '.join(unknown)}")
    found = [_try(probe) for name, probe in _PROBES.items() if name in wanted]
    missed = [c.name for c in found if not c.available and _PROBES[c.name].in_namespace]
    if missed and not rootless.may_make_namespaces() and not rootless.is_rootless():
        inside = {capability.name: capability for capability in _inside_user_namespace(missed)}
        found = [inside.get(capability.name, capability) for capability in found]
    return found


def names() -> tuple[str, ...]:
    """Return the names of all capabilities."""
    return tuple(_PROBES)


def missing_capabilities(needs: set[str]) -> list[Capability]:
    """Return the named capabilities that this machine lacks."""
    return [capability for capability in capabilities(needs) if not capability.available]


def by_privilege(names: Iterable[str]) -> dict[bool, Mapping[str, Capability] | None]:
    """Probe the named capabilities as root (True) and without root (False); return them by name.

    The value is None where a probe is impossible: a user who is not root cannot probe as root.
    """
    wanted = sorted(set(names))
    here = {capability.name: capability for capability in capabilities(wanted)}
    if os.geteuid() != 0 or rootless.is_rootless():
        return {True: None, False: here}
    inside = {capability.name: capability for capability in _inside_user_namespace(wanted)}
    return {True: here, False: {name: inside.get(name, _no_userns(here[name])) for name in wanted}}


def _no_userns(capability: Capability) -> Capability:
    return Capability(
        name=capability.name,
        available=False,
        detail="no user namespace can be made",
        needed_for=capability.needed_for,
        how_to_get=_PROBES["userns"].how_to_get,
    )


def as_json(found: Iterable[Capability]) -> str:
    """Return the capabilities as a JSON array of objects, one per capability."""
    return json.dumps([asdict(capability) for capability in found], indent=2)


def table(found: Iterable[Capability]) -> Table:
    """Return the capabilities as a table for the terminal."""
    names = ("", "capability", "needed for", "what was found", "how to get it")
    result = Table(*(Column(name, overflow="fold") for name in names), title="this machine")
    for capability in found:
        mark = Text("yes", style="green") if capability.available else Text("no", style="red")
        hint = "" if capability.available else capability.how_to_get
        result.add_row(mark, capability.name, capability.needed_for, capability.detail, hint)
    return result


def _try(probe: _Probe) -> Capability:
    try:
        detail, available = probe.run(), True
    except NetlinkError as error:
        detail, available = f"the kernel refuses: {os.strerror(error.code)}", False
    except Exception as error:  # whatever failed, the machine lacks the capability
        detail, available = str(error) or type(error).__name__, False
    return Capability(
        name=probe.name,
        available=available,
        detail=detail,
        needed_for=probe.needed_for,
        how_to_get=probe.how_to_get,
    )


def _inside_user_namespace(names: list[str]) -> list[Capability]:
    argv = rootless.command([sys.executable, "-m", "harness.targets.doctor", *names])
    done = subprocess.run(argv, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    if done.returncode != 0:
        return []
    found = [Capability(**fields) for fields in json.loads(done.stdout)]
    return [
        Capability(**{**asdict(c), "detail": f"{c.detail}, in a user namespace"}) for c in found
    ]


def _root() -> str:
    if os.geteuid() != 0 or rootless.is_rootless():
        raise ProbeFailed("this user is not root, so networks are made in a user namespace")
    return "running as root"


def _in_throwaway_namespace(work: Callable[[], str]) -> str:
    """Run `work` in a network namespace that ends with its thread."""
    results: list[str | BaseException] = []

    def run() -> None:
        try:
            kernel.unshare(kernel.CLONE_NEWNET)
            results.append(work())
        except BaseException as error:  # handed to the caller
            results.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    match results[0]:
        case BaseException() as error:
            raise error
        case detail:
            return detail


def _netns() -> str:
    def work() -> str:
        with IPRoute() as route:
            route.link("add", ifname="probe0", kind="veth", peer={"ifname": "probe1"})
            route.link("add", ifname="probe2", kind="bridge")
        return "made a namespace with a bridge and a veth pair"

    return _in_throwaway_namespace(work)


def _nftables() -> str:
    def work() -> str:
        with NFTables(nfgen_family=1) as nft:
            nft.table("add", name="probe")
            nft.chain("add", table="probe", name="in", hook="input", type="filter", policy=1)
        return "loaded a table with an input chain"

    return _in_throwaway_namespace(work)


def _in_namespace(probe: Callable[[], None], found: str) -> Callable[[], str]:
    def work() -> str:
        probe()
        return found

    return lambda: _in_throwaway_namespace(work)


def _userns() -> str:
    done = subprocess.run(
        rootless.command(["true"]), capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
    )
    if done.returncode != 0:
        raise ProbeFailed("no user namespace can be made")
    return "made one with its own networks and processes"


def _disk(volume: Volume, *, frozen: bool) -> Callable[[], str]:
    def probe() -> str:
        if rootless.is_rootless():
            raise ProbeFailed("only the real root may mount images")
        with tempfile.TemporaryDirectory(prefix="highwater-doctor-") as name:
            place = Path(name)
            # Journalled like a run, so that `clean` finds it if this process is killed here.
            with Journal.create(place / "journal.jsonl", run_id="doctor") as journal:
                mountpoint, image = place / "data", place / "data.img"
                try:
                    volumes.make(volume, mountpoint, image, journal)
                    if frozen:
                        volumes.freeze(mountpoint, journal)
                finally:
                    volumes.remove(mountpoint, image)
                    journal.finish()
        return f"mounted {'and froze ' if frozen else ''}an image with {volume.fs_type}"

    return probe


def _failed_syncs() -> str:
    raise ProbeFailed("no kernel can fail one fsync on request and keep its journal")


def _hypervisor() -> str:
    raise ProbeFailed("the nodes share this machine, so they share its power")


def _disk_limits() -> str:
    found = throttles.groups()
    if not found:
        raise ProbeFailed("no control group here allows limits of disks")
    return f"limits can be set in {found[0].directory}"


def _program(name: str, *version: str) -> Callable[[], str]:
    def probe() -> str:
        path = shutil.which(name, path=_PATH)
        if path is None:
            raise ProbeFailed(f"{name} is not installed")
        return _first_line(path, *version) if version else path

    return probe


def _faketime() -> str:
    preload = clocks.library()
    if preload is None:
        raise ProbeFailed("libfaketime is not installed")
    with tempfile.TemporaryDirectory(prefix="highwater-doctor-") as name:
        file = Path(name) / "clock"
        clocks.write(file, _DAY_MS)
        least_ms, most_ms = clocks.measure(clocks.environment(os.environ, preload, file))
    if not least_ms <= _DAY_MS <= most_ms:
        raise ProbeFailed(f"{preload} shows {most_ms / 1000:+.0f} s instead of +86400 s")
    return f"{preload} set a process's wall clock one day ahead"


def _first_line(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    if done.returncode != 0:
        raise ProbeFailed(lines[-1] if lines else f"{argv[0]} exits with {done.returncode}")
    return lines[0].strip() if lines else argv[0]


def _java() -> str:
    version = _program("java", "-version")()
    number = re.search(r'"(\d+)', version)
    if number is None or int(number[1]) < _MIN_JAVA:
        raise ProbeFailed(f"{version} is older than Java {_MIN_JAVA}")
    return version


def _spark() -> str:
    if importlib.util.find_spec("pyspark") is None:
        raise ProbeFailed("pyspark is not installed")
    _java()
    return f"pyspark {importlib.metadata.version('pyspark')}"


def _kafka() -> str:
    from harness.brokers.kafka.home import find_kafka
    from harness.plans.errors import PlanError

    try:
        found = find_kafka()
    except PlanError as error:
        raise ProbeFailed(str(error)) from error
    return f"Kafka {found.version}, {found.libs}"


def _zookeeper() -> str:
    from harness.brokers.zookeeper.home import find_zookeeper
    from harness.plans.errors import PlanError

    try:
        found = find_zookeeper()
    except PlanError as error:
        raise ProbeFailed(str(error)) from error
    _java()
    return f"ZooKeeper {found.version}, {found.directory}"


def _packages() -> str:
    missing, count = [], 0
    for requirement in importlib.metadata.requires("highwater") or []:
        name, _, marker = requirement.partition(";")
        if "extra" in marker:
            continue
        count += 1
        distribution = re.split(r"[^A-Za-z0-9._-]", name.strip())[0]
        try:
            importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            missing.append(distribution)
    if missing:
        raise ProbeFailed(f"not installed: {', '.join(missing)}")
    return f"all {count} installed"


_CONTAINER = "as root; in a container: docker run --privileged (or --cap-add SYS_ADMIN, NET_ADMIN)"
_LOOP = "as root: modprobe loop; apt install e2fsprogs; a container needs --privileged"

_PROBES: dict[str, _Probe] = {
    probe.name: probe
    for probe in (
        _Probe(
            name="root",
            run=_root,
            needed_for="disk faults; --target docker",
            how_to_get="sudo highwater ...",
        ),
        _Probe(
            name="netns",
            run=_netns,
            needed_for="every run on this machine",
            how_to_get=_CONTAINER,
            in_namespace=True,
        ),
        _Probe(
            name="userns",
            run=_userns,
            needed_for="runs without root",
            how_to_get="sysctl -w user.max_user_namespaces=10000 "
            "kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        _Probe(
            name="nftables",
            run=_nftables,
            needed_for="network partitions",
            how_to_get="modprobe nf_tables",
            in_namespace=True,
        ),
        _Probe(
            name="bad-links",
            run=_in_namespace(holders.probe, "loaded rules that lose, duplicate and delay packets"),
            needed_for="slow and lossy links",
            how_to_get="modprobe -a nft_numgen nft_dup_ipv4 nft_compat xt_NFQUEUE nfnetlink_queue",
            in_namespace=True,
        ),
        _Probe(
            name="resets",
            run=_in_namespace(diagnosis.probe, "the kernel resets TCP connections on request"),
            needed_for="connection resets",
            how_to_get="modprobe tcp_diag (a kernel with CONFIG_INET_DIAG_DESTROY)",
            in_namespace=True,
        ),
        _Probe(
            name="loop",
            run=_disk(Volume.IMAGE_EXT4, frozen=False),
            needed_for="disk faults",
            how_to_get=_LOOP,
        ),
        _Probe(
            name="freeze",
            run=_disk(Volume.IMAGE_EXT4, frozen=True),
            needed_for="disk stalls",
            how_to_get=_LOOP,
        ),
        _Probe(
            name="failed-syncs",
            run=_failed_syncs,
            needed_for="failed fsyncs",
            how_to_get="highwater simulate: its disks can",
        ),
        _Probe(
            name="hypervisor",
            run=_hypervisor,
            needed_for="power loss of machines",
            how_to_get="highwater run --target vagrant (libvirt or VirtualBox): docs/vagrant.md",
        ),
        _Probe(
            name="disk-limits",
            run=_disk_limits,
            needed_for="slow disks",
            how_to_get="as root, with a writable cgroup: mount /sys/fs/cgroup read-write, and put "
            "+io into its cgroup.subtree_control",
        ),
        _Probe(
            name="xfs",
            run=_disk(Volume.IMAGE_XFS, frozen=False),
            needed_for="disks with XFS",
            how_to_get="as root: modprobe xfs; apt install xfsprogs",
        ),
        _Probe(
            name="faketime",
            run=_faketime,
            needed_for="clock faults",
            how_to_get="apt install libfaketime",
            in_namespace=True,
        ),
        _Probe(
            name="docker",
            run=_program("docker", "info"),
            needed_for="--target docker",
            how_to_get="apt install docker.io; as root: dockerd",
        ),
        _Probe(
            name="vagrant",
            run=_program("vagrant", "--version"),
            needed_for="--target vagrant",
            how_to_get="apt install vagrant",
        ),
        _Probe(
            name="java",
            run=_java,
            needed_for="--system kafka; --engine spark",
            how_to_get="apt install openjdk-17-jre-headless",
        ),
        _Probe(
            name="spark",
            run=_spark,
            needed_for="--engine spark",
            how_to_get="pip install pyspark; apt install openjdk-17-jre-headless",
        ),
        _Probe(
            name="kafka",
            run=_kafka,
            needed_for="--system kafka",
            how_to_get="make kafka; or unpack https://kafka.apache.org/downloads, set KAFKA_HOME",
        ),
        _Probe(
            name="zookeeper",
            run=_zookeeper,
            needed_for="--control-plane zookeeper",
            how_to_get="make zookeeper; or apt install zookeeper",
        ),
        _Probe(
            name="kcat",
            run=_program("kcat", "-V"),
            needed_for="the tests only",
            how_to_get="apt install kcat",
        ),
        _Probe(
            name="chromium",
            run=_program("chromium"),
            needed_for="the tests only",
            how_to_get="apt install chromium",
        ),
        _Probe(
            name="python-packages",
            run=_packages,
            needed_for="everything",
            how_to_get="pip install -e .",
        ),
    )
}


if __name__ == "__main__":
    print(as_json(capabilities(sys.argv[1:] or None)))
