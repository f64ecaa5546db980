"""The clients of a further workload in a client program."""

import time
from typing import Final

from harness.workloads.clients import access
from harness.workloads.clients.memberships import Membership
from harness.workloads.clients.options import ProducerOptions
from harness.workloads.clients.program.consumer import RecordingConsumer, open_consumer
from harness.workloads.clients.program.process import Program
from harness.workloads.clients.program.producer import RecordingProducer, open_producer
from harness.workloads.clients.reads import MemberReads, Reads
from harness.workloads.clients.sends import Sends
from harness.workloads.clients.transaction_sends import TransactionSends
from harness.workloads.further.program.producing import (
    TransactionalProducer,
    open_transactional,
)
from harness.workloads.further.program.subscribed import Subscribed, open_member
from harness.workloads.further.rules import Patience
from harness.workloads.further.threads.library import BeforeRevocation, Group
from harness.workloads.further_config import FurtherConfig
from harness.workloads.pacing import CONNECT_RETRY_S

LINGER_MS: Final = 2
TIMEOUT_MS: Final = 10_000


class ProgramFurther:
    """See `harness.workloads.further.threads.library.Library`."""

    def __init__(self, config: FurtherConfig, program: Program) -> None:
        self._config = config
        self._access = access.of_this_process()
        self._program = program

    def member(
        self,
        wanted: Group,
        index: int,
        reads: MemberReads,
        membership: Membership,
        before_revocation: BeforeRevocation,
    ) -> Subscribed:
        """See `Library`."""
        values = open_member(self._options(TIMEOUT_MS), wanted, index, reads)
        made = Subscribed(
            self._program, values, reads, membership, before_revocation=before_revocation
        )
        if made.over:
            time.sleep(CONNECT_RETRY_S)  # before the next member tries
        return made

    def transactional(
        self, sends: TransactionSends, timeout_ms: int, patience: Patience
    ) -> TransactionalProducer:
        """See `Library`."""
        values = open_transactional(self._options(timeout_ms), sends)
        return TransactionalProducer(self._program, values, sends, patience)

    def producer(self, sends: Sends, timeout_ms: int) -> RecordingProducer:
        """See `Library`."""
        return RecordingProducer(self._program, open_producer(self._options(timeout_ms)), sends)

    def consumer(self, reads: Reads) -> RecordingConsumer:
        """See `Library`."""
        return RecordingConsumer(
            self._program, open_consumer(self._options(TIMEOUT_MS), reads), reads
        )

    def _options(self, timeout_ms: int) -> ProducerOptions:
        return ProducerOptions(
            bootstrap=self._config.bootstrap,
            acks=self._config.acks,
            idempotence=True,
            linger_ms=LINGER_MS,
            message_timeout_ms=timeout_ms,
            access=self._access,
        )
