"""The coordinators of one internal topic on this broker: a shard for each partition that it leads.

A key (a group id, a transactional id) belongs to one partition, and its leader is the key's
coordinator.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

from kio.schema.errors import ErrorCode

from nodes.coordinators.machine import Answer, Machine
from nodes.coordinators.partitioning import partition_for
from nodes.log.transactions.verification import VerificationGuard
from nodes.metadata.image import ClusterImage
from nodes.replication.partition import Role
from nodes.server.coordinators.errors import CoordinatorError
from nodes.server.coordinators.shard import Access, Operation, Shard, State
from nodes.server.replicas.replica import Replica

M = TypeVar("M", bound=Machine)


class Shards(Generic[M]):
    """See the module. `make` makes an empty machine; `image` returns the cluster's newest image."""

    def __init__(
        self,
        topic: str,
        make: Callable[[], M],
        image: Callable[[], ClusterImage],
        wall_clock_ms: Callable[[], int],
        *,
        commit_timeout_ms: int,
    ) -> None:
        self.topic = topic
        self.make = make
        self._image = image
        self._shards: dict[int, Shard[M]] = {}
        self._open = partial(
            Shard[M], make=make, wall_clock_ms=wall_clock_ms, commit_timeout_ms=commit_timeout_ms
        )

    # -- finding

    def partition_of(self, key: str) -> int | None:
        """The partition of `key`; None if the internal topic does not exist yet."""
        topic = self._image().topic(self.topic)
        return None if topic is None else partition_for(key, len(topic.partitions))

    def find(self, key: str) -> Shard[M]:
        """The shard for `key`. Raises CoordinatorError if it is not on this broker."""
        partition = self.partition_of(key)
        if partition is None:
            raise CoordinatorError(ErrorCode.coordinator_not_available)
        shard = self._shards.get(partition)
        if shard is None:
            raise CoordinatorError(ErrorCode.not_coordinator)
        return shard

    def all(self) -> list[Shard[M]]:
        """The shards that load or serve, in order of their partitions."""
        gone = (State.CLOSED, State.FAILED)
        return [shard for _, shard in sorted(self._shards.items()) if shard.state not in gone]

    def perform(
        self,
        key: str,
        operation: Operation[M],
        access: Access = Access.CHANGE,
        guard: VerificationGuard | None = None,
    ) -> "asyncio.Future[Answer]":
        """Run an operation in the shard for `key`; see `Shard.perform`."""
        return self.find(key).perform(operation, access, guard)

    def tell(self, event: Callable[[M], None]) -> None:
        """Tell the machines of all shards what happened; see `Shard.tell`."""
        for shard in self.all():
            shard.tell(event)

    # -- following the metadata log

    def role_changed(self, replica: Replica) -> None:
        """The role or leader epoch of a replica of the topic changed."""
        partition = replica.partition.partition
        old = self._shards.pop(partition, None)
        if old is not None:
            old.close()
        if replica.state.role is Role.LEADER:
            self._shards[partition] = self._open(replica)

    def close(self) -> None:
        """This broker stops."""
        for shard in self._shards.values():
            shard.close()
