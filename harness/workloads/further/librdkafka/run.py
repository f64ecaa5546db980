"""The librdkafka clients of a further workload."""

from typing import Final

from harness.workloads.clients import access
from harness.workloads.clients.librdkafka import (
    RecordingConsumer,
    RecordingProducer,
    consumer_config,
    producer_config,
)
from harness.workloads.clients.memberships import Membership
from harness.workloads.clients.options import ProducerOptions
from harness.workloads.clients.reads import MemberReads, Reads
from harness.workloads.clients.sends import Sends
from harness.workloads.clients.transaction_sends import TransactionSends
from harness.workloads.further.librdkafka.producing import TransactionalProducer
from harness.workloads.further.librdkafka.subscribed import Subscribed, member_config
from harness.workloads.further.rules import Patience
from harness.workloads.further.threads.library import BeforeRevocation, Group
from harness.workloads.further.threads.run import Further
from harness.workloads.further_config import FurtherConfig
from harness.workloads.threads import Clients

LINGER_MS: Final = 2


def further(config: FurtherConfig) -> Further:
    """Return the clients of a further workload."""
    return Further(config, LibrdkafkaFurther)


class LibrdkafkaFurther:
    """See `harness.workloads.further.threads.library.Library`."""

    def __init__(self, config: FurtherConfig, clients: Clients) -> None:
        self._config = config
        self._access = access.of_this_process()

    def member(
        self,
        wanted: Group,
        index: int,
        reads: MemberReads,
        membership: Membership,
        before_revocation: BeforeRevocation,
    ) -> Subscribed:
        """See `Library`."""
        settings = member_config(
            self._config.bootstrap,
            self._access,
            wanted,
            index,
            isolation_level=reads.isolation_level,
        )
        return Subscribed(settings, reads, membership, before_revocation=before_revocation)

    def transactional(
        self, sends: TransactionSends, timeout_ms: int, patience: Patience
    ) -> TransactionalProducer:
        """See `Library`."""
        return TransactionalProducer(
            self._config.bootstrap, self._access, sends, timeout_ms=timeout_ms, patience=patience
        )

    def producer(self, sends: Sends, timeout_ms: int) -> RecordingProducer:
        """See `Library`."""
        options = ProducerOptions(
            bootstrap=self._config.bootstrap,
            acks=self._config.acks,
            idempotence=True,
            linger_ms=LINGER_MS,
            message_timeout_ms=timeout_ms,
            access=self._access,
        )
        return RecordingProducer(producer_config(options), sends)

    def consumer(self, reads: Reads) -> RecordingConsumer:
        """See `Library`."""
        settings = consumer_config(
            bootstrap=self._config.bootstrap,
            group=f"highwater-{reads.client}",
            access=self._access,
        )
        return RecordingConsumer({**settings, "isolation.level": "read_committed"}, reads)
