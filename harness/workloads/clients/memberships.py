"""What one member of a consumer group goes through: its partitions, and the offsets it commits.

The member's polls are in `Reads`, which has the same client number.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from harness.workloads.clients.client_history import ClientHistory
from harness.workloads.clients.outcomes import Outcome
from nodes.ids import TopicPartition

ASSIGNED: Final = "assigned"
REVOKED: Final = "revoked"
LOST: Final = "lost"
OFFSET_COMMIT: Final = "offset-commit"
Row = tuple[str | None, int | None, int | None]
"""Topic, partition and offset in the row of an assignment; all are None without partitions."""


@dataclass(slots=True, kw_only=True)
class Membership(ClientHistory):
    """One member of a group. Only the thread or task of the member may use it."""

    group: str

    def assigned(
        self, positions: Mapping[TopicPartition, int], generation: int, invoke_ns: int
    ) -> None:
        """Record that the member got partitions, and the positions from which it goes on."""
        op, now_ns = self.writer.next_op(), self.now_ns()
        places: list[Row] = [(*place, offset) for place, offset in positions.items()]
        for topic, partition, offset in places or [(None, None, None)]:
            self.writer.record(
                op, self.client, ASSIGNED, "ok", invoke_ns, now_ns, topic, partition, None, offset,
                group=self.group, generation=generation,
            )  # fmt: skip

    def revoked(self, partitions: Collection[TopicPartition], generation: int) -> None:
        """Record that the member gives up partitions, and may still commit their offsets."""
        self._gave_up(REVOKED, partitions, generation)

    def lost(
        self, partitions: Collection[TopicPartition], generation: int, *, error: str | None = None
    ) -> None:
        """Record that the member has lost partitions: another member may have them already."""
        self._gave_up(LOST, partitions, generation, error)

    def _gave_up(
        self,
        f: str,
        partitions: Collection[TopicPartition],
        generation: int,
        error: str | None = None,
    ) -> None:
        op, now_ns = self.writer.next_op(), self.now_ns()
        places: list[tuple[str | None, int | None]] = [*sorted(partitions)]
        for topic, partition in places or [(None, None)]:
            self.writer.record(
                op, self.client, f, "ok", now_ns, now_ns, topic, partition, error=error,
                group=self.group, generation=generation,
            )  # fmt: skip

    def committed(
        self,
        offsets: Mapping[TopicPartition, int],
        generation: int,
        invoke_ns: int,
        results: Mapping[TopicPartition, tuple[Outcome, str | None]],
    ) -> None:
        """Record a commit of {partition: position}, begun at `invoke_ns`, and what each partition
        was answered: its outcome, and the error if any."""
        op, now_ns = self.writer.next_op(), self.now_ns()
        for place, offset in offsets.items():
            outcome, error = results[place]
            if error is not None:
                self.note(error)
            known_ns = None if outcome is Outcome.INFO else now_ns  # else it may happen later
            self.writer.record(
                op, self.client, OFFSET_COMMIT, outcome.value, invoke_ns, known_ns, *place, None,
                offset, error=error, group=self.group, generation=generation,
            )  # fmt: skip
