"""The broker role: creates the parts that serve clients and follow leaders, and connects them.

The parts are the control plane's end here, the replicas, the ISR manager, the fetchers, the
housekeeping and the request handlers. This module names their apis and their endless jobs.
"""

from collections.abc import Callable, Coroutine, Iterator
from typing import Any
from uuid import UUID

from nodes.config import NodeConfig
from nodes.coordinators.internal_topics import TRANSACTIONS_TOPIC
from nodes.ids import BrokerEpoch
from nodes.metadata.image import ClusterImage, Delta
from nodes.server.apis import BrokerHandlers, broker_apis
from nodes.server.control_plane import ControlPlane
from nodes.server.coordinators.groups import forget_topics, group_coordinators
from nodes.server.coordinators.internal_topics import internal_topics
from nodes.server.coordinators.transactions import Transactions
from nodes.server.follower.fetcher import ReplicaFetcherManager
from nodes.server.replicas.housekeeping import Housekeeping
from nodes.server.replicas.isr import IsrManager
from nodes.server.replicas.log_cleaner import LogCleaner
from nodes.server.replicas.manager import ReplicaManager
from nodes.server.requests.auto_topics import AutoTopicCreation
from nodes.server.requests.coordinators import CoordinatorHandler
from nodes.server.requests.describe_configs import DescribeConfigsHandler
from nodes.server.requests.fetch.fetch import FetchHandler
from nodes.server.requests.fetch.read import PartitionReader
from nodes.server.requests.fetch.replica_selector import ReplicaSelector
from nodes.server.requests.fetch.sessions import FetchSessionCache
from nodes.server.requests.forwarding import ForwardingHandler
from nodes.server.requests.groups.administration import GroupAdministrationHandler
from nodes.server.requests.groups.classic import ClassicGroupHandler
from nodes.server.requests.groups.consumer import ConsumerGroupHandler
from nodes.server.requests.groups.offsets import GroupOffsetsHandler
from nodes.server.requests.groups.transactional_offsets import TransactionalOffsetsHandler
from nodes.server.requests.list_offsets import OffsetsHandler
from nodes.server.requests.log_admin import LogAdminHandler
from nodes.server.requests.metadata import MetadataHandler
from nodes.server.requests.produce import ProduceHandler
from nodes.server.requests.replica_log_info import ReplicaLogInfoHandler
from nodes.server.requests.transaction_markers import TransactionMarkersHandler
from nodes.server.requests.transactions import TransactionHandler
from nodes.server.requests.verification import ProduceVerification
from nodes.storage.disk import Disk
from nodes.wire.budget import ByteBudget
from nodes.wire.client import Channel
from nodes.wire.server import Api


