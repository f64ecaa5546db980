"""The interfaces through which faults act on a cluster; a deployment target provides them.

Every call is synchronous and quick (signals, netlink messages, ioctls, reads of /proc), so that the
nemesis can make it from its one thread. The schedule decides when and why a call is made. Every
change can be undone from the target's own journal; undoing twice is no error. A call may raise
OSError or an error of the target; the nemesis records it with the fault. An interface that a target
cannot offer raises on use; the abilities refuse such plans before the run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from nemesis.administration import Administration as Administration
from nemesis.base import ClusterView
from nemesis.clocks import ClockReading as ClockReading
from nemesis.clocks import Clocks as Clocks
from nemesis.concurrency import TaskRunner, ThreadTaskRunner
from nemesis.fault_state import FaultState
from nemesis.programs import NoProgram, Programs
from nemesis.requests import RequestFilter as RequestFilter
from nemesis.requests import WatchedRequests as WatchedRequests

CLIENTS: Final = 0
"""Stands for the clients' machine in place of a node id."""
FIRST_ZOOKEEPER: Final = 101
"""The number of the first node that runs a ZooKeeper server; brokers have lower numbers."""
PROGRAM: Final = 251
"""Stands for the machine of the tested program, if it has one of its own."""
ANY_PORT: Final = 0


class Cut(NamedTuple):
    """Packets to be dropped: those that arrive at `dst` from `src`, one way."""

    src: int
    dst: int
    port: int = ANY_PORT
    """Only packets of connections with this TCP port at either end."""
    answers: bool = False
    """Only packets with data from that port, the server's. Connections open and requests arrive and
    are acknowledged, but no part of a response arrives."""
    layer: str = ""
    """The owner of the cut: equal cuts of different layers begin and end independently."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkQuality:
    """How the packets of one link are impaired, one way. Shares are from 0 to 1."""

    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    """The delay varies evenly by up to this much, up and down; packets keep their order."""
    lost: float = 0.0
    reordered: float = 0.0
    """Share of packets that overtake delayed packets; without a delay no packet can overtake."""
    duplicated: float = 0.0
    bytes_per_s: int = 0
    """The rate at which packets pass, one after another; 0 for no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkCounters:
    """Counts of a link's packets since one layer began to impair it."""

    packets: int = 0
    """All packets, also the lost ones."""
    delayed: int = 0
    mean_delay_ms: float = 0.0
    """Of the delayed packets, over all layers of the link, by the clock of the delaying process."""
    lost: int = 0
    reordered: int = 0
    duplicated: int = 0


class Processes(Protocol):
    """The nodes' processes."""

    def node_ids(self) -> Sequence[int]:
        """All nodes of the cluster, running or not, in ascending order."""
        ...

    def start(self, node: int) -> None:
        """Start the node's process again on its existing data."""
        ...

    def kill(self, node: int) -> None:
        """Send SIGKILL to the node's processes and return when they are gone."""
        ...

    def pause(self, node: int) -> None:
        """Send SIGSTOP to the node's processes."""
        ...

    def resume(self, node: int) -> None:
        """Send SIGCONT to the node's processes."""
        ...

    def terminate(self, node: int) -> None:
        """Send SIGTERM to the node's process, which then shuts down cleanly; do nothing without a
        process.
        """
        ...

    def is_running(self, node: int) -> bool:
        """Whether the node's process exists (a paused one does)."""
        ...

    def exit_code(self, node: int) -> int | None:
        """The exit code of the node's last process (negative: the signal); None while it runs."""
        ...

    def state(self, node: int) -> str:
        """The process state letter of /proc/<pid>/stat: R, S, D, T...; empty without a process."""
        ...


class Clients(Protocol):
    """The processes of all clients of the workload, as one group."""

    def pause(self) -> None:
        """Send SIGSTOP to all of them."""
        ...

    def resume(self) -> None:
        """Send SIGCONT to all of them."""
        ...

    def states(self) -> Mapping[int, str]:
        """pid -> state letter of every existing process."""
        ...


