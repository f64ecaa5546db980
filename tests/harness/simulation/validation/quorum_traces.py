"""Short traces of the quorum, made by hand: how a run may begin, and what may never follow."""

from typing import Final

from harness.simulation.validation.quorum_trace import Epochs, QuorumEntry
from harness.simulation.validation.traces import Trace

LOG: Final[Epochs] = ((1, 1),)


def node(number: int, role: str, epoch: int, vote: int, leader: int, **more: object) -> QuorumEntry:
    """An entry; the log's end follows from its epochs."""
    entry = QuorumEntry(number, "step", role, epoch, vote, leader)._replace(**more)
    return entry._replace(end=entry.log[-1][1] if entry.log else entry.end)


def started(number: int, role: str = "unattached", **more: object) -> QuorumEntry:
    """A node's first entry."""
    return node(number, role, 0, 0, 0, event="start")._replace(**more)


STARTED: Final = [started(number) for number in (1, 2, 3)]
STANDS: Final = [
    *STARTED,
    node(1, "prospective", 0, 0, 0),
    node(1, "candidate", 1, 1, 0),
]
ELECTED: Final = [
    *STANDS,
    node(2, "voted", 1, 1, 0),
    node(1, "leader", 1, 1, 1, log=LOG),
    node(2, "follower", 1, 1, 1),
]
REPLICATED: Final = [
    *ELECTED,
    node(2, "follower", 1, 1, 1, log=LOG),
    node(2, "follower", 1, 1, 1, log=LOG, flushed=1),
]
COMMITTED: Final = [
    *REPLICATED,
    node(1, "leader", 1, 1, 1, log=LOG, flushed=1, high_watermark=1),
    node(2, "follower", 1, 1, 1, log=LOG, flushed=1, high_watermark=1),
]


def trace(name: str, entries: list[QuorumEntry]) -> Trace:
    """A trace of three voters."""
    return Trace(
        name=name,
        specification="QuorumTrace",
        constants=(("Nodes", frozenset({1, 2, 3})), ("Voters", frozenset({1, 2, 3}))),
        entries=tuple(map(tuple, entries)),
    )


GOOD: Final = {
    "a leader commits what a majority with it has flushed": COMMITTED,
    "the leader commits before its own disk": [
        *REPLICATED,
        node(3, "follower", 1, 0, 1, log=LOG),
        node(3, "follower", 1, 0, 1, log=LOG, flushed=1),
        node(1, "leader", 1, 1, 1, log=LOG, high_watermark=1),
    ],
    "a voter of a later epoch learns the epoch first": [
        *ELECTED,
        node(3, "unattached", 1, 0, 0),
        node(3, "prospective", 1, 0, 0),
        node(3, "candidate", 2, 3, 0),
        node(2, "prospective", 1, 1, 1),
    ],
    "a power loss removes what was not flushed": [
        *REPLICATED,
        QuorumEntry(1, "stop"),
        QuorumEntry(1, "power"),
        started(1, "resigned", epoch=1, vote=1, leader=1),
    ],
    "a killed node finds its whole log": [
        *REPLICATED,
        QuorumEntry(1, "stop"),
        started(1, "resigned", epoch=1, vote=1, leader=1, log=LOG, end=1, flushed=1),
    ],
    "a follower truncates to where the logs diverge": [
        *ELECTED,
        node(3, "unattached", 1, 0, 0),
        node(3, "prospective", 1, 0, 0),
        node(3, "candidate", 2, 3, 0),
        node(2, "voted", 2, 3, 0),
        node(3, "leader", 2, 3, 3, log=((2, 1),)),
        node(1, "follower", 2, 0, 3, log=LOG),
        node(1, "follower", 2, 0, 3),
    ],
}
"""Traces that the specification allows."""

BAD: Final = {
    "a voter votes twice in an epoch": [
        *STANDS,
        node(3, "prospective", 0, 0, 0),
        node(3, "candidate", 1, 3, 0),
        node(2, "voted", 1, 1, 0),
        node(2, "voted", 1, 3, 0),
    ],
    "a voter forgets its vote": [
        *ELECTED[:-2],
        QuorumEntry(2, "stop"),
        QuorumEntry(2, "power"),
        started(2, "unattached"),
    ],
    "a voter votes for a shorter log": [
        *REPLICATED,
        node(3, "unattached", 1, 0, 0),
        node(3, "prospective", 1, 0, 0),
        node(3, "candidate", 2, 3, 0),
        node(2, "voted", 2, 3, 0, log=LOG, flushed=1),
    ],
    "a leader has one vote of three": [*STANDS, node(1, "leader", 1, 1, 1, log=LOG)],
    "a leader leads again after a restart": [
        *REPLICATED,
        QuorumEntry(1, "stop"),
        started(1, "leader", epoch=1, vote=1, leader=1, log=LOG, end=1, flushed=1),
    ],
    "a leader commits what it alone has": [
        *ELECTED,
        node(1, "leader", 1, 1, 1, log=LOG, flushed=1, high_watermark=1),
    ],
    "a leader counts what a follower has not flushed": [
        *REPLICATED[:-1],
        node(1, "leader", 1, 1, 1, log=LOG, flushed=1, high_watermark=1),
    ],
    "a follower truncates without divergence": [*REPLICATED, node(2, "follower", 1, 1, 1)],
    "a follower commits before its leader": [
        *REPLICATED,
        node(2, "follower", 1, 1, 1, log=LOG, flushed=1, high_watermark=1),
    ],
    "a follower has records that no leader has": [
        *ELECTED,
        node(2, "follower", 1, 1, 1, log=((1, 2),)),
    ],
    "a kill removes what was not flushed": [
        *REPLICATED,
        QuorumEntry(1, "stop"),
        started(1, "resigned", epoch=1, vote=1, leader=1),
    ],
    "a power loss removes what was flushed": [
        *REPLICATED,
        QuorumEntry(2, "stop"),
        QuorumEntry(2, "power"),
        started(2, "follower", epoch=1, vote=1, leader=1),
    ],
}
"""Traces whose last entry the specification does not allow."""
