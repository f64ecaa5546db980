"""The machines of a cluster, as far as faults reach into them: what a deployment target provides.

Every call is synchronous and quick (signals, netlink messages, ioctls, reads of /proc), so that the
nemesis can make it from its one thread, and says nothing of when or why: that is the schedule's.
Every change is undoable by whoever finds the target's own journal; undoing twice is no error. A
call may raise OSError or a target's own error; the nemesis records it with the fault. A part that a
target cannot offer raises on use; plans are refused before that by the abilities.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from nemesis.administration import Administration as Administration
from nemesis.base import ClusterView
from nemesis.concurrency import Strands, Threads
from nemesis.ledger import Ledger

CLIENTS: Final = 0
"""The number that stands for the clients' machine where a node's number is asked for."""
ANY_PORT: Final = 0


class Cut(NamedTuple):
    """Packets that are dropped on their way: those that arrive at `dst` from `src`, one way."""

    src: int
    dst: int
    port: int = ANY_PORT
    """Only what belongs to connections with this TCP port at either end."""
    answers: bool = False
    """Only what carries data from that port, the server's: connections are made, requests arrive
    and are acknowledged, and nothing of an answer ever does."""
    layer: str = ""
    """Whose cut it is: equal cuts of different layers are made and ended apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """What is done to the packets of one link, one way. Shares are from 0 to 1."""

    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    """The delay varies by so much up and down, evenly; packets keep their order all the same."""
    lost: float = 0.0
    reordered: float = 0.0
    """Share of packets that overtake those that are being delayed: without a delay, none."""
    duplicated: float = 0.0
    bytes_per_s: int = 0
    """The rate at which packets pass one after the other; 0 for no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tampered:
    """What was measured of a link whose quality one layer changed, since that began."""

    packets: int = 0
    """All that came by, whatever became of them."""
    delayed: int = 0
    mean_delay_ms: float = 0.0
    """Of the delayed ones, by the clock of whoever held them, all layers of the link together."""
    lost: int = 0
    reordered: int = 0
    duplicated: int = 0


class Processes(Protocol):
    """The nodes' processes."""

    def node_ids(self) -> Sequence[int]:
        """All nodes of the cluster, running or not, in ascending order."""
        ...

    def start(self, node: int) -> None:
        """Start the node's process again, with its data as it was left."""
        ...

    def kill(self, node: int) -> None:
        """SIGKILL the node's processes and return when they are gone."""
        ...

    def pause(self, node: int) -> None:
        """SIGSTOP the node's processes."""
        ...

    def resume(self, node: int) -> None:
        """SIGCONT the node's processes."""
        ...

    def terminate(self, node: int) -> None:
        """SIGTERM the node's process, which then ends in order; nothing happens without one."""
        ...

    def is_running(self, node: int) -> bool:
        """Whether the node's process exists (a paused one does)."""
        ...

    def exit_code(self, node: int) -> int | None:
        """How the node's last process ended (negative: by that signal); None while it runs."""
        ...

    def state(self, node: int) -> str:
        """The process state letter of /proc/<pid>/stat: R, S, D, T...; empty when there is none."""
        ...


class Clients(Protocol):
    """The processes of the workload's clients, all together."""

    def pause(self) -> None:
        """SIGSTOP them."""
        ...

    def resume(self) -> None:
        """SIGCONT them."""
        ...

    def states(self) -> Mapping[int, str]:
        """pid -> state letter of every process that is there."""
        ...


