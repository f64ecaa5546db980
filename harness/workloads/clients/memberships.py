"""What one member of a consumer group goes through: its partitions, and the offsets it commits.

The member's polls are in `Reads`, which has the same client number.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from harness.workloads.clients.client_history import ClientHistory
from harness.workloads.clients.outcomes import Outcome

ASSIGNED: Final = "assigned"
REVOKED: Final = "revoked"
LOST: Final = "lost"
OFFSET_COMMIT: Final = "offset-commit"


@dataclass(slots=True, kw_only=True)
class Membership(ClientHistory):
    """One member of a group. Only the thread or task of the member may use it."""

    group: str

    def assigned(self, positions: Mapping[int, int], generation: int, invoke_ns: int) -> None:
        """Record that the member got partitions, and the positions from which it goes on."""
        nowhere: list[tuple[int | None, int | None]] = [(None, None)]
        places = [*positions.items()] or nowhere
        op, now_ns = self.writer.next_op(), self.now_ns()
        for partition, offset in places:
            self.writer.record(
                op, self.client, ASSIGNED, "ok", invoke_ns, now_ns,
                None if partition is None else self.topic, partition, None, offset,
                group=self.group, generation=generation,
            )  # fmt: skip

    def revoked(self, partitions: Collection[int], generation: int) -> None:
        """Record that the member gives up partitions, and may still commit their offsets."""
        self._gave_up(REVOKED, partitions, generation)

    def lost(
        self, partitions: Collection[int], generation: int, *, error: str | None = None
    ) -> None:
        """Record that the member has lost partitions: another member may have them already."""
        self._gave_up(LOST, partitions, generation, error)

    def _gave_up(
        self, f: str, partitions: Collection[int], generation: int, error: str | None = None
    ) -> None:
        op, now_ns = self.writer.next_op(), self.now_ns()
        for partition in sorted(partitions) or (None,):
            self.writer.record(
                op, self.client, f, "ok", now_ns, now_ns,
                None if partition is None else self.topic, partition, error=error,
                group=self.group, generation=generation,
            )  # fmt: skip

    def committed(
        self,
        offsets: Mapping[int, int],
        generation: int,
        invoke_ns: int,
        results: Mapping[int, tuple[Outcome, str | None]],
    ) -> None:
        """Record a commit of {partition: position}, begun at `invoke_ns`, and what each partition
        was answered: its outcome, and the error if any."""
        op, now_ns = self.writer.next_op(), self.now_ns()
        for partition, offset in offsets.items():
            outcome, error = results[partition]
            if error is not None:
                self.note(error)
            known_ns = None if outcome is Outcome.INFO else now_ns  # else it may happen later
            self.writer.record(
                op, self.client, OFFSET_COMMIT, outcome.value, invoke_ns, known_ns, self.topic,
                partition, None, offset, error=error, group=self.group, generation=generation,
            )  # fmt: skip
