"""A transactional librdkafka producer that records its transactions.

Its calls block. librdkafka repeats requests by itself, and reports the error of the last attempt.
So a commit that ended with an error is of unknown outcome, unless a record could not be written:
then the commit was not asked for.

send_offsets_to_transaction may never return (librdkafka issue 5511), whatever its time-out (issue
5456). So it has a thread of its own. A producer whose call hangs is left behind.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from harness.workloads.clients.access import Access
from harness.workloads.clients.librdkafka import COMMON, REQUEST_TIMEOUT_MS, SOCKET_TIMEOUT_MS
from harness.workloads.clients.outcomes import Outcome
from harness.workloads.clients.payload import peek_value
from harness.workloads.clients.transaction_sends import TransactionSends
from harness.workloads.further.librdkafka.subscribed import places, without_member
from harness.workloads.further.rules import Patience
from harness.workloads.further.threads.library import Broken, NotWritten, Written
from nodes.ids import TopicPartition

CALL_S: Final = 2.0
"""How long one call may block."""
HANGS_S: Final = 15.0
"""A call that takes longer does not return."""
LOOK_S: Final = 0.1
"""How often the patience is looked at while a call may hang."""


class TransactionalProducer:
    """See the module. For one thread."""

    def __init__(
        self,
        bootstrap: str,
        access: Access,
        sends: TransactionSends,
        *,
        timeout_ms: int,
        patience: Patience,
    ) -> None:
        self.patience = patience
        self._sends = sends
        self._failed: str | None = None
        """Why a record of the open transaction was not written."""
        self._producer = Producer(
            {
                **access.librdkafka(),
                **COMMON,
                "bootstrap.servers": bootstrap,
                "transactional.id": sends.transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "message.timeout.ms": timeout_ms,  # librdkafka wants no more
                "socket.timeout.ms": min(SOCKET_TIMEOUT_MS, timeout_ms),
                "request.timeout.ms": min(REQUEST_TIMEOUT_MS, timeout_ms),
                "linger.ms": 2,
                "on_delivery": self._delivered,
                "error_cb": lambda error: sends.note(error.name()),
            }
        )
        sends.open()

    def begin_producer(self) -> bool:
        """Take over the transactional id, and record it; return whether that was answered."""
        invoke_ns = self._sends.now_ns()
        try:
            self._repeat(self._producer.init_transactions)
        except (Broken, NotWritten) as error:
            self._sends.initialized(Outcome.INFO, invoke_ns, error=str(error))
            return False
        self._sends.initialized(Outcome.OK, invoke_ns)
        return True

    def begin(self) -> None:
        """Begin a transaction. Raises Broken."""
        self._failed = None
        self._sends.begin()
        try:
            self._producer.begin_transaction()
        except KafkaException as error:
            raise Broken(_name(error)) from error

    def write(self, records: Sequence[Written]) -> None:
        """Write records, and wait for all. Raises Broken, NotWritten."""
        for topic, partition, payload in records:
            try:
                self._producer.produce(topic, payload, partition=partition)
            except (KafkaException, BufferError) as error:
                raise NotWritten(_name(error)) from error
        try:
            while self._producer.flush(CALL_S):
                if self.patience.over:
                    raise Broken("UNFINISHED")
        except (KafkaException, SystemError) as error:
            # Raised once when librdkafka declares the producer broken; inside of a SystemError if
            # there are delivery reports, too.
            raise Broken(_name(error.__cause__ or error.__context__ or error)) from error
        if self._failed is not None:
            raise NotWritten(self._failed)

    def send_offsets(
        self, offsets: Mapping[TopicPartition, int], group: str, metadata: object | None
    ) -> None:
        """Commit offsets in the transaction. Raises Broken, NotWritten."""
        positions = places(offsets)
        member = without_member(group) if metadata is None else metadata
        send = self._producer.send_offsets_to_transaction
        self._repeat(
            lambda timeout_s: returned(
                lambda: send(positions, member, timeout_s), HANGS_S, self.patience
            )
        )

    def commit(self) -> bool:
        """Commit, and record the outcome; return whether the producer may go on."""
        invoke_ns = self._sends.now_ns()
        try:
            self._repeat(self._producer.commit_transaction)
        except (Broken, NotWritten) as error:
            self._sends.committed(Outcome.INFO, invoke_ns, error=str(error))
            return False
        self._sends.committed(Outcome.OK, invoke_ns)
        return True

    def abort(self) -> bool:
        """Abort, and record the outcome; return whether the producer may go on."""
        invoke_ns = self._sends.now_ns()
        try:
            self._repeat(self._producer.abort_transaction)
        except (Broken, NotWritten) as error:
            self._sends.aborted(Outcome.INFO, invoke_ns, error=str(error))
            return False
        self._sends.aborted(Outcome.OK, invoke_ns)
        return True

    def close(self) -> None:
        """End the client. A transaction that is open stays open."""
        self._producer.purge()  # nothing is written after the end row
        self._sends.left_open()
        self._sends.close()

    def _repeat(self, call: Callable[[float], Any]) -> None:
        """Make a call until it is answered. Raises Broken, NotWritten."""
        while True:
            try:
                call(CALL_S)
                return
            except KafkaException as error:
                reason: KafkaError = error.args[0]
                if reason.txn_requires_abort():
                    raise NotWritten(reason.name()) from error
                if not reason.retriable() or self.patience.over:
                    raise Broken(reason.name()) from error

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        value = peek_value(message.value() or b"")
        if error is not None:
            self._failed = error.name()
        elif value in self._sends:
            self._sends.appended(value, message.offset() or 0)


def returned(call: Callable[[], object], limit_s: float, patience: Patience) -> None:
    """Make a call in a thread of its own, which stays behind if the call hangs.

    Raises Broken if it does not return within `limit_s`, or before the patience is over, and what
    the call raises.
    """
    ended: Future[object] = Future()

    def make() -> None:
        try:
            ended.set_result(call())
        except Exception as error:
            ended.set_exception(error)

    threading.Thread(target=make, name="call", daemon=True).start()
    end_s = time.monotonic() + limit_s
    while True:
        try:
            ended.result(LOOK_S)
            return
        except TimeoutError:
            if patience.over or time.monotonic() >= end_s:
                raise Broken("HANGS") from None


def _name(error: BaseException) -> str:
    reason = error.args[0] if error.args else None
    return reason.name() if isinstance(reason, KafkaError) else type(error).__name__
