"""One node: creates its parts, connects them, and starts and stops them in order.

The disk, the randomness and the wall clock are arguments; sockets and timers are those of the
running event loop. So the same node runs on real machines and in the simulator.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

from nodes.config import Endpoint, NodeConfig
from nodes.controller.controller import Controller
from nodes.controller.settings import ControlSettings
from nodes.ids import BrokerEpoch
from nodes.log.checkpoints import CleanShutdown, MetaProperties
from nodes.metadata.image import ClusterImage, Delta
from nodes.raft.election_state import directory_of, directory_text
from nodes.server import features
from nodes.server.broker import Broker
from nodes.server.control_plane import ControlPlane, NoControlPlane
from nodes.server.controller.apis import controller_apis
from nodes.server.controller.controller import QuorumController
from nodes.server.controller.queries import ControllerQueryHandler
from nodes.server.controller.recovery import UncleanRecoveryManager
from nodes.server.quorum.control_plane import QuorumControlPlane
from nodes.server.quorum.metadata_publisher import MetadataPublisher
from nodes.server.quorum.quorum_node import QuorumNode
from nodes.server.quorum.startup import open_quorum
from nodes.server.replicas.manager import ReplicaManager
from nodes.server.requests.describe_configs import DescribeConfigsHandler
from nodes.server.security import NodeSecurity
from nodes.storage.disk import Disk
from nodes.wire.client import Channel
from nodes.wire.connections import Connections
from nodes.wire.server import Api, Dispatcher, Listener

if TYPE_CHECKING:  # only brokers with ZooKeeper load it, and only they need kazoo
    from nodes.server.zookeeper.client import MakeZooKeeper, ZooKeeper
    from nodes.server.zookeeper.control_plane import ZooKeeperControlPlane

log = logging.getLogger("nodes")

FAILURE_CHECK_S = 0.5
LISTEN_BACKLOG = 1024


MakePlane = Callable[[UUID, ReplicaManager], ControlPlane]
"""Makes the control plane of a broker, for its incarnation id and its replicas."""


class StartError(Exception):
    """The node cannot start; the message says why and what to do."""


class Node:
    """See the module. Call `start`, then `stop`; a crash is a node without `stop`."""

    def __init__(
        self,
        config: NodeConfig,
        disk: Disk,
        *,
        rng: random.Random,
        wall_clock_ms: Callable[[], int],
        make_zookeeper: "MakeZooKeeper | None" = None,
    ) -> None:
        """`make_zookeeper` makes the client of ZooKeeper; the default is a real one."""
        self.config = config
        self._disk = disk
        self._rng = rng
        self._wall_clock_ms = wall_clock_ms
        self._servers: list[asyncio.Server] = []
        self._broker_servers: list[asyncio.Server] = []
        """The servers of the broker's listeners, which start to serve later than the others."""
        self._connections = Connections(config.connection_limits)
        self._security = NodeSecurity(config)
        self._tasks: list[asyncio.Task[None]] = []
        self._failed_job = ""
        self._publisher = MetadataPublisher()
        self._now_ms: Callable[[], float]
        self._make_zookeeper = make_zookeeper or self._real_zookeeper
        self._zookeeper: ZooKeeperControlPlane | None = None
        self.raft: QuorumNode | None = None
        self.controller: QuorumController | None = None
        self._recovery: UncleanRecoveryManager | None = None
        self.broker: Broker | None = None

    async def start(self) -> None:
        """Open the logs (and recover them after a crash), join the quorum, serve requests.

        Raises StartError, LogCorrupt, RaftError, OSError.
        """
        self._now_ms = _clock_ms(asyncio.get_running_loop())
        directory_id = _claim_directory(self._disk, self.config, self._rng)
        clean_epoch = CleanShutdown(self._disk).take()
        clean = clean_epoch is not None
        make_plane = (
            self._open_quorum(directory_id, clean=clean)
            if self.config.zookeeper is None
            else self._zookeeper_plane
        )
        if self.config.is_broker:
            incarnation_id = UUID(int=self._rng.getrandbits(128), version=4)
            self.broker = Broker(
                self.config,
                self._disk,
                partial(make_plane, incarnation_id),
                now_ms=self._now_ms,
                wall_clock_ms=self._wall_clock_ms,
                incarnation_id=incarnation_id,
                connect_broker=self._connect_broker,
                previous_epoch=None if clean_epoch is None else BrokerEpoch(clean_epoch),
                response_budget=self._connections.response_budget,
            )
            self._publisher.subscribe(self._on_metadata_update)
        if self._zookeeper is not None:
            await self._open_zookeeper(self._zookeeper)
        for endpoint in self.config.listeners:
            await self._listen(endpoint)
        if self.raft is not None:
            await self.raft.start()
        if self.controller is not None:
            self.controller.start()
        if self._recovery is not None:
            self._spawn(self._recovery.run())
        if self.broker is not None:
            await self.broker.recover()
            for job in self.broker.jobs():
                self._spawn(job)
            self._spawn(self._serve_clients_later(self.broker))
        log.info("node %d is at %s", self.config.node_id, _names(self.config.listeners))

    def _open_quorum(self, directory_id: UUID, *, clean: bool) -> MakePlane:
        """Open the metadata log and make the roles of the quorum."""
        self.raft = raft = open_quorum(
            self.config,
            self._disk,
            self._publisher,
            directory_id=directory_id,
            clean=clean,
            rng=self._rng,
            wall_clock=self._wall_clock_ms,
            connect=self._connect,
        )
        if self.config.is_controller:
            self.controller = self._make_controller(raft)
            self._recovery = UncleanRecoveryManager(
                self.controller, self._connect_broker, self.config.inter_broker_listener
            )
        return lambda incarnation_id, replicas: QuorumControlPlane(
            self.config,
            raft,
            replicas,
            self._disk,
            directory_id=directory_id,
            incarnation_id=incarnation_id,
            now_ms=self._now_ms,
            connect=self._connect,
        )

    def _real_zookeeper(self) -> "ZooKeeper":
        from nodes.server.zookeeper.kazoo_client import KazooZooKeeper

        assert self.config.zookeeper is not None
        return KazooZooKeeper(self.config.zookeeper)

    def _zookeeper_plane(self, incarnation_id: UUID, replicas: ReplicaManager) -> ControlPlane:
        from nodes.server.zookeeper.control_plane import ZooKeeperControlPlane

        plane = self._zookeeper = ZooKeeperControlPlane(
            self.config,
            self._control_settings(),
            self._make_zookeeper,
            replicas,
            connect_broker=self._connect_broker,
            wall_clock_ms=self._wall_clock_ms,
            rng=self._rng,
        )
        plane.follow(self._on_metadata_update)
        return plane

    async def _open_zookeeper(self, plane: "ZooKeeperControlPlane") -> None:
        try:
            await plane.open()
        except NoControlPlane as error:
            plane.close()
            raise StartError(str(error)) from error

    async def _serve_clients_later(self, broker: Broker) -> None:
        """Serve on the broker's listeners once this broker has caught up with the metadata.

        Before that, it would call existing topics unknown, and a client may believe that for half a
        minute. Kafka's brokers process no request before their initial catch-up either.
        """
        await broker.replicas.wait_until_active()
        for server in self._broker_servers:
            await server.start_serving()
        log.info("open to clients")

    def _on_metadata_update(self, image: ClusterImage, delta: Delta) -> None:
        assert self.broker is not None
        self.broker.on_metadata_update(image, delta)

    def _control_settings(self) -> ControlSettings:
        administration = self.config.administration
        return ControlSettings(
            session_timeout_ms=self.config.broker_session_timeout_ms,
            default_partitions=self.config.topic_defaults.partitions,
            default_replication_factor=self.config.topic_defaults.replication_factor,
            auto_leader_rebalance=administration.auto_leader_rebalance,
            leader_imbalance_check_interval_ms=administration.leader_imbalance_check_interval_ms,
            leader_imbalance_percentage=administration.leader_imbalance_percentage,
            delete_topics=administration.delete_topics,
            placement=administration.placement,
            eligible_leader_replicas=administration.eligible_leader_replicas,
            transaction_version=administration.transaction_version,
            group_version=administration.group_version,
            max_idle_interval_ms=administration.max_idle_interval_ms,
            static=self.config.static,
        )

    def _make_controller(self, raft: QuorumNode) -> QuorumController:
        settings = self._control_settings()
        controller = Controller(cluster_id=self.config.cluster_id, settings=settings, rng=self._rng)
        quorum_controller = QuorumController(controller, raft, self._publisher)
        raft.listeners.append(quorum_controller)
        return quorum_controller

    def _connect_broker(self, host: str, port: int) -> Channel:
        """A channel to another broker's inter-broker listener."""
        return self._connect(host, port, listener=self.config.inter_broker_listener)

    def _connect(self, host: str, port: int, *, listener: str = "") -> Channel:
        """A channel to another node's `listener`; the default is the controller listener."""
        return Channel(
            host,
            port,
            client_id=f"node-{self.config.node_id}",
            request_timeout_s=self.config.quorum.request_timeout_ms / 1000,
            security=self._security.client(listener or self.config.controller_listener),
        )

    async def _listen(self, endpoint: Endpoint) -> None:
        name = endpoint.listener
        listener = Listener(
            name=name,
            dispatcher=Dispatcher(self._apis(endpoint), self._features),
            connections=self._connections,
            max_frame_bytes=self.config.max_request_bytes,
            security=self._security.server(name),
            internal=name in (self.config.controller_listener, self.config.inter_broker_listener),
        )
        loop = asyncio.get_running_loop()
        try:
            server = await loop.create_server(
                listener.connection,
                endpoint.host,
                endpoint.port,
                backlog=LISTEN_BACKLOG,
                start_serving=self._serves_at_once(name),
            )
        except OSError as error:
            raise StartError(
                f"cannot listen on {endpoint.host}:{endpoint.port} ({endpoint.listener}): {error}"
            ) from error
        self._servers.append(server)
        if not self._serves_at_once(name):
            self._broker_servers.append(server)

    def _serves_at_once(self, listener: str) -> bool:
        """Whether a listener serves before the broker knows the cluster.

        A controller with ZooKeeper tells a broker about the cluster on its inter-broker listener.
        """
        return listener == self.config.controller_listener or self.config.zookeeper is not None

    def _apis(self, endpoint: Endpoint) -> dict[int, Api]:
        if endpoint.listener != self.config.controller_listener:
            assert self.broker is not None
            return self.broker.apis()
        assert self.raft is not None
        apis = self.raft.apis()
        if self.controller is None or self._recovery is None:
            return apis
        configs = DescribeConfigsHandler(self.config, lambda: self._publisher.image)
        queries = ControllerQueryHandler(self.raft, configs).apis()
        return {**apis, **queries, **controller_apis(self.controller, self._recovery)}

    def _features(self, version: int) -> dict[str, Any]:
        if self.raft is None:
            assert self.broker is not None
            return features.feature_fields(version, self.broker.replicas.image, 0)
        kraft_version = 0 if self.raft.log.voters.is_static else 1
        return features.feature_fields(version, self._publisher.image, kraft_version)

    def _spawn(self, job: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(job)
        task.add_done_callback(self._job_ended)
        self._tasks.append(task)

    def _job_ended(self, task: asyncio.Task[None]) -> None:
        """Note a job that failed: a job runs for ever, and nothing else would notice its end."""
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a job failed", exc_info=error)
            self._failed_job = f"a job failed: {error!r}"

    async def stop(self) -> None:
        """Stop cleanly: move leaderships away, resign, flush, write the clean-shutdown file."""
        if self.broker is not None:
            moved = await self.broker.controlled_shutdown(
                self.config.controlled_shutdown_max_wait_ms
            )
            log.info("leaderships moved away" if moved else "stopping with leaderships")
        for server in self._servers:
            server.close()
        for task in self._tasks:
            task.cancel()
        if self.controller is not None:
            await self.controller.stop()
        if self._recovery is not None:
            self._recovery.close()
        clean = not self.failure()
        if self.raft is not None:
            clean = await self.raft.stop() and clean
        self._connections.close()
        broker_epoch = -1
        if self.broker is not None:
            clean = self.broker.close() and clean
            broker_epoch = self.broker.broker_epoch
        if clean:
            CleanShutdown(self._disk).write(broker_epoch)
        log.info("stopped cleanly" if clean else "stopped after a failure, not cleanly")

    def failure(self) -> str:
        """Why this node must stop: a failed log, job or quorum member; empty if it need not.

        A node has one log directory; if that fails, it has nothing left to serve.
        """
        if self.raft is not None and self.raft.halted is not None:
            return f"the quorum member halted: {self.raft.halted}"
        failed_log = self.broker.replicas.failed_log() if self.broker is not None else ""
        return failed_log or self._failed_job

    async def failed(self) -> str:
        """Wait for a failure; return its reason."""
        while True:
            failure = self.failure()
            if failure:
                return failure
            await asyncio.sleep(FAILURE_CHECK_S)


def _clock_ms(loop: asyncio.AbstractEventLoop) -> Callable[[], float]:
    """The monotonic time of `loop`, in milliseconds.

    It is asked many times for each message, and a lookup of the running loop is a system call.
    """
    return lambda: loop.time() * 1000


def _names(endpoints: tuple[Endpoint, ...]) -> str:
    return ", ".join(f"{e.listener}://{e.host}:{e.port}" for e in endpoints)


def _claim_directory(disk: Disk, config: NodeConfig, rng: random.Random) -> UUID:
    """Check or write the log directory's meta.properties; return the directory id.

    Raises StartError if the directory belongs to another node.
    """
    found = MetaProperties.read(disk)
    mine = MetaProperties(cluster_id=config.cluster_id, node_id=config.node_id)
    if found is not None and (found.cluster_id, found.node_id) != (mine.cluster_id, mine.node_id):
        raise StartError(
            f"{config.log_dir} belongs to node {found.node_id} of cluster {found.cluster_id}, not "
            f"to node {mine.node_id} of cluster {mine.cluster_id}: set log.dirs to this node's own"
        )
    known = None if found is None or not found.directory_id else directory_of(found.directory_id)
    if known is not None:
        return known
    fresh = UUID(int=rng.getrandbits(128), version=4)
    replace(mine, directory_id=directory_text(fresh)).write(disk)
    return fresh
