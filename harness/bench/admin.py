"""Blocking administration of a measured cluster: the few requests that a benchmark needs.

`BlockingAdmin` makes the requests of `harness.admin` from an event loop of its own. Every call
blocks, for a bounded time. A failure is a MeasureError that names the system.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeVar

from harness.admin import configs, inspection, reassignments, topics
from harness.admin.client import Address, AdminClient
from harness.admin.errors import AdminError, Unreachable
from harness.bench.clients.workers import MeasureError, Stop, Stopped

T = TypeVar("T")

ANSWER_S: Final = 30.0
CREATED_S: Final = 300.0
"""How long the creation of topics may take; enough for ten thousand partitions."""
UNREACHABLE_S: Final = 60.0
RETRY_S: Final = 0.05
MAX_MESSAGE_BYTES: Final = 16 << 20


class BlockingAdmin:
    """The administrator of the cluster behind `bootstrap`. `stopped` is checked during waits."""

    def __init__(self, name: str, bootstrap: Sequence[Address], stopped: Stop) -> None:
        self._name = name
        self._bootstrap = tuple(bootstrap)
        self._stopped = stopped

    def create(
        self,
        topic: str,
        *,
        partitions: int,
        replicas: int,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic; return when every bootstrap server sees all replicas in sync."""
        self.create_all({topic: partitions}, replicas=replicas, settings=settings)

    def create_all(
        self,
        wanted: Mapping[str, int],
        *,
        replicas: int,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Create topics with these numbers of partitions, with one request each.

        `settings` are further settings of all of them.
        """
        all_settings = {
            # One replica may be missing, as in a well-run cluster.
            "min.insync.replicas": str(max(1, replicas - 1)),
            "max.message.bytes": str(MAX_MESSAGE_BYTES),
            **(settings or {}),
        }

        async def create(admin: AdminClient) -> None:
            for topic, partitions in wanted.items():
                self._check_stopped()
                await topics.create(
                    admin,
                    topic,
                    partitions=partitions,
                    replication_factor=replicas,
                    configs=all_settings,
                    exist_ok=True,
                )

        self._run(create, f"cannot create {_some(wanted)}: ", bound_s=UNREACHABLE_S)
        self.await_in_sync(wanted, replicas=replicas)

    def await_in_sync(
        self, wanted: Mapping[str, int], *, replicas: int, preferred: bool = False
    ) -> None:
        """Wait until every bootstrap server sees all replicas of all partitions in sync.

        With `preferred`, elect the preferred leaders and wait for them too. Raises MeasureError,
        Stopped.
        """
        answered_s = time.monotonic()
        what = f"the replicas of {_some(wanted)} are not in sync: "

        async def look(admin: AdminClient) -> None:
            nonlocal answered_s
            self._check_stopped()
            try:
                if preferred:  # a controller does not move leaders while only few are elsewhere
                    await reassignments.elect(admin, reassignments.PREFERRED)
                for topic, partitions in wanted.items():
                    await topics.check_in_sync(
                        admin,
                        topic,
                        partitions=partitions,
                        replicas=replicas,
                        by=self._bootstrap,
                        preferred=preferred,
                    )
                    answered_s = time.monotonic()
            except Unreachable as error:
                if time.monotonic() - answered_s > UNREACHABLE_S:
                    raise MeasureError(f"{self._name}: {what}{error}") from error
                raise

        async def wait(admin: AdminClient) -> None:
            await admin.repeat(lambda: look(admin), longest_pause_s=RETRY_S)

        self._run(wait, what, bound_s=CREATED_S)

    def configure(self, topic: str, settings: Mapping[str, str]) -> None:
        """Change settings of a topic. Raises MeasureError."""

        async def change(admin: AdminClient) -> None:
            await configs.alter(admin, {configs.topic(topic): settings})

        self._run(change)

    def delete(self, topic: str) -> bool:
        """Delete a topic; return False when the cluster refuses."""

        async def delete(admin: AdminClient) -> bool:
            try:
                await topics.delete(admin, [topic])
            except AdminError:
                return False
            return True

        return self._run(delete)

    def broker_count(self) -> int:
        """Return the number of brokers. Raises MeasureError."""

        async def ask(admin: AdminClient) -> int:
            return len((await admin.refresh()).brokers)

        return self._run(ask)

    def leader(self, topic: str, partition: int = 0) -> tuple[int, Address]:
        """Return the leader of a partition and its address. Raises MeasureError."""

        async def ask(admin: AdminClient) -> tuple[int, Address]:
            (found,) = await topics.describe(admin, [topic])
            brokers = (await topics.cluster(admin)).brokers
            leader = found.partitions[partition].leader
            for broker in brokers:
                if broker.node_id == leader:
                    return leader, (broker.host, broker.port)
            raise MeasureError(f"{self._name}: {topic}-{partition} has no leader")

        return self._run(ask)

    def leaders(self, topic: str) -> dict[int, int | None]:
        """Return the leader of each partition of a topic. Raises MeasureError."""

        async def ask(admin: AdminClient) -> dict[int, int | None]:
            (found,) = await topics.describe(admin, [topic])
            return {each.name.partition: each.leader for each in found.partitions}

        return self._run(ask)

    def active_controller(self) -> int:
        """Return the node that leads the metadata quorum. Raises MeasureError."""

        async def ask(admin: AdminClient) -> int:
            return (await inspection.quorum(admin)).leader

        return self._run(ask)

    def _check_stopped(self) -> None:
        if self._stopped():
            raise Stopped

    def _run(
        self,
        work: Callable[[AdminClient], Awaitable[T]],
        what: str = "",
        *,
        bound_s: float = ANSWER_S,
    ) -> T:
        """Run `work` with a client. Raises MeasureError with `what` before the cause."""

        async def working() -> T:
            client = AdminClient(self._bootstrap, timeout_s=bound_s, request_timeout_s=bound_s)
            async with client as admin:
                return await work(admin)

        try:
            return asyncio.run(working())
        except AdminError as error:
            raise MeasureError(f"{self._name}: {what}{error}") from error


def _some(names: Mapping[str, int]) -> str:
    return ", ".join(list(names)[:3])