class Links(Protocol):
    """The network between nodes, and between nodes and clients (machine 0)."""

    def block(self, *cuts: Cut) -> None:
        """Drop what the cuts say; again is no error."""
        ...

    def unblock(self, *cuts: Cut) -> None:
        """Undo `block`; nothing happens where nothing is blocked, or where no machine is left."""
        ...

    def dropped(self, cut: Cut) -> int | None:
        """Packets dropped since `block`; None where nothing is blocked."""
        ...

    def dropped_in_turns(self, cut: Cut) -> int:
        """Packets dropped since the first `block` of a cut with a layer, in force now or not."""
        ...

    def asked(self, cut: Cut) -> int | None:
        """Packets with data that arrived at `src` from `dst` for the port of a cut of answers,
        since `block`: requests. None where nothing is blocked.
        """
        ...

    def prepare(self, links: Sequence[tuple[int, int]], quality: Quality) -> None:
        """Make ready to treat the packets of the links so, that `degrade` may be quick."""
        ...

    def degrade(self, links: Sequence[tuple[int, int]], quality: Quality, layer: str) -> None:
        """Treat the packets of the links (src, dst), one way, on top of what other layers do."""
        ...

    def restore(self, links: Sequence[tuple[int, int]], layer: str) -> None:
        """Take a layer away; nothing happens where there is none, or where no machine is left."""
        ...

    def tampered(self, link: tuple[int, int], layer: str) -> Tampered | None:
        """What the layer has done to the link's packets; None where there is no such layer."""
        ...

    def reset(self, pairs: Sequence[tuple[int, int]], layer: str) -> int:
        """End all TCP connections between the machines of each pair by a reset, once.

        Returns how many have been ended for `layer` so far.
        """
        ...

    def ended(self, layer: str) -> int:
        """How many connections have been ended for `layer` so far."""
        ...


class Probe(NamedTuple):
    """A write and fsync on a node's disk by a process of its own, which a fault may hold up."""

    size_bytes: int
    elapsed_ms: float
    """From its first system call to its last, or until now."""
    done: bool
    error: str = ""
    """Why it failed, in the kernel's words; empty when it did not, or is on its way."""


class PowerCut(NamedTuple):
    """What a disk lost with the power."""

    node: int
    at_ns: int
    """When its file system went down, on the machine's monotonic clock."""
    lost: Mapping[str, int]
    """Bytes that its files had and have no more, by directory; no directory that lost nothing."""


class Disks(Protocol):
    """The nodes' disks. Paths are relative to a node's own directory."""

    def flush(self, node: int) -> None:
        """Bring to the disk what waits for it, so that `freeze` has little to wait for."""
        ...

    def freeze(self, node: int) -> None:
        """Stall the node's disk: writes and fsyncs block until `thaw`."""
        ...

    def thaw(self, node: int) -> None:
        """Undo `freeze`; nothing happens where nothing is frozen."""
        ...

    def limit(self, node: int, *, bytes_per_s: int, operations_per_s: int) -> None:
        """Let the disk read no more and write no more than that from now on; 0 is no limit."""
        ...

    def unlimit(self, node: int) -> None:
        """Undo `limit`."""
        ...

    def is_limited(self, node: int) -> bool:
        """Whether the kernel has a limit for the disk."""
        ...

    def fill(self, node: int) -> int:
        """Take everything that is free, again too; returns the bytes that all of it are by now."""
        ...

    def drain(self, node: int) -> None:
        """Undo `fill`."""
        ...

    def free_bytes(self, node: int) -> int:
        """What an ordinary user may still write."""
        ...

    def set_read_only(self, node: int) -> None:
        """Bring everything to the disk and refuse writes from now on, also to open files."""
        ...

    def fail(self, node: int) -> None:
        """Bring everything to the disk and let everything fail from now on, reads too."""
        ...

    def drop_sync(self, node: int) -> None:
        """Let the next fsync of a file fail that has something to write; that is taken for clean:
        it is read, and never written. Raises for a node of which that is so until `keep_syncs`.
        """
        ...

    def keep_syncs(self, node: int) -> None:
        """No fsync is to fail any more, and none has; nothing happens where none was to."""
        ...

    def dropped(self, node: int) -> int | None:
        """How many bytes the fsync had to write that failed since `drop_sync`; None before it."""
        ...

    def cut_power(self, nodes: Sequence[int]) -> Sequence[PowerCut]:
        """Lose what was not brought to the disks, and bring the disks back as a boot would.

        Nobody may be using them: the nodes' processes were killed before.
        """
        ...

    def ailment(self, node: int) -> str:
        """What is wrong with the disk until `repair`, in a few words; empty when nothing is."""
        ...

    def repair(self, node: int) -> None:
        """Bring the disk back after `set_read_only`, `fail` or half a `cut_power`, as a boot would;
        nothing happens where nothing was wrong. Nobody may be using it.
        """
        ...

    def probe(self, node: int, name: str, size_bytes: int) -> None:
        """Begin to write and fsync in a process of its own; one that goes by the name ends."""
        ...

    def probed(self, node: int, name: str) -> Probe | None:
        """How far that is; None when nothing was begun by that name."""
        ...

    def end_probe(self, node: int, name: str) -> Probe | None:
        """What became of it, at the latest within a few seconds; nothing of it is left."""
        ...

    def files(self, node: int) -> Mapping[str, int]:
        """The size of every file in bytes, in the order of the paths."""
        ...

    def read(self, node: int, path: str, offset: int, size_bytes: int) -> bytes:
        """A part of a file, shorter at its end."""
        ...

    def write(self, node: int, path: str, offset: int, content: bytes) -> None:
        """Overwrite a part of a file, and bring it to the disk."""
        ...

    def truncate(self, node: int, path: str, size_bytes: int) -> None:
        """Cut a file's tail, and bring that to the disk."""
        ...

    def keep_copy(self, node: int, name: str, paths: Sequence[str]) -> None:
        """Copy files aside, under a name."""
        ...

    def restore_copy(self, node: int, name: str) -> Mapping[str, tuple[int, int]]:
        """Put a copy back: path -> (size before, size after) of every file that it changed."""
        ...

    def forget_copy(self, node: int, name: str) -> None:
        """Remove a copy; nothing happens where there is none."""
        ...

    def wipe(self, node: int) -> Mapping[str, int]:
        """Remove every file; the bytes that each directory had."""
        ...

    def note(self, key: str, evidence: str) -> None:
        """Keep what was measured at the one moment when it could be."""
        ...

    def noted(self, key: str) -> str | None:
        """What was kept under that key."""
        ...


