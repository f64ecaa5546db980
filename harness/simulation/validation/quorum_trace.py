"""The trace of a run's metadata quorum: each node's state after each event that changed it.

An entry shows what the specification `Quorum.tla` has of a node. The log is shown as its leader
epochs, each with the offset after its last record: two logs with the same epochs at the same
offsets have the same records. A member that halted shows nothing more until it is started again.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from harness.simulation.validation.traces import Trace
from nodes.log.log import Log
from nodes.metadata.image import ClusterImage
from nodes.server.node import Node
from nodes.server.quorum.member import Halted

Epochs = tuple[tuple[int, int], ...]
"""The leader epochs of a log, each with its end offset, oldest first."""
NOBODY: Final = 0
"""The vote and the leader of a node that has none: nodes are numbered from 1."""


class QuorumEntry(NamedTuple):
    """A node after an event. `event` is `step`, `start`, `stop`, `halt` (the program ended after
    its member had halted) or `power` (the node, already stopped, lost its power); of the last three
    only the node counts. Offsets are those of the metadata log."""

    node: int
    event: str
    role: str = ""
    epoch: int = 0
    vote: int = NOBODY
    leader: int = NOBODY
    log: Epochs = ()
    start: int = 0
    """The offset at which the log begins: what is before it is in a snapshot."""
    end: int = 0
    flushed: int = 0
    high_watermark: int = 0


def epochs_of(log: Log) -> Epochs:
    """Return the leader epochs of a log that have records."""
    starts = log.epochs
    ends = [*(start for _, start in starts), log.end_offset][1:]
    return tuple(
        (int(epoch), int(end))
        for (epoch, start), end in zip(starts, ends, strict=True)
        if end > max(start, log.start_offset)
    )


class QuorumTracer:
    """Writes the trace (`watch.Tracer`)."""

    def __init__(self) -> None:
        self.entries: list[QuorumEntry] = []
        self._last: dict[int, QuorumEntry] = {}
        """The last entry of each running node."""
        self._halted: set[int] = set()

    def trace(self, name: str, nodes: Iterable[int], voters: Iterable[int]) -> Trace:
        """Return the trace of a run that has ended."""
        return Trace(
            name=name,
            specification="QuorumTrace",
            constants=(("Nodes", frozenset(nodes)), ("Voters", frozenset(voters))),
            entries=tuple(map(tuple, self.entries)),
        )

    def looked(self, node: int, running: Node) -> None:
        """See the protocol."""
        raft = running.raft
        if raft is None or raft._quorum is None:
            return
        if raft.halted is not None:
            if not isinstance(raft.halted, Halted):  # by which a clean stop ends the member
                self._halted.add(node)
            return
        quorum, log = raft._quorum, raft.log
        state = quorum.state
        entry = QuorumEntry(
            node=node,
            event="step" if node in self._last else "start",
            role=quorum.role.name.lower(),
            epoch=state.epoch,
            vote=NOBODY if state.voted_for is None else state.voted_for,
            leader=NOBODY if state.leader_id is None else state.leader_id,
            log=epochs_of(log._log),
            start=log.start_offset,
            end=log.end_offset,
            flushed=log.flushed_offset,
            high_watermark=quorum.high_watermark,
        )
        if entry != self._last.get(node):
            self.entries.append(entry)
        self._last[node] = entry._replace(event="step")

    def imaged(self, image: ClusterImage) -> None:
        """See the protocol; the quorum does not depend on what the log says."""

    def stopped(self, node: int) -> None:
        """See the protocol."""
        if self._last.pop(node, None) is not None:
            event = "halt" if node in self._halted else "stop"
            self.entries.append(QuorumEntry(node, event))
        self._halted.discard(node)

    def power_lost(self, node: int) -> None:
        """See the protocol."""
        self.entries.append(QuorumEntry(node, "power"))
