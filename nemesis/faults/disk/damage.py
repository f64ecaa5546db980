"""Files that are damaged while their node is down: flipped bits, cut tails, misdirected writes,
stale copies.

The schedule's seed chooses one file of the requested kind, and the position in it. The damage
stays; the heal only starts the node. The node may repair the file (a log from its leader, an index
from its log) or refuse to start. It must not serve data that it can recognise as wrong.
"""

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from nemesis.base import NotApplicable
from nemesis.faults.disk.base import (
    METADATA_LOG,
    DiskFault,
    injection_key,
    keep_damaged,
    keep_evidence,
    kept_evidence,
    kill_and_keep_down,
    measure_kept_evidence,
    require_healthy_disks,
    start_nodes,
)
from nemesis.faults.fault import Ability, Fault, Injection, Measurement, Option, node_list
from nemesis.faults.process.base import running
from nemesis.hosts import Hosts

MAX_CUT_BYTES = 4096
SECTOR_BYTES = 512
"""The unit in which a disk writes."""
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
"""Kinds of files, by the pattern of their paths in Kafka's layout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Damage(DiskFault):
    """One file of each selected node is changed while the node is down."""

    needs: frozenset[Ability] = frozenset({Ability.SIGNALS, Ability.FILES})
    selectable: bool = False

    def measure_effect(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Report the changed bytes of each file, before and after."""
        return measure_kept_evidence(hosts, injection, "nothing is damaged")

    def heal(self, hosts: Hosts, injection: Injection) -> None:
        """Start the nodes; the damage stays."""
        for node in injection.nodes:
            hosts.disks.forget_copy(node, injection_key(injection))
        start_nodes(hosts, injection)

    def measure_heal(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Always confirmed: a node that was started may refuse to run on damaged files."""
        seen = running(hosts, injection)
        return Measurement(confirmed=True, evidence=f"{seen.evidence}; the damage stays")


@dataclass(frozen=True, slots=True, kw_only=True)
class OneFile(_Damage):
    """Damage to one file, done at the injection."""

    change: Callable[[Hosts, int, str, int, random.Random], tuple[str, Sequence[str]]]
    """(hosts, node, path, size in bytes, rng) -> description of the damage, the changed files."""

    def inject(self, hosts: Hosts, injection: Injection) -> None:
        """Kill every node, then damage one of its files. Raises NotApplicable without files."""
        _require(hosts, injection)
        for node in injection.nodes:
            kill_and_keep_down(hosts, injection, node)
            found = _of_kind(hosts, injection, node)
            if not found:
                continue
            rng = random.Random(f"{injection_key(injection)}/{node}")
            path = rng.choice(list(found))
            done, changed = self.change(hosts, node, path, found[path], rng)
            keep_damaged(hosts, injection, node, changed)
            keep_evidence(hosts, injection, node, f"{path} of {found[path]:,} bytes: {done}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleCopy(_Damage):
    """All files of the kind are restored to their state at the injection.

    The injection copies them from the running node. When the copy is old enough, the node is killed
    and the copy replaces the files.
    """

    name: str = "disk.stale-copy"
    about: str = "the node is killed, and its files are replaced by an earlier copy of them"
    tick_ms: int | None = 250

    def inject(self, hosts: Hosts, injection: Injection) -> None:
        """Copy the files. Raises NotApplicable if no node has any."""
        _require(hosts, injection)
        for node in injection.nodes:
            hosts.disks.keep_copy(
                node, injection_key(injection), list(_of_kind(hosts, injection, node))
            )

    def tick(self, hosts: Hosts, injection: Injection, elapsed_ms: int) -> None:
        """Restore the copy when it is old enough."""
        if elapsed_ms < int(injection.detail("age_ms")):
            return
        for node in injection.nodes:
            if kept_evidence(hosts, injection, node) is None:
                kill_and_keep_down(hosts, injection, node)
                changed = hosts.disks.restore_copy(node, injection_key(injection))
                hosts.disks.forget_copy(node, injection_key(injection))
                keep_damaged(hosts, injection, node, list(changed))
                keep_evidence(hosts, injection, node, _describe(changed, elapsed_ms))

    def measure_effect(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Report the restored files with their sizes before and after."""
        seen = measure_kept_evidence(hosts, injection, "the copy is not restored yet")
        return replace(seen, confirmed=seen.confirmed and _RESTORED in seen.evidence)


_RESTORED = "restored to an earlier state"


def _describe(changed: Mapping[str, tuple[int, int]], age_ms: int) -> str:
    if not changed:
        return f"no file had changed in {age_ms:,} ms"
    files = ", ".join(f"{path} ({old:,} to {new:,} bytes)" for path, (old, new) in changed.items())
    return f"{len(changed)} files {_RESTORED}, {age_ms:,} ms ago: {files}"


def _require(hosts: Hosts, injection: Injection) -> None:
    require_healthy_disks(hosts, injection)
    if not any(_of_kind(hosts, injection, node) for node in injection.nodes):
        raise NotApplicable(
            f"{node_list(injection.nodes)} has no file of kind {injection.detail('file')}"
        )


def _of_kind(hosts: Hosts, injection: Injection, node: int) -> dict[str, int]:
    """path -> size of the non-empty files of the kind, sorted by path."""
    pattern = KINDS[injection.detail("file")]
    return {
        path: size
        for path, size in hosts.disks.files(node).items()
        if size and pattern.fullmatch(path)
    }


def _flip(
    hosts: Hosts, node: int, path: str, size: int, rng: random.Random
) -> tuple[str, Sequence[str]]:
    offset, bit = rng.randrange(size), rng.randrange(8)
    [old] = hosts.disks.read(node, path, offset, 1)
    hosts.disks.write(node, path, offset, bytes([old ^ (1 << bit)]))
    [new] = hosts.disks.read(node, path, offset, 1)
    return f"bit {bit} of the byte at {offset:,} flipped, 0x{old:02x} to 0x{new:02x}", [path]


def _cut(
    hosts: Hosts, node: int, path: str, size: int, rng: random.Random
) -> tuple[str, Sequence[str]]:
    cut = rng.randint(1, min(size, MAX_CUT_BYTES))
    first = hosts.disks.read(node, path, size - cut, min(cut, SHOWN_BYTES)).hex(" ")
    hosts.disks.truncate(node, path, size - cut)
    shown = f"{first}{' ...' * (cut > SHOWN_BYTES)}"
    return f"the last {cut:,} bytes cut off, from {size - cut:,} on ({shown})", [path]


def _misdirect(
    hosts: Hosts, node: int, path: str, size: int, rng: random.Random
) -> tuple[str, Sequence[str]]:
    at = (size - 1) // SECTOR_BYTES * SECTOR_BYTES
    sector = hosts.disks.read(node, path, at, size - at)
    hosts.disks.write(node, path, at, bytes(len(sector)))
    text = f"the write of the last {len(sector)} bytes, from {at:,} on, went"
    ends = _like(hosts, node, path) | {path: at}
    # Never to the same position in another file: whole batches may fit there, and their checksums
    # do not say where they belong, so no node could notice the damage.
    places = {
        other: [n for n in range(0, end, SECTOR_BYTES) if n != at] for other, end in ends.items()
    }
    others = [other for other, free in places.items() if free]
    if not others:
        return f"{text} nowhere: zeros are there", [path]
    other = rng.choice(others)
    place = rng.choice(places[other])
    hosts.disks.write(node, other, place, sector[: ends[other] - place])
    changed = [*dict.fromkeys((path, other))]
    return f"{text} to {other}, from {place:,} on: zeros are there", changed


def _like(hosts: Hosts, node: int, path: str) -> dict[str, int]:
    """path -> size of the other non-empty files of the same kind."""
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
        about="the node is killed, and one bit in one of its files is flipped",
        change=_flip,
        options=(_FILE,),
    ),
    OneFile(
        name="disk.cut-tail",
        about="the node is killed, and the end of one of its files is cut off, "
        f"{MAX_CUT_BYTES:,} bytes at most",
        change=_cut,
        options=(_FILE,),
    ),
    OneFile(
        name="disk.misdirected",
        about="the node is killed, and the last write to one of its files is moved: to another "
        f"sector ({SECTOR_BYTES} bytes) of the file, or to another file of its kind",
        change=_misdirect,
        options=(_FILE,),
    ),
    StaleCopy(
        options=(
            _FILE,
            Option(
                name="age_ms",
                default="2000",
                about="how old the copy is when it is restored, ms; the fault must last longer",
                read=_age,
            ),
        )
    ),
)
