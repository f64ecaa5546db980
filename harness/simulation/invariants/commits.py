"""What a group has committed is still committed, and nothing else is.

Members use a partition's committed offset as a counter: a member commits one more than it read, and
only one member at a time may commit. So the offset never goes back, whoever the coordinator is, and
no offset is acknowledged to two members.
"""

from collections import defaultdict
from collections.abc import Iterable

from kio.schema.errors import ErrorCode

from harness.simulation.invariants.broken import InvariantBroken

NAME, OLD = "commits-stay", "old-generations-are-refused"
NOTHING = -1
"""The committed offset of a partition without one."""


class Commits:
    """The commits of one group's members, as they know of them."""

    def __init__(self, group: str) -> None:
        self.group = group
        self._acknowledged: dict[int, int] = defaultdict(lambda: NOTHING)
        self._all_acknowledged: dict[int, set[int]] = defaultdict(set)
        self._tried: dict[int, int] = defaultdict(lambda: NOTHING)

    @property
    def count(self) -> int:
        """How many offsets were acknowledged."""
        return sum(offset + 1 for offset in self._acknowledged.values())

    def try_next(self, partition: int, offset: int) -> None:
        """A member sends a commit."""
        self._tried[partition] = max(self._tried[partition], offset)

    def acknowledge(self, partition: int, offset: int) -> None:
        """A commit was acknowledged. Raises InvariantBroken if this offset was acknowledged before:
        then two members had the partition, or the first commit was lost.
        """
        if offset in self._all_acknowledged[partition]:
            raise InvariantBroken(
                NAME,
                f"group {self.group}, partition {partition}: a commit of offset {offset} is "
                "acknowledged, as another one was before",
            )
        self._all_acknowledged[partition].add(offset)
        self._acknowledged[partition] = max(self._acknowledged[partition], offset)

    def repeated(self, generation: int, present: int, codes: Iterable[ErrorCode]) -> None:
        """Judge the answers to a commit of an earlier generation, which a member has sent in the
        present one. Raises InvariantBroken.
        """
        if ErrorCode.none in codes:
            raise InvariantBroken(
                OLD,
                f"group {self.group}: a commit of generation {generation} is accepted in "
                f"generation {present}",
            )

    def at_least(self, partition: int) -> int:
        """Return the least offset that a read which begins now may return."""
        return self._acknowledged[partition]

    def check(self, partition: int, offset: int, at_least: int) -> None:
        """Judge the answer to a read. Raises InvariantBroken."""
        where = f"group {self.group}, partition {partition}: the committed offset is {offset}"
        if offset < at_least:
            raise InvariantBroken(NAME, f"{where}, but {at_least} was acknowledged before")
        if offset > self._tried[partition]:
            raise InvariantBroken(
                NAME, f"{where}, but no member committed more than {self._tried[partition]}"
            )
