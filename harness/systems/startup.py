"""Waits until a new cluster is complete: brokers know each other, and topics are in sync.

It uses an administrative client, and works with real processes and in simulated worlds.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from kio.schema.errors import ErrorCode

from harness.admin import topics
from harness.admin.client import Address, AdminClient
from harness.admin.errors import RequestRefused, TransientError
from harness.plans.plan import Topic

RETRY_S: Final = 0.1


def _no_check() -> None:
    """Check nothing."""


async def await_brokers(
    admin: AdminClient, brokers: Mapping[int, Address], check: Callable[[], None] = _no_check
) -> None:
    """Wait until each broker answers and knows all brokers. `check` is called in between.

    Raises AdminError, and whatever `check` raises.
    """
    everyone = set(brokers)

    async def look() -> None:
        check()
        for node, address in brokers.items():
            answer = await admin.request("metadata", to=address, topics=())
            known = {int(broker.node_id) for broker in answer.brokers}
            if known != everyone:
                text = f"node {node} knows brokers {sorted(known)} of {sorted(everyone)}"
                raise TransientError(ErrorCode.broker_not_available, text)

    await admin.repeat(look, longest_pause_s=RETRY_S)


async def create_topics(admin: AdminClient, wanted: Sequence[Topic]) -> None:
    """Create topics of a plan; topics that exist already stay. Raises AdminError."""
    for topic in wanted:
        await admin.repeat(lambda topic=topic: _create(admin, topic))  # type: ignore[misc]


async def await_in_sync(
    admin: AdminClient, wanted: Sequence[Topic], brokers: Mapping[int, Address]
) -> None:
    """Wait until all brokers see the topics with every replica in sync. Raises AdminError."""

    async def look() -> None:
        for topic in wanted:
            await topics.check_in_sync(
                admin,
                topic.name,
                partitions=topic.partitions,
                replicas=topic.replication_factor,
                by=list(brokers.values()),
            )

    await admin.repeat(look, longest_pause_s=RETRY_S)


async def _create(admin: AdminClient, topic: Topic) -> None:
    """Create a topic of the plan. Raises TransientError, RequestRefused, Unreachable."""
    try:
        await topics.create(
            admin,
            topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            configs={"min.insync.replicas": str(topic.min_insync_replicas), **topic.configs},
            exist_ok=True,
        )
    except RequestRefused as error:
        # On a busy machine a broker's heartbeat may be late, so that it is fenced for a moment.
        if error.code is ErrorCode.invalid_replication_factor:
            raise TransientError(error.code, str(error)) from error
        raise
