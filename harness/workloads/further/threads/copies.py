"""Members of a consumer group that copy the records of topics to another one, each in a thread.

They do the same as our own clients, see `harness.workloads.further.own.copies`.
"""

import threading
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Final, Protocol

from harness.plans.workloads import CopyWorkload
from harness.workloads.client_histories import FurtherHistories
from harness.workloads.clients.counts import Tally
from harness.workloads.clients.outcomes import NotConnected, Outcome
from harness.workloads.further.rules import (
    ABORTS,
    COPIED_AT_A_TIME,
    Patience,
    copies_of,
    leaves,
    positions_behind,
)
from harness.workloads.further.threads.library import (
    Broken,
    CopyingProducer,
    Library,
    NotWritten,
    Subscribed,
    Taken,
    Written,
)
from harness.workloads.further.threads.members import Members
from harness.workloads.further_config import FurtherConfig
from harness.workloads.pacing import CONNECT_RETRY_S
from nodes.ids import TopicPartition

POLL_S: Final = 0.1


class _Copier(Protocol):
    """Copies records of one member."""

    def begin(self) -> bool:
        """Get ready; return whether that was possible."""
        ...

    def copy(self, subscribed: Subscribed, taken: Sequence[Taken]) -> bool:
        """Copy records and commit the offsets behind them; return whether the copier may go on."""
        ...

    def close(self) -> None:
        """End the producer."""
        ...


class Copiers:
    """The members of the group; `tally` makes the counters of one."""

    def __init__(
        self,
        config: FurtherConfig,
        wanted: CopyWorkload,
        library: Library,
        histories: FurtherHistories,
        stop: threading.Event,
        tally: Callable[[], Tally],
    ) -> None:
        self._wanted = wanted
        self._members = Members(config, wanted, library, histories, stop, tally)

    def runs(self) -> list[tuple[str, Callable[[], None]]]:
        """Return what each thread does until the stop, with its name."""
        return [(f"member-{n}", partial(self._in_turn, n)) for n in range(self._wanted.members)]

    def _in_turn(self, index: int) -> None:
        """Be one member after the other until the stop. Each has a producer of its own, which is
        another client."""
        members, tally = self._members, self._members.tally()
        while not members.stop.is_set():
            copier = self._copier(index, tally)
            if not copier.begin():
                copier.close()
                continue
            subscribed, end_s = members.subscribe(index, tally, _nothing)
            while members.goes_on(subscribed, end_s):
                taken = subscribed.take(COPIED_AT_A_TIME, POLL_S)
                subscribed.record(taken)
                if taken and not copier.copy(subscribed, taken):
                    break
            subscribed.close(leave=leaves(members.stop, members.rng) and not subscribed.over)
            copier.close()

    def _copier(self, index: int, tally: Tally) -> _Copier:
        if self._wanted.processing == "at-least-once":
            return _AtLeastOnce(self._members, self._wanted, tally)
        return _ExactlyOnce(self._members, self._wanted, index, tally)


def _nothing(partitions: Collection[TopicPartition]) -> None:
    """Commit nothing: all offsets are committed already."""


class _ExactlyOnce:
    """Copies in transactions."""

    def __init__(self, members: Members, wanted: CopyWorkload, index: int, tally: Tally) -> None:
        config = members.config
        self._wanted = wanted
        self._rng = members.rng
        self._partitions = config.partitions[wanted.output]
        self._sends = members.histories.transactions(
            members.histories.next_client(),
            wanted.output,
            f"{config.name}-{index}",
            tally,
            wanted.group,
        )
        self._producer = members.library.transactional(
            self._sends,
            wanted.transaction_timeout_ms,
            Patience(members.stop, config.drain_ms / 1000, time.monotonic),
        )

    def begin(self) -> bool:
        """See `_Copier`."""
        return self._producer.begin_producer()

    def copy(self, subscribed: Subscribed, taken: Sequence[Taken]) -> bool:
        """See `_Copier`."""
        producer, sends, wanted = self._producer, self._sends, self._wanted
        offsets = positions_behind(taken)
        try:
            producer.begin()
            producer.write(
                [
                    Written(wanted.output, partition, sends.send(partition, copies=value)[1])
                    for partition, value in copies_of(taken, sends, self._partitions)
                ]
            )
            metadata = subscribed.metadata
            sends.offsets(wanted.group, subscribed.generation, offsets)
            producer.send_offsets(
                offsets, wanted.group, metadata if wanted.group_metadata else None
            )
        except Broken as error:
            sends.left_open(error=str(error))
            return False
        except NotWritten as error:
            sends.note(str(error))
            return producer.abort() and subscribed.go_back()
        if self._rng.random() < ABORTS:
            return producer.abort() and subscribed.go_back()
        return producer.commit()

    def close(self) -> None:
        """See `_Copier`."""
        self._producer.close()


class _AtLeastOnce:
    """Copies with an idempotent producer, and commits afterwards."""

    def __init__(self, members: Members, wanted: CopyWorkload, tally: Tally) -> None:
        config = members.config
        self._partitions = config.partitions[wanted.output]
        self._drain_s = config.drain_ms / 1000
        histories = members.histories
        self._sends = histories.sends(histories.next_client(), wanted.output, tally, wanted.group)
        self._make = partial(members.library.producer, self._sends, wanted.transaction_timeout_ms)
        self._producer: CopyingProducer | None = None
        self._stop = members.stop

    def begin(self) -> bool:
        """See `_Copier`."""
        try:
            self._producer = self._make()
        except NotConnected as error:
            self._sends.note(str(error))
            self._stop.wait(CONNECT_RETRY_S)
        return self._producer is not None

    def copy(self, subscribed: Subscribed, taken: Sequence[Taken]) -> bool:
        """See `_Copier`."""
        sends, producer = self._sends, self._producer
        assert producer is not None
        failed = sends.tally.failed + sends.tally.info
        for partition, value in copies_of(taken, sends, self._partitions):
            producer.send(partition, copies=value)
        while sends.pending and producer.fatal is None:
            producer.poll(POLL_S)
        if sends.pending or sends.tally.failed + sends.tally.info > failed:
            return producer.fatal is None and subscribed.go_back()
        offsets = positions_behind(taken)
        results = subscribed.commit(offsets)
        return all(result is Outcome.OK for result in results.values())

    def close(self) -> None:
        """See `_Copier`."""
        if self._producer is not None:
            self._producer.close(self._drain_s if self._producer.fatal is None else 0.0)
