"""Which partitions may have lost state by faults, and from where on the metadata log says so."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from checkers.causes.cause import SLACK_NS
from checkers.causes.quorum_loss import read_quorum_losses
from checkers.engines.engine import Engine, Frame
from checkers.history.history import METADATA_TOPIC, TP
from checkers.history.recorded_faults import may_have_lost_state, read_fault, touched_nodes


class StateLosses:
    """See the module. faults: the rows of FAULTS; cluster, replica_ends: frames of their
    schemas."""

    def __init__(
        self,
        engine: Engine,
        faults: Sequence[Mapping[str, Any]],
        cluster: Frame,
        replica_ends: Frame,
    ) -> None:
        self._engine = engine
        self._faults = faults
        self._cluster = cluster
        self._replica_ends = replica_ends
        self._known = [fault for row in faults if (fault := read_fault(row)) is not None]

    def certain(self, topic: str | None, partition: int | None) -> bool:
        """Whether a node with a replica of the partition lost state for good."""
        losing = (each.losing(topic, partition) for each in self._known)
        return self._was_on(topic, partition, frozenset().union(*losing))

    def possible(self, topic: str | None, partition: int | None) -> bool:
        """Whether such a node may have lost state, without a proof for or against it."""
        doubtful = [
            touched_nodes(row["targets"])[0] for row in self._faults if may_have_lost_state(row)
        ]
        return self._was_on(topic, partition, frozenset().union(*doubtful))

    @cached_property
    def quorum_from_ns(self) -> int | None:
        """When a majority of the metadata quorum's voters first began to lack its disks; None if it
        never did."""
        losses = read_quorum_losses(self._engine, self._cluster, self._known)
        return min((loss.from_ns for loss in losses), default=None)

    def quorum_before(self, at_ns: int | None) -> bool:
        """Whether a majority lacked its disks by this moment; None: at any time."""
        from_ns = self.quorum_from_ns
        return from_ns is not None and (at_ns is None or from_ns - SLACK_NS <= at_ns)

    @cached_property
    def metadata_start(self) -> int:
        """Where the recorded metadata log starts; 0 if no snapshot replaced its beginning on all
        nodes."""
        F = self._engine.functions
        logs = self._replica_ends.where(F.col("topic") == F.lit(METADATA_TOPIC))
        return joined_start(
            [(row["start_offset"], row["end_offset"]) for row in self._engine.rows(logs)]
        )

    def _was_on(self, topic: str | None, partition: int | None, nodes: frozenset[int]) -> bool:
        """Whether the partition had a replica on one of the nodes. A partition without any record
        may have been on any node."""
        return bool(nodes & self._in_sync.get((topic, partition), nodes))

    @cached_property
    def _in_sync(self) -> Mapping[tuple[str | None, int | None], frozenset[int]]:
        """The nodes that were ever in sync with each partition."""
        F = self._engine.functions
        rows = self._cluster.where((F.col("kind") == F.lit("leader")) & F.col("isr").isNotNull())
        found: dict[tuple[str | None, int | None], frozenset[int]] = {}
        for row in self._engine.rows(rows.select(*TP, "isr").distinct()):
            key = row["topic"], row["partition"]
            found[key] = found.get(key, frozenset()) | frozenset(row["isr"])
        return found


def joined_start(logs: Sequence[tuple[int, int]]) -> int:
    """Return where several copies of one log start together: (start, end) of each. A copy is
    continued downwards by one that reaches its start."""
    start = max((begin for begin, _ in logs), default=0)
    while older := [begin for begin, end in logs if begin < start <= end]:
        start = min(older)
    return start