class Links(Protocol):
    """The network between nodes, and between nodes and clients (machine 0)."""

    def block(self, *cuts: Cut) -> None:
        """Drop the packets of the cuts; a repeated call is no error."""
        ...

    def unblock(self, *cuts: Cut) -> None:
        """Undo `block`; do nothing for a cut that is not blocked or a machine that is gone."""
        ...

    def dropped(self, cut: Cut) -> int | None:
        """Packets dropped since `block`; None if the cut is not blocked."""
        ...

    def dropped_in_total(self, cut: Cut) -> int:
        """Packets dropped since the first `block` of a cut with a layer, blocked now or not."""
        ...

    def requests_arrived(self, cut: Cut) -> int | None:
        """Request packets since `block` of a cut with `answers`: packets with data that arrived at
        `src` from `dst` for the cut's port. None if the cut is not blocked.
        """
        ...

    def prepare(self, links: Sequence[tuple[int, int]], quality: LinkQuality) -> None:
        """Prepare for `degrade` of these links, so that it is quick."""
        ...

    def degrade(self, links: Sequence[tuple[int, int]], quality: LinkQuality, layer: str) -> None:
        """Impair the links (src, dst), one way, on top of other layers."""
        ...

    def restore(self, links: Sequence[tuple[int, int]], layer: str) -> None:
        """Remove a layer; do nothing for a missing layer or a machine that is gone."""
        ...

    def counters(self, link: tuple[int, int], layer: str) -> LinkCounters | None:
        """What the layer has done to the link's packets; None without such a layer."""
        ...

    def watch_requests(
        self,
        links: Sequence[tuple[int, int]],
        layer: str,
        port: int,
        hold: RequestFilter | None,
        note: RequestFilter | None,
    ) -> None:
        """Hold the first request on each link (src, dst) that `hold` matches and that is sent to
        `port`, with everything that follows it on its connection; remember the requests that `note`
        matches. A repeated call of a layer changes its filters, and lets nothing go.
        """
        ...

    def let_requests_go(self, links: Sequence[tuple[int, int]], layer: str) -> None:
        """Let the held requests of a layer pass, with what followed them; do nothing for a missing
        layer or a machine that is gone. No other request is held in their place.
        """
        ...

    def unwatch_requests(self, links: Sequence[tuple[int, int]], layer: str) -> None:
        """Let the held requests pass and remove the layer; do nothing for a missing layer or a
        machine that is gone.
        """
        ...

    def watched_requests(self, link: tuple[int, int], layer: str) -> WatchedRequests | None:
        """What the layer has seen on the link; None without such a layer."""
        ...

    def reset(self, pairs: Sequence[tuple[int, int]], layer: str) -> int:
        """Reset all TCP connections between the machines of each pair, once.

        Return how many connections have been reset for `layer` so far.
        """
        ...

    def connections_reset(self, layer: str) -> int:
        """How many connections have been reset for `layer` so far."""
        ...


class Probe(NamedTuple):
    """A write and fsync on a node's disk by a separate process, which a fault may block."""

    size_bytes: int
    elapsed_ms: float
    """From the first system call to the last, or until now."""
    done: bool
    error: str = ""
    """The kernel's error text; empty if the probe succeeded or still runs."""


class PowerCut(NamedTuple):
    """What a disk lost in a power failure."""

    node: int
    at_ns: int
    """When its file system stopped, on the machine's monotonic clock."""
    lost: Mapping[str, int]
    """Lost bytes of its files by directory; a directory that lost nothing is left out."""


