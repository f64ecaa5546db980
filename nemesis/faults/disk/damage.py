"""Files that are damaged while their node is down: flipped bits, cut tails, writes that went
elsewhere, stale copies.

One file of the kind asked for is chosen by the schedule's seed, and where in it. The damage stays;
the heal only starts the node. The node may repair it (a log from its leader, an index from its
log), or refuse to start; it may not serve what it should have known to be wrong.
"""

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from nemesis.base import Futile
from nemesis.faults.disk.base import (
    METADATA_LOG,
    DiskFault,
    as_noted,
    end_node,
    key_of,
    note,
    noted,
    require_well,
    start_nodes,
)
from nemesis.faults.fault import Ability, Effect, Fault, Option, Strike, node_list
from nemesis.faults.process.base import running
from nemesis.hosts import Hosts

MAX_CUT_BYTES = 4096
SECTOR_BYTES = 512
"""What a disk writes at once."""
SHOWN_BYTES = 16

KINDS: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {
        "log": re.compile(rf".*/(?!{METADATA_LOG})[^/]+-\d+/\d+\.log"),
        "metadata-log": re.compile(rf".*/{METADATA_LOG}\d+/\d+\.log"),
        "index": re.compile(r".*/\d+\.(time)?index"),
        "checkpoint": re.compile(r".*/[^/]+-offset-checkpoint"),
        "vote": re.compile(r".*/quorum-state"),
        "snapshot": re.compile(r".*/[^/]+\.checkpoint"),
        "producer-snapshot": re.compile(r".*/\d+\.snapshot"),
        "epoch-cache": re.compile(r".*/leader-epoch-checkpoint"),
    }
)
"""Kinds of files, by their names in Kafka's layout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Damage(DiskFault):
    """One file of each target is changed while the target is down."""

    needs: frozenset[Ability] = frozenset({Ability.SIGNALS, Ability.FILES})
    aimable: bool = False

    def effect(self, hosts: Hosts, strike: Strike) -> Effect:
        """Which bytes of which file were changed, from what to what."""
        return as_noted(hosts, strike, "nothing is damaged")

    def heal(self, hosts: Hosts, strike: Strike) -> None:
        """Start the nodes; what is damaged stays so."""
        for node in strike.nodes:
            hosts.disks.forget_copy(node, key_of(strike))
        start_nodes(hosts, strike)

    def healing(self, hosts: Hosts, strike: Strike) -> Effect:
        """The nodes were started; one that refuses its files by now has given its answer."""
        seen = running(hosts, strike)
        return Effect(took=True, evidence=f"{seen.evidence}; the damage stays")


@dataclass(frozen=True, slots=True, kw_only=True)
class OneFile(_Damage):
    """Damage to one file, done at once."""

    change: Callable[[Hosts, int, str, int, random.Random], str]
    """(hosts, node, path, size in bytes, rng) -> what was done to it."""

    def inject(self, hosts: Hosts, strike: Strike) -> None:
        """Kill every target, then change one of its files. Raises Futile when none has any."""
        _require(hosts, strike)
        for node in strike.nodes:
            end_node(hosts, strike, node)
            found = _of_kind(hosts, strike, node)
            if not found:
                continue
            rng = random.Random(f"{key_of(strike)}/{node}")
            path = rng.choice(list(found))
            done = self.change(hosts, node, path, found[path], rng)
            note(hosts, strike, node, f"{path} of {found[path]:,} bytes: {done}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleCopy(_Damage):
    """All files of the kind are put back as they were when the fault began.

    They are copied at the injection from the node as it runs; when they are old enough the node is
    killed and gets them back.
    """

    name: str = "disk.stale-copy"
    about: str = "the node is killed and gets back its files as they were a while before"
    pulse_ms: int | None = 250

    def inject(self, hosts: Hosts, strike: Strike) -> None:
        """Copy the files aside. Raises Futile when no target has any."""
        _require(hosts, strike)
        for node in strike.nodes:
            hosts.disks.keep_copy(node, key_of(strike), list(_of_kind(hosts, strike, node)))

    def pulse(self, hosts: Hosts, strike: Strike, elapsed_ms: int) -> None:
        """Restore the copy, once it is old enough."""
        if elapsed_ms < int(strike.detail("age_ms")):
            return
        for node in strike.nodes:
            if noted(hosts, strike, node) is None:
                end_node(hosts, strike, node)
                changed = hosts.disks.restore_copy(node, key_of(strike))
                hosts.disks.forget_copy(node, key_of(strike))
                note(hosts, strike, node, _restored(changed, elapsed_ms))

    def effect(self, hosts: Hosts, strike: Strike) -> Effect:
        """Which files went back, and by how much."""
        seen = as_noted(hosts, strike, "the copy is not restored yet")
        return Effect(took=seen.took and _WENT_BACK in seen.evidence, evidence=seen.evidence)


_WENT_BACK = "put back"


def _restored(changed: Mapping[str, tuple[int, int]], age_ms: int) -> str:
    if not changed:
        return f"no file had changed in {age_ms:,} ms"
    told = ", ".join(f"{path} ({old:,} to {new:,} bytes)" for path, (old, new) in changed.items())
    return f"{len(changed)} files {_WENT_BACK} by {age_ms:,} ms: {told}"


def _require(hosts: Hosts, strike: Strike) -> None:
    require_well(hosts, strike)
    if not any(_of_kind(hosts, strike, node) for node in strike.nodes):
        raise Futile(f"{node_list(strike.nodes)} has no file of kind {strike.detail('file')}")


def _of_kind(hosts: Hosts, strike: Strike, node: int) -> dict[str, int]:
    """path -> size of the files of the kind that have any bytes, in the order of the paths."""
    pattern = KINDS[strike.detail("file")]
    return {
        path: size
        for path, size in hosts.disks.files(node).items()
        if size and pattern.fullmatch(path)
    }


def _flip(hosts: Hosts, node: int, path: str, size: int, rng: random.Random) -> str:
    offset, bit = rng.randrange(size), rng.randrange(8)
    [old] = hosts.disks.read(node, path, offset, 1)
    hosts.disks.write(node, path, offset, bytes([old ^ (1 << bit)]))
    [new] = hosts.disks.read(node, path, offset, 1)
    return f"bit {bit} of the byte at {offset:,} flipped, 0x{old:02x} to 0x{new:02x}"


def _cut(hosts: Hosts, node: int, path: str, size: int, rng: random.Random) -> str:
    cut = rng.randint(1, min(size, MAX_CUT_BYTES))
    first = hosts.disks.read(node, path, size - cut, min(cut, SHOWN_BYTES)).hex(" ")
    hosts.disks.truncate(node, path, size - cut)
    return f"the last {cut:,} bytes cut off, from {size - cut:,} on ({first}{' ...' * (cut > 16)})"


def _misdirect(hosts: Hosts, node: int, path: str, size: int, rng: random.Random) -> str:
    at = (size - 1) // SECTOR_BYTES * SECTOR_BYTES
    sector = hosts.disks.read(node, path, at, size - at)
    hosts.disks.write(node, path, at, bytes(len(sector)))
    told = f"the write of the last {len(sector)} bytes, from {at:,} on, went"
    ends = _like(hosts, node, path) | {path: at}
    # Never where it would have been in another file: whole batches, whose checksums say nothing of
    # where they belong, may fit there, and nobody could find that out.
    places = {
        other: [n for n in range(0, end, SECTOR_BYTES) if n != at] for other, end in ends.items()
    }
    others = [other for other, free in places.items() if free]
    if not others:
        return f"{told} nowhere: zeros are there"
    other = rng.choice(others)
    place = rng.choice(places[other])
    hosts.disks.write(node, other, place, sector[: ends[other] - place])
    return f"{told} to {other}, from {place:,} on: zeros are there"


def _like(hosts: Hosts, node: int, path: str) -> dict[str, int]:
    """The other files of the same kind that have any bytes, and how many."""
    kind = next(pattern for pattern in KINDS.values() if pattern.fullmatch(path))
    files = hosts.disks.files(node)
    return {p: size for p, size in files.items() if size and p != path and kind.fullmatch(p)}


def _kind(text: str) -> str:
    if text not in KINDS:
        raise ValueError(f"it is one of {', '.join(KINDS)}")
    return text


def _age(text: str) -> int:
    if not text.isdecimal():
        raise ValueError("it is a whole number of milliseconds")
    return int(text)


_FILE = Option(
    name="file", default="log", about=f"which kind of file: {', '.join(KINDS)}", read=_kind
)

FAULTS: tuple[Fault, ...] = (
    OneFile(
        name="disk.bit-flip",
        about="the node is killed and one bit in one of its files flipped",
        change=_flip,
        options=(_FILE,),
    ),
    OneFile(
        name="disk.cut-tail",
        about=f"the node is killed and the end of one of its files cut off, {MAX_CUT_BYTES:,} "
        "bytes at most",
        change=_cut,
        options=(_FILE,),
    ),
    OneFile(
        name="disk.misdirected",
        about="the node is killed, and the last write to one of its files has landed elsewhere: in "
        f"another sector ({SECTOR_BYTES} bytes) of it, or in another file of its kind",
        change=_misdirect,
        options=(_FILE,),
    ),
    StaleCopy(
        options=(
            _FILE,
            Option(
                name="age_ms",
                default="2000",
                about="how old the copy is when it is restored; the fault has to last longer",
                read=_age,
            ),
        )
    ),
)