class Reading(NamedTuple):
    """How far a node's wall clock is ahead of the true time (negative: behind), as measured."""

    least_ms: float
    most_ms: float
    looked: bool
    """Whether the node itself has looked at its clock since the clock was set last."""

    def allows(self, offset_ms: float) -> bool:
        """Whether the clock may show that offset, to the precision of the measurement."""
        return self.least_ms <= offset_ms <= self.most_ms


class Clocks(Protocol):
    """The nodes' wall clocks; monotonic time is never touched. Layers add up."""

    def skew(self, node: int, layer: str, offset_ms: float) -> None:
        """Let the node's wall clock be that much further ahead (negative: behind) than without the
        layer, now and when the node starts again; once more changes it.
        """
        ...

    def unskew(self, node: int, layer: str) -> None:
        """Take a layer away; nothing happens where there is none, or where no machine is left."""
        ...

    def asked_ms(self, node: int, layer: str = "") -> float:
        """What the layer adds, or all layers together do: 0 without any."""
        ...

    def shown(self, node: int) -> Reading | None:
        """What the clock of the node's process shows; None where no process runs."""
        ...


class Boot(NamedTuple):
    """What was found of a machine when its power was back."""

    before: str
    """Which boot it was before the power was cut, by the kernel's boot_id."""
    after: str
    up_s: float
    """How long its kernel had run by then."""
    since_cut_s: float
    """How long ago the power had been cut by then, by the harness's clock."""
    lost: Mapping[str, int]
    """Bytes that the node's files had just before the cut and have no more, by directory; no
    directory that lost nothing."""


class Power(Protocol):
    """The power of whole machines, where a hypervisor can cut it; see also `Disks.cut_power`."""

    def cut(self, nodes: Sequence[int]) -> float:
        """Take the power from the machines at the same time, without a word to them; within how
        many ms that was. Until `restore` nothing runs there, and calls that need it wait for that.
        """
        ...

    def is_off(self, node: int) -> bool:
        """Whether the machine has no power, by its hypervisor."""
        ...

    def restore(self, nodes: Sequence[int]) -> None:
        """Boot those machines that have no power, and make there again what other faults have in
        force; the nodes are not started. Takes as long as a boot.
        """
        ...

    def boot(self, node: int) -> Boot | None:
        """What the last `restore` found of it; None before there was one."""
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
    """What the cluster says of itself."""
    ledger: Ledger = field(default_factory=Ledger)
    """What the faults in force remember."""
    strands: Strands = field(default_factory=Threads)
    """How something is done beside something else."""
