"""ZooKeeper as the control plane of a broker; see `nodes.server.control_plane`.

Each session begins in the same way: read the configurations, register, take part in the election
of the controller. When it expires, the broker is no controller any more, and registers again in the
next session with a new epoch. Until then it keeps its roles, as in Kafka: other brokers do not
fetch from it any more, so nothing that it appends is committed.

The controller is a broker. It sends the roles and the metadata to all (`controller_requests`).
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any, Final

from kio.schema.errors import ErrorCode

from nodes.config import NodeConfig
from nodes.controller.settings import ControlSettings
from nodes.ids import BrokerEpoch, NodeId
from nodes.metadata.image import ClusterImage, Delta
from nodes.metadata.records import BrokerEndpoint
from nodes.server.control_plane import NoControlPlane
from nodes.server.controller_link import until_accepted
from nodes.server.coordinators.brokers import BrokerLink
from nodes.server.replicas.manager import ReplicaManager
from nodes.server.zookeeper.broker_channels import BrokerChannels
from nodes.server.zookeeper.client import RETRY_S, MakeZooKeeper, SessionState, again, ensure
from nodes.server.zookeeper.configs import ConfigFollower
from nodes.server.zookeeper.controller import ZooKeeperController
from nodes.server.zookeeper.controller_requests import ControllerRequests
from nodes.server.zookeeper.election import Election
from nodes.server.zookeeper.leader_writes import LeaderWrites
from nodes.server.zookeeper.registration import register
from nodes.server.zookeeper.serving import served
from nodes.wire.client import Channel
from nodes.wire.controller_requests import ControlledShutdownRequest
from nodes.wire.errors import ChannelError, ConnectFailed
from nodes.wire.server import Api
from nodes.zookeeper import paths, znodes
from nodes.zookeeper.operations import SessionExpired, ZooKeeperError

log = logging.getLogger("nodes.zookeeper")

ALTER_PARTITION: Final = 56
ALLOCATE_PRODUCER_IDS: Final = 67
SHUTDOWN_ATTEMPTS: Final = 3
"""As Kafka's controlled.shutdown.max.retries."""
SHUTDOWN_PAUSE_S: Final = 0.2
NO_EPOCH = BrokerEpoch(-1)
HINT: Final = (
    "The broker's control plane is ZooKeeper (zookeeper.connect): start ZooKeeper first, or "
    "correct the address"
)


