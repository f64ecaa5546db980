"""Short traces of one partition, made by hand: three replicas, min.insync.replicas of two."""

from typing import Final

from harness.simulation.validation.replication_trace import RegistrationEntry, ReplicaEntry
from harness.simulation.validation.traces import Trace

ALL: Final = frozenset({1, 2, 3})
LOG: Final = ((1, 2),)
Entry = ReplicaEntry | RegistrationEntry


def registered(
    leader: int, epoch: int, partition_epoch: int, isr: set[int], **more: object
) -> RegistrationEntry:
    """What the controller registered."""
    none = frozenset[int]()
    entry = RegistrationEntry(
        0, "registered", leader, epoch, partition_epoch, frozenset(isr), none, none, ALL, False
    )
    return entry._replace(**more)


def replica(number: int, role: str, epoch: int, partition_epoch: int, **more: object) -> Entry:
    """A broker after an event; the log's end follows from its epochs."""
    entry = ReplicaEntry(number, "step", role, epoch, partition_epoch, ALL)._replace(**more)
    return entry._replace(end=entry.log[-1][1] if entry.log else entry.end)


def leads(**more: object) -> Entry:
    """Broker 1, which leads the first epoch."""
    return replica(1, "leader", 1, 1, **more)


def follows(number: int, **more: object) -> Entry:
    """Another broker, which follows."""
    return replica(number, "follower", 1, 1, **more)


CREATED: Final[list[Entry]] = [registered(1, 1, 1, {1, 2, 3}), leads(), follows(2), follows(3)]
REPLICATED: Final = [
    *CREATED,
    leads(log=LOG),
    follows(2, log=LOG),
    follows(3, log=LOG),
]
COMMITTED: Final = [*REPLICATED, leads(log=LOG, high_watermark=2)]
ISR: Final = {"maximal_isr": frozenset({1, 2})}
SHRUNK: Final = [
    *REPLICATED[:-1],
    registered(1, 1, 2, {1, 2}),
    replica(1, "leader", 1, 2, log=LOG, **ISR),
]
FAILED_OVER: Final = [
    *REPLICATED,
    leads(log=((1, 3),)),
    ReplicaEntry(1, "stop"),
    registered(2, 2, 2, {2, 3}),
    replica(2, "leader", 2, 2, log=LOG, maximal_isr=frozenset({2, 3})),
    replica(2, "leader", 2, 2, log=((1, 2), (2, 3)), maximal_isr=frozenset({2, 3})),
]
"""Broker 1 has a record that nobody else has, and stops; broker 2 leads."""
RETURNED: Final = [
    *FAILED_OVER,
    replica(1, "follower", 2, 2, log=((1, 3),), flushed=3, maximal_isr=frozenset({2, 3})),
]


def trace(name: str, entries: list[Entry]) -> Trace:
    """A trace of these entries."""
    return Trace(
        name=name,
        specification="ReplicationTrace",
        constants=(
            ("Brokers", ALL),
            ("MinIsr", 2),
            ("Eligible", True),
            ("Unclean", False),
            ("Flushes", False),
        ),
        entries=tuple(map(tuple, entries)),
    )


GOOD: Final[dict[str, list[Entry]]] = {
    "all in sync have the records": COMMITTED,
    "a smaller ISR has replicated more": [
        *SHRUNK,
        replica(1, "leader", 1, 2, log=LOG, high_watermark=2, **ISR),
    ],
    "an old leader truncates by epoch": [
        *RETURNED,
        replica(1, "follower", 2, 2, log=LOG, flushed=2, maximal_isr=frozenset({2, 3})),
    ],
    "members that leave a small ISR are eligible": [
        *SHRUNK,
        registered(1, 1, 3, {1}, elr=frozenset({2})),
        registered(0, 2, 4, set(), elr=frozenset({1, 2})),
        registered(2, 3, 5, {2}, elr=frozenset({1})),
    ],
    "all last known replicas are back": [
        *SHRUNK,
        registered(0, 2, 3, set(), last_known_elr=frozenset({1, 2})),
        registered(2, 3, 4, {2}, last_known_elr=frozenset({1}), unclean=True),
    ],
}
"""Traces that the specification allows."""

BAD: Final[dict[str, list[Entry]]] = {
    "a leader commits what a member lacks": [
        *REPLICATED[:-1],
        leads(log=LOG, high_watermark=2),
    ],
    "a leader commits with too small an ISR": [
        *REPLICATED,
        registered(1, 1, 2, {1}, elr=frozenset({2, 3})),
        replica(1, "leader", 1, 2, log=LOG, maximal_isr=frozenset({1})),
        replica(1, "leader", 1, 2, log=LOG, high_watermark=2, maximal_isr=frozenset({1})),
    ],
    "a leader commits by an ISR that it only proposed": [
        *REPLICATED[:-1],
        leads(log=LOG, high_watermark=2, **ISR),
    ],
    "a follower truncates to its high watermark": [*COMMITTED, follows(2)],
    "a follower keeps records that its leader never had": [
        *RETURNED,
        replica(
            1, "follower", 2, 2, log=((1, 3), (2, 4)), flushed=3, maximal_isr=frozenset({2, 3})
        ),
    ],
    "a replica that is not in sync leads": [*SHRUNK, registered(3, 2, 3, {3})],
    "a replica that is not known leads uncleanly": [
        *SHRUNK,
        registered(0, 2, 3, set(), last_known_elr=frozenset({1, 2})),
        registered(3, 3, 4, {3}, last_known_elr=frozenset({1, 2}), unclean=True),
    ],
    "a member that left is forgotten": [*SHRUNK, registered(1, 1, 3, {1})],
    "a replica joins that nobody proposed": [*SHRUNK, registered(1, 1, 3, {1, 2, 3})],
    "a replica is proposed that has nothing": [
        *SHRUNK,
        replica(1, "leader", 1, 2, log=LOG, high_watermark=2, **ISR),
        replica(1, "leader", 1, 2, log=LOG, high_watermark=2),
    ],
    "a leader changes without a new epoch": [*REPLICATED, registered(2, 1, 2, {1, 2, 3})],
    "a kill loses records": [
        *COMMITTED,
        ReplicaEntry(2, "stop"),
        follows(2),
    ],
}
"""Traces whose last entry the specification does not allow."""