class Broker:
    """See the module. `previous_epoch`: the broker epoch of the last run if it ended cleanly.

    `make_plane` makes the control plane for the broker's replicas. Whoever owns the plane passes
    its images to `on_metadata_update`.
    """

    def __init__(
        self,
        config: NodeConfig,
        disk: Disk,
        make_plane: Callable[[ReplicaManager], ControlPlane],
        *,
        now_ms: Callable[[], float],
        wall_clock_ms: Callable[[], int],
        incarnation_id: UUID,
        connect_broker: Callable[[str, int], Channel],
        previous_epoch: BrokerEpoch | None,
        response_budget: ByteBudget,
    ) -> None:
        self._config = config
        self.incarnation_id = incarnation_id
        self.replicas = ReplicaManager(config, disk, now_ms, clean_start=previous_epoch is not None)
        self._plane = plane = make_plane(self.replicas)
        self._previous_epoch = previous_epoch
        self._isr = IsrManager(
            config.node_id,
            self.replicas,
            plane,
            plane,
            lag_max_ms=config.replication.lag_time_max_ms,
            now_ms=now_ms,
        )
        self._fetchers = ReplicaFetcherManager(config, self.replicas, plane, connect_broker)
        self.replicas.set_fetchers(self._fetchers)
        self._housekeeping = Housekeeping(config, self.replicas, now_ms, wall_clock_ms)
        self._cleaner = LogCleaner(config.cleaner, self.replicas, now_ms, wall_clock_ms)
        self.replicas.on_compacted = self._cleaner.start
        self._auto_topics = AutoTopicCreation(
            plane,
            enabled=config.administration.auto_create_topics,
            internal=internal_topics(config),
        )
        self.groups = group_coordinators(config, self.replicas, incarnation_id, wall_clock_ms)
        self._transactions = self._transaction_coordinators(connect_broker, wall_clock_ms)
        self._handlers = BrokerHandlers(
            produce=ProduceHandler(self.replicas, wall_clock_ms, self._transactions.verifier),
            fetch=self._fetch_handler(now_ms, incarnation_id, response_budget),
            offsets=OffsetsHandler(self.replicas),
            metadata=MetadataHandler(
                config, self.replicas, lambda: plane.controller_id, self._auto_topics
            ),
            coordinators=CoordinatorHandler(lambda: self.replicas.image, self._auto_topics),
            group_offsets=GroupOffsetsHandler(self.groups, self.replicas),
            transactional_offsets=TransactionalOffsetsHandler(
                self.groups,
                self.replicas,
                ProduceVerification(self.replicas, self._transactions.verifier, wall_clock_ms),
            ),
            classic_groups=ClassicGroupHandler(self.groups),
            consumer_groups=ConsumerGroupHandler(self.groups, lambda: self.replicas.image),
            groups=GroupAdministrationHandler(self.groups),
            transactions=TransactionHandler(self._transactions, self._auto_topics.create_internal),
            configs=DescribeConfigsHandler(config, lambda: self.replicas.image),
            forwarding=ForwardingHandler(plane),
            log_admin=LogAdminHandler(config, disk, self.replicas),
            log_info=ReplicaLogInfoHandler(self.replicas, plane),
            markers=TransactionMarkersHandler(self.replicas, wall_clock_ms),
        )

    def _transaction_coordinators(
        self, connect_broker: Callable[[str, int], Channel], wall_clock_ms: Callable[[], int]
    ) -> Transactions:
        made = Transactions(
            self._config,
            self._plane,
            self._plane,
            lambda: self.replicas.image,
            connect_broker,
            wall_clock_ms,
        )
        self.replicas.set_role_listener(TRANSACTIONS_TOPIC, made.shards)
        return made

    def _fetch_handler(
        self, now_ms: Callable[[], float], incarnation_id: UUID, response_budget: ByteBudget
    ) -> FetchHandler:
        config = self._config
        first_session = incarnation_id.int & 0x3FFFFFFF
        return FetchHandler(
            PartitionReader(
                self.replicas, ReplicaSelector() if config.fetching.rack_aware else None
            ),
            self._isr,
            FetchSessionCache(config.fetching.max_sessions, first_session),
            now_ms,
            max_bytes=config.fetching.max_bytes,
            response_budget=response_budget,
        )

    @property
    def broker_epoch(self) -> BrokerEpoch:
        """The epoch of the registration; -1 before the first one."""
        return self._plane.broker_epoch

    def apis(self) -> dict[int, Api]:
        """The apis served to clients and other brokers."""
        return self._plane.served(broker_apis(self._handlers))

    async def recover(self) -> None:
        """Open the logs; called before `jobs` register the broker. Raises OSError."""
        await self.replicas.recover()
        self._plane.recovered(self._previous_epoch if self.replicas.logs.intact else None)

    def jobs(self) -> Iterator[Coroutine[Any, Any, None]]:
        """The jobs that run until the broker stops."""
        yield from self._plane.jobs()
        yield self._isr.send()
        yield self._isr.watch_lag()
        yield from self._housekeeping.jobs()

    def on_metadata_update(self, image: ClusterImage, delta: Delta) -> None:
        """Apply a newer committed image of the cluster."""
        self.replicas.apply_delta(image, delta)
        deleted = [each.before.name for each in delta.topics.values() if each.before]
        if deleted:
            forget_topics(self.groups, deleted)
        self._plane.metadata_advanced()

    async def controlled_shutdown(self, timeout_ms: float) -> bool:
        """Controlled shutdown: true if every leadership was moved to another broker."""
        return await self._plane.leave(timeout_ms)

    def close(self) -> bool:
        """Stop fetching, flush and close the logs; false if some log had failed."""
        self.groups.close()
        self._transactions.close()
        self._fetchers.stop()
        self._cleaner.stop()
        self._auto_topics.close()
        self._plane.close()
        return self.replicas.close()
