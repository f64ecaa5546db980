"""A transaction coordinator for tests: its log in a list, its requests in one line each."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

from kio.schema.errors import ErrorCode

from nodes.coordinators.machine import Effects, ProducerStamp
from nodes.coordinators.transactions import records
from nodes.coordinators.transactions.coordinator import Marker, TransactionCoordinator
from nodes.coordinators.transactions.settings import TransactionSettings
from nodes.coordinators.transactions.state import Transaction
from nodes.ids import Offset, TopicPartition
from tests.support.nodes.machine_driver import MachineDriver

SETTINGS = TransactionSettings()
IN = TopicPartition("in", 0)
OUT = TopicPartition("out", 1)
TIMEOUT_MS = 60_000
FIRST_ID = 1000


class Transactions:
    """Requests to one coordinator, whose answers are given at once.

    `version` is the finalised level of transaction.version. Clients use the same.
    """

    def __init__(self, version: int = 2, settings: TransactionSettings = SETTINGS) -> None:
        self.version = version
        self._ids: Iterator[int] = count(FIRST_ID)
        self.has_ids = True
        self.completed: list[str] = []
        """The ids whose transactions are complete, as the coordinator says it."""
        self.driver = MachineDriver(
            lambda: TransactionCoordinator(
                settings,
                transaction_version=lambda: self.version,
                new_id=self._new_id,
                completed=self.completed.append,
            )
        )

    def _new_id(self) -> int | None:
        return next(self._ids) if self.has_ids else None

    @property
    def machine(self) -> TransactionCoordinator:
        """The live coordinator."""
        return self.driver.machine

    def of(self, name: str = "t") -> Transaction:
        """What the coordinator remembers of an id."""
        return self.machine.transactions[name]

    def init(
        self,
        name: str = "t",
        expected: ProducerStamp | None = None,
        timeout_ms: int = TIMEOUT_MS,
    ) -> ProducerStamp | ErrorCode:
        """InitProducerId: the identity, or the error."""
        answer = self.driver.ask(
            lambda machine, token, now: machine.init_producer_id(
                token, now, transactional_id=name, timeout_ms=timeout_ms, expected=expected
            )
        )
        return _identity(answer)

    def producer(self, name: str = "t") -> ProducerStamp:
        """A producer that was initialised."""
        found = self.init(name)
        assert isinstance(found, ProducerStamp)
        return found

    def add(
        self,
        producer: ProducerStamp,
        *partitions: TopicPartition,
        name: str = "t",
        version: int | None = None,
    ) -> ErrorCode:
        """AddPartitionsToTxn: the error."""
        answer = self.driver.ask(
            lambda machine, token, now: machine.add_partitions(
                token,
                now,
                transactional_id=name,
                producer=producer,
                partitions=partitions,
                client_version=self._client(version),
            )
        )
        error: ErrorCode = answer["error_code"]
        return error

    def verify(self, producer: ProducerStamp, partition: TopicPartition) -> ErrorCode:
        """Whether a partition is in the transaction: the error."""
        answer = self.driver.ask(
            lambda machine, token, now: machine.verify_partitions(
                token, now, transactional_id="t", producer=producer, partitions=[partition]
            )
        )
        error: ErrorCode = answer["errors"][partition]
        return error

    def end(
        self,
        producer: ProducerStamp,
        *,
        commit: bool,
        name: str = "t",
        version: int | None = None,
    ) -> ProducerStamp | ErrorCode:
        """EndTxn: the identity for the next transaction, or the error."""
        answer = self.driver.ask(
            lambda machine, token, now: machine.end(
                token,
                now,
                transactional_id=name,
                producer=producer,
                commit=commit,
                client_version=self._client(version),
            )
        )
        return _identity(answer)

    def markers(self) -> list[Marker]:
        """The markers that are due; everything in the log is committed."""
        return list(self.machine.pending_markers(Offset(len(self.driver.log))))

    def confirm(self, marker: Marker, *partitions: TopicPartition) -> int:
        """Confirm a marker's partitions (all by default); return how many records that wrote."""
        before = len(self.driver.log)
        self.driver.perform(
            lambda machine, token, now: machine.markers_written(
                now,
                transactional_id=marker.transactional_id,
                decided=marker.decided,
                partitions=partitions or marker.partitions,
            )
        )
        return len(self.driver.log) - before

    def finish(self) -> None:
        """Confirm every marker that is due."""
        for marker in self.markers():
            self.confirm(marker)

    def at_epoch(self, epoch: int, name: str = "t") -> ProducerStamp:
        """Move a producer on to `epoch`, with records that say so."""

        self.producer(name)
        moved = replace(self.of(name), epoch=epoch)
        self.driver.perform(
            lambda machine, token, now: Effects((records.encode(moved, self.version),))
        )
        return ProducerStamp(moved.producer_id, epoch)

    def _client(self, version: int | None) -> int:
        asked = self.version if version is None else version
        return 2 if asked >= 2 else 0


def _identity(answer: Any) -> ProducerStamp | ErrorCode:
    error: ErrorCode = answer["error_code"]
    if error is not ErrorCode.none:
        assert (answer["producer_id"], answer["producer_epoch"]) == (-1, -1)
        return error
    return ProducerStamp(answer["producer_id"], answer["producer_epoch"])
