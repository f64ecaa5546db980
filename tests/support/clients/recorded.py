"""The sends and reads of one client, recorded in a list."""

from dataclasses import dataclass, field
from typing import Any

from checkers.history.history import HISTORY
from harness.recording.history import OperationWriter
from harness.workloads.clients.counts import Tally
from harness.workloads.clients.keyed_sends import KeyedSends, Keys
from harness.workloads.clients.memberships import Membership
from harness.workloads.clients.passes import Passes
from harness.workloads.clients.payload import PayloadCodec
from harness.workloads.clients.reads import MemberReads, Reads
from harness.workloads.clients.sends import Sends
from harness.workloads.clients.transaction_sends import TransactionSends

CODEC = PayloadCodec("run", 64)


class Rows(OperationWriter):
    """Writes operations into a list; each call of the clock adds 1 ns."""

    def __init__(self) -> None:
        super().__init__(writer_id=1)
        self.rows: list[tuple[Any, ...]] = []
        self.append = self.rows.append
        self._now_ns = 0

    def now_ns(self) -> int:
        self._now_ns += 1
        return self._now_ns

    def flush(self) -> int:
        return 0

    def of(self, f: str, *columns: str) -> list[tuple[Any, ...]]:
        """These columns of the operations of one kind."""
        named = [dict(zip(HISTORY.names, row, strict=True)) for row in self.rows]
        return [tuple(row[name] for name in columns) for row in named if row["f"] == f]


@dataclass
class Recorded:
    """The parts of the history of one client."""

    client: int = 1
    topic: str = "t"
    acks: int = -1
    codec: PayloadCodec = CODEC
    writer: Rows = field(default_factory=Rows)
    tally: Tally = field(default_factory=Tally)

    def sends(self) -> Sends:
        """The sends of a producer."""
        return Sends(**self._common, topic=self.topic, acks=self.acks)

    def keyed_sends(self, keys: Keys) -> KeyedSends:
        """The sends of a producer that writes and deletes keys."""
        return KeyedSends(**self._common, topic=self.topic, acks=self.acks, keys=keys)

    def passes(self) -> Passes:
        """The passes of a reader of keys."""
        return Passes(**self._common, topic=self.topic)

    def reads(self) -> Reads:
        """The reads of a consumer."""
        return Reads(**self._common, topic=self.topic)

    def member_reads(self, *others: str) -> MemberReads:
        """The reads of a member of a group, of the topic and of others."""
        return MemberReads([Reads(**self._common, topic=each) for each in (self.topic, *others)])

    def transactions(
        self, transactional_id: str = "id", group: str | None = None
    ) -> TransactionSends:
        """The transactions of a producer."""
        return TransactionSends(
            **self._common, topic=self.topic, transactional_id=transactional_id, group=group
        )

    def membership(self, group: str = "g") -> Membership:
        """What a member of a group goes through."""
        return Membership(**self._common, group=group)

    @property
    def _common(self) -> dict[str, Any]:
        return {
            "client": self.client, "writer": self.writer, "codec": self.codec,
            "tally": self.tally,
        }  # fmt: skip