class Disks(Protocol):
    """The nodes' disks. Paths are relative to a node's own directory."""

    def flush(self, node: int) -> None:
        """Write dirty pages to the disk, so that `freeze` has little to wait for."""
        ...

    def freeze(self, node: int) -> None:
        """Stall the node's disk: writes and fsyncs block until `thaw`."""
        ...

    def thaw(self, node: int) -> None:
        """Undo `freeze`; do nothing if the disk is not frozen."""
        ...

    def limit(self, node: int, *, bytes_per_s: int, operations_per_s: int) -> None:
        """Limit the disk's reads and its writes, each to these rates; 0 is no limit."""
        ...

    def unlimit(self, node: int) -> None:
        """Undo `limit`."""
        ...

    def is_limited(self, node: int) -> bool:
        """Whether the kernel has a limit for the disk."""
        ...

    def fill(self, node: int) -> int:
        """Allocate all free space, also in a repeated call; return all bytes allocated so far."""
        ...

    def drain(self, node: int) -> None:
        """Undo `fill`."""
        ...

    def free_bytes(self, node: int) -> int:
        """How many bytes an ordinary user may still write."""
        ...

    def set_read_only(self, node: int) -> None:
        """Write everything to the disk, then refuse writes, also to open files."""
        ...

    def fail(self, node: int) -> None:
        """Write everything to the disk, then let every access fail, reads too."""
        ...

    def fail_next_sync(self, node: int) -> None:
        """Let the next fsync that has something to write fail. Its pages count as clean from then
        on: they can be read, but are never written. In force until `stop_sync_failures`; raises if
        it is in force already.
        """
        ...

    def stop_sync_failures(self, node: int) -> None:
        """Undo `fail_next_sync` and forget its failure; do nothing if it is not in force."""
        ...

    def failed_sync_bytes(self, node: int) -> int | None:
        """Bytes that the failed fsync had to write since `fail_next_sync`; None before it fails."""
        ...

    def cut_power(self, nodes: Sequence[int]) -> Sequence[PowerCut]:
        """Lose everything that was not written to the disks, and recover the disks as a boot would.

        The disks must not be in use: the nodes' processes were killed before.
        """
        ...

    def disk_problem(self, node: int) -> str:
        """What is wrong with the disk until `repair`, in a few words; empty if nothing is."""
        ...

    def repair(self, node: int) -> None:
        """Recover the disk after `set_read_only`, `fail` or an incomplete `cut_power`, as a boot
        would; do nothing for a healthy disk. The disk must not be in use.
        """
        ...

    def probe(self, node: int, name: str, size_bytes: int) -> None:
        """Start a write and fsync in a separate process; an earlier probe of that name ends."""
        ...

    def probed(self, node: int, name: str) -> Probe | None:
        """The progress of the probe; None without a probe of that name."""
        ...

    def end_probe(self, node: int, name: str) -> Probe | None:
        """End the probe within a few seconds, remove its traces, and return its outcome."""
        ...

    def files(self, node: int) -> Mapping[str, int]:
        """The size of every file in bytes, sorted by path."""
        ...

    def read(self, node: int, path: str, offset: int, size_bytes: int) -> bytes:
        """Read a part of a file; shorter at the end of the file."""
        ...

    def write(self, node: int, path: str, offset: int, content: bytes) -> None:
        """Overwrite a part of a file, and fsync it."""
        ...

    def truncate(self, node: int, path: str, size_bytes: int) -> None:
        """Truncate a file, and fsync it."""
        ...

    def keep_copy(self, node: int, name: str, paths: Sequence[str]) -> None:
        """Copy files to a backup of that name."""
        ...

    def restore_copy(self, node: int, name: str) -> Mapping[str, tuple[int, int]]:
        """Restore a backup: path -> (size before, size after) of every changed file."""
        ...

    def forget_copy(self, node: int, name: str) -> None:
        """Remove a backup; do nothing if there is none."""
        ...

    def wipe(self, node: int) -> Mapping[str, int]:
        """Remove every file; return the bytes that each directory had."""
        ...

    def keep_evidence(self, key: str, evidence: str) -> None:
        """Store evidence that can be measured at one moment only."""
        ...

    def kept_evidence(self, key: str) -> str | None:
        """The evidence stored under that key."""
        ...


class Boot(NamedTuple):
    """A machine's boot after its power was cut."""

    before: str
    """The kernel's boot_id before the power was cut."""
    after: str
    """The kernel's boot_id after it."""
    up_s: float
    """The kernel's uptime when this was measured."""
    since_cut_s: float
    """The time from the cut to this measurement, by the harness's clock."""
    lost: Mapping[str, int]
    """Bytes of the node's files that the cut lost, by directory; a directory that lost nothing is
    left out."""


class Power(Protocol):
    """The power of whole machines, if a hypervisor can cut it; see also `Disks.cut_power`."""

    def cut(self, nodes: Sequence[int]) -> float:
        """Cut the power of the machines at the same time, without a shutdown; return within how
        many ms. Until `restore` nothing runs there, and calls that need the machine wait.
        """
        ...

    def is_off(self, node: int) -> bool:
        """Whether the machine has no power, according to its hypervisor."""
        ...

    def restore(self, nodes: Sequence[int]) -> None:
        """Boot the machines without power, and re-apply the other faults in force there; do not
        start the nodes. Takes as long as a boot.
        """
        ...

    def boot(self, node: int) -> Boot | None:
        """The machine's last boot by `restore`; None before the first."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosts:
    """Everything that faults may act on."""

    processes: Processes
    clients: Clients
    links: Links
    disks: Disks
    clocks: Clocks
    power: Power
    cluster: Administration
    view: ClusterView
    """The state of the cluster as its nodes report it."""
    programs: Programs = field(default_factory=NoProgram)
    """The program that the run tests, if any."""
    fault_state: FaultState = field(default_factory=FaultState)
    """The state of the faults in force."""
    task_runner: TaskRunner = field(default_factory=ThreadTaskRunner)
    """Runs background tasks."""
