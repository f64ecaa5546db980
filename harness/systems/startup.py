"""How a cluster of built-in brokers comes to be whole: all known to all, the plan's topics in sync.

Asked of an administrative client, in whatever world that lives.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from kio.schema.errors import ErrorCode

from harness.admin import topics
from harness.admin.client import Address, AdminClient
from harness.admin.errors import Passing, Refused
from harness.plans.plan import Topic

RETRY_S: Final = 0.1


def _nothing() -> None:
    """What cannot be checked."""


async def await_brokers(
    admin: AdminClient, brokers: Mapping[int, Address], check: Callable[[], None] = _nothing
) -> None:
    """Wait until each broker answers and knows all of them; `check` meanwhile what it raises.

    Raises AdminError, and what `check` does.
    """
    everyone = set(brokers)

    async def look() -> None:
        check()
        for node, address in brokers.items():
            answer = await admin.request("metadata", to=address, topics=())
            known = {int(broker.node_id) for broker in answer.brokers}
            if known != everyone:
                text = f"node {node} knows brokers {sorted(known)} of {sorted(everyone)}"
                raise Passing(ErrorCode.broker_not_available, text)

    await admin.repeat(look, longest_pause_s=RETRY_S)


async def create_topics(admin: AdminClient, wanted: Sequence[Topic]) -> None:
    """Create topics of a plan; those that are there already stay. Raises AdminError."""
    for topic in wanted:
        await admin.repeat(lambda topic=topic: _create(admin, topic))  # type: ignore[misc]


async def await_in_sync(
    admin: AdminClient, wanted: Sequence[Topic], brokers: Mapping[int, Address]
) -> None:
    """Wait until all brokers see the topics with every replica in sync. Raises AdminError."""

    async def look() -> None:
        for topic in wanted:
            await topics.see_in_sync(
                admin,
                topic.name,
                partitions=topic.partitions,
                replicas=topic.replication_factor,
                by=list(brokers.values()),
            )

    await admin.repeat(look, longest_pause_s=RETRY_S)


async def _create(admin: AdminClient, topic: Topic) -> None:
    """Create a topic of the plan. Raises Passing, Refused, Unreachable."""
    try:
        await topics.create(
            admin,
            topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            configs={"min.insync.replicas": str(topic.min_insync_replicas), **topic.configs},
            exist_ok=True,
        )
    except Refused as error:
        # On a busy machine a broker may be late with its heartbeat, and fenced for a moment.
        if error.code is ErrorCode.invalid_replication_factor:
            raise Passing(error.code, str(error)) from error
        raise