class ZooKeeperControlPlane:
    """A ControlPlane. `open` connects; the broker's jobs do the rest.

    `connect_broker` makes a channel to a broker's inter-broker listener.
    """

    def __init__(
        self,
        config: NodeConfig,
        control: ControlSettings,
        make_zookeeper: MakeZooKeeper,
        replicas: ReplicaManager,
        *,
        connect_broker: Callable[[str, int], Channel],
        wall_clock_ms: Callable[[], int],
        rng: random.Random,
    ) -> None:
        assert config.zookeeper is not None
        self._config = config
        self._settings = config.zookeeper
        self._control = control
        self._connect_broker = connect_broker
        self._wall_clock_ms = wall_clock_ms
        self._rng = rng
        self._zookeeper = zookeeper = make_zookeeper()
        self._brokers = BrokerLink(
            lambda: replicas.image, config.inter_broker_listener, connect_broker
        )
        self._requests = ControllerRequests(
            replicas, control, lambda: self.broker_epoch, self._learn_configs
        )
        self._writes = LeaderWrites(
            config.node_id,
            zookeeper,
            lambda: replicas.image,
            lambda: self._requests.controller_epoch,
        )
        self._configs = ConfigFollower(zookeeper, self._configs_changed)
        self._election = Election(config.node_id, zookeeper, wall_clock_ms, self._make_term)
        self._replicas = replicas
        self._session: asyncio.Task[None] | None = None
        self._state_changed = asyncio.Event()
        self._expired = False
        self._closed = False
        self.broker_epoch = NO_EPOCH
        """The registration's epoch; -1 before the first one."""
        self.term: ZooKeeperController | None = None
        """Set while this broker is the controller."""

    def follow(self, on_update: Callable[[ClusterImage, Delta], None]) -> None:
        """Pass images of the cluster to `on_update` from now on."""
        self._requests.on_update = on_update

    async def open(self) -> None:
        """Connect, and find or make the cluster.

        Raises NoControlPlane if there is no ZooKeeper in time, or if it has another cluster.
        """
        try:
            found = await self._connected_cluster_id()
        except (OSError, ZooKeeperError) as error:
            raise NoControlPlane(f"{error}. {HINT}") from error
        if found != self._config.cluster_id:
            raise NoControlPlane(
                f"ZooKeeper has the cluster {found}, this broker is of {self._config.cluster_id}: "
                f"set cluster.id, or another zookeeper.connect. {HINT}"
            )

    async def _connected_cluster_id(self) -> str:
        """Connect; return the id of the cluster in ZooKeeper, this broker's if there was none."""
        await self._zookeeper.connect(self._settings.connection_timeout_ms, self._on_state)
        while True:
            try:
                return await self._cluster_id()
            except SessionExpired:  # the client begins another session by itself
                await asyncio.sleep(RETRY_S)

    async def _cluster_id(self) -> str:
        for path in paths.PERSISTENT:
            await ensure(self._zookeeper, path)
        await ensure(self._zookeeper, paths.CLUSTER_ID, znodes.cluster_id(self._config.cluster_id))
        data, _ = await again(lambda: self._zookeeper.get(paths.CLUSTER_ID))
        return znodes.read_cluster_id(data)

    # -- sessions ------------------------------------------------------------------------------

    def _on_state(self, state: SessionState) -> None:
        if self._closed:
            return
        if state is SessionState.EXPIRED:
            log.warning("the session with ZooKeeper has expired")
            self._expired = True
            self._election.resign()
        elif state is SessionState.SUSPENDED:
            log.info("no connection to ZooKeeper")
        self._state_changed.set()

    def jobs(self) -> Iterator[Coroutine[Any, Any, None]]:
        """One session after another."""
        yield self._sessions()

    async def _sessions(self) -> None:
        while True:
            self._expired = False
            session = asyncio.get_running_loop().create_task(self._one_session())
            while not self._expired and not session.done():
                changed = asyncio.ensure_future(self._state_changed.wait())
                await asyncio.wait((session, changed), return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
                self._state_changed.clear()
            session.cancel()
            with contextlib.suppress(asyncio.CancelledError, SessionExpired):
                await session
            self._election.resign()
            await asyncio.sleep(SHUTDOWN_PAUSE_S)

    async def _one_session(self) -> None:
        await self._configs.load()
        epoch = await register(self._zookeeper, self._config.node_id, self._znode())
        self.broker_epoch = epoch
        log.info("registered with broker epoch %d", epoch)
        following = asyncio.get_running_loop().create_task(self._configs.follow())
        try:
            await self._election.run()
        finally:
            following.cancel()

    def _znode(self) -> bytes:
        endpoints = tuple(
            BrokerEndpoint(
                name=endpoint.listener,
                host=endpoint.host,
                port=endpoint.port,
                security_protocol=self._config.protocols[endpoint.listener].value,
            )
            for endpoint in self._config.advertised
        )
        znode = znodes.BrokerZnode(endpoints=endpoints, rack=self._config.rack)
        return znodes.broker(znode, self._wall_clock_ms())

    def _make_term(self, epoch: int, epoch_version: int) -> "_Term":
        term = ZooKeeperController(
            self._config.node_id,
            self._zookeeper,
            BrokerChannels(self._connect_broker, self._config.inter_broker_listener),
            self._control,
            epoch=epoch,
            epoch_version=epoch_version,
            batched=self._settings.batched,
            configs=self._configs.records,
            rng=self._rng,
            on_deposed=self._election.deposed,
        )
        self.term = term
        return _Term(self, term)

    # -- configurations ------------------------------------------------------------------------

    async def _learn_configs(self, topics: list[str]) -> None:
        await self._configs.topics(topics)

    def _configs_changed(self, records: Any) -> None:
        self._requests.publish(records)
        if self.term is not None:
            self.term.configs_changed(records)

    # -- the control plane of the broker -------------------------------------------------------

    @property
    def controller_id(self) -> NodeId | None:
        """The node that /controller names."""
        return self._election.controller_id

    async def request(self, entity: Any, *, timeout_s: float | None = None) -> Any:
        """Write an ISR change or take producer ids; send others to the controller, once.

        Raises ChannelError.
        """
        if entity.__api_key__ == ALTER_PARTITION:
            return await self._writes.alter_partition(entity)
        if entity.__api_key__ == ALLOCATE_PRODUCER_IDS:
            return await self._writes.allocate_producer_ids(entity)
        if self.controller_id is None:
            raise ConnectFailed("the active controller is not known")
        return await self._brokers.request(self.controller_id, entity, timeout_s=timeout_s)

    async def forward(self, entity: Any, *, timeout_s: float) -> Any | None:
        """Send a request until a controller accepts it; see `until_accepted`."""
        try:
            async with asyncio.timeout(timeout_s):
                return await until_accepted(self.request, entity, timeout_s=timeout_s)
        except TimeoutError:
            return None

    def served(self, apis: Mapping[int, Api]) -> dict[int, Api]:
        """The broker's apis, those of the controller, and those that the controller asks."""
        return served(
            apis,
            self._requests.apis(),
            lambda: self.term,
            self._replicas,
            self._config.inter_broker_listener,
        )

    def recovered(self, previous_epoch: BrokerEpoch | None) -> None:
        """Nothing to do: a registration in ZooKeeper does not say how the last run ended."""

    def metadata_advanced(self) -> None:
        """Nothing to do: the controller says when this broker knows all of its partitions."""

    async def leave(self, timeout_ms: float) -> bool:
        """Controlled shutdown: true if every leadership was moved to another broker."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_ms / 1000):
                attempts = 0
                while attempts < SHUTDOWN_ATTEMPTS:
                    request = ControlledShutdownRequest(
                        broker_id=self._config.node_id, broker_epoch=self.broker_epoch
                    )
                    with contextlib.suppress(ChannelError):
                        response = await self.request(request, timeout_s=timeout_ms / 1000)
                        if response.error_code is not ErrorCode.not_controller:
                            attempts += 1
                        if response.error_code is ErrorCode.none:
                            if not response.remaining_partitions:
                                return True
                            log.info("%d partitions left", len(response.remaining_partitions))
                    await asyncio.sleep(SHUTDOWN_PAUSE_S)
        return False

    def close(self) -> None:
        """End the term and the session."""
        self._closed = True
        self._election.resign()
        self._brokers.close()
        self._zookeeper.close()


class _Term:
    """A term of the plane's controller, as the election starts and ends it."""

    def __init__(self, plane: ZooKeeperControlPlane, controller: ZooKeeperController) -> None:
        self._plane = plane
        self._controller = controller
        self.epoch = controller.epoch

    def start(self) -> None:
        self._controller.start()

    def close(self) -> None:
        self._plane.term = None
        self._controller.close()
