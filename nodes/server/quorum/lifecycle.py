"""The broker's lifecycle at the controller: registration, heartbeats, controlled shutdown.

A heartbeat means that the whole broker works, its disk included. While an fsync has been hanging
for half a session timeout, no heartbeat is sent. So a broker with a stalled disk loses its
leaderships instead of keeping its partitions unavailable (KAFKA-8733).

A registration names the broker epoch of the last run, if that run stopped cleanly. A broker without
it may have lost records that it had acknowledged, and leaves every ISR (KIP-966).
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any
from uuid import UUID

from kio.schema.api_versions.v0.request import ApiVersionsRequest
from kio.schema.broker_heartbeat.v1.request import BrokerHeartbeatRequest
from kio.schema.broker_registration.v4.request import BrokerRegistrationRequest
from kio.schema.errors import ErrorCode

from nodes.config import NodeConfig
from nodes.ids import BrokerEpoch
from nodes.server.control_plane import ControllerClient
from nodes.server.replicas.manager import ReplicaManager
from nodes.storage.disk import Disk
from nodes.wire.client import Channel
from nodes.wire.errors import ChannelError
from nodes.wire.versions import fill

log = logging.getLogger("nodes.lifecycle")

NO_EPOCH = BrokerEpoch(-1)

TRANSITION_HEARTBEAT_MS = 50
"""The heartbeat interval while the broker is fenced or shuts down, to make this short."""
PROBE_INTERVAL_MS = 100
PROBE_TIMEOUT_MS = 300


class BrokerLifecycle:
    """One per broker; `run` is its task."""

    def __init__(
        self,
        config: NodeConfig,
        replicas: ReplicaManager,
        controller: ControllerClient,
        disk: Disk,
        directory_id: UUID,
        incarnation_id: UUID,
        now_ms: Callable[[], float],
        connect: Callable[[str, int], Channel],
    ) -> None:
        self._config = config
        self._replicas = replicas
        self._controller = controller
        self._disk = disk
        self._directory_id = directory_id
        self._incarnation_id = incarnation_id
        self._now_ms = now_ms
        self._connect = connect
        self._stopping = False
        self._heartbeat_now = asyncio.Event()
        self._may_stop = asyncio.Event()
        self._last_failure = ""
        self.previous_broker_epoch = NO_EPOCH
        """The broker epoch of the last run, if that closed all its logs; set before `run`."""
        self.broker_epoch = NO_EPOCH
        self.fenced = True

    async def run(self) -> None:
        """Register, then send heartbeats for ever; register again when the epoch is stale."""
        while True:
            if self.broker_epoch < 0:
                await self._register()
            elif self._disk_hangs():
                log.warning("an fsync hangs: no heartbeat until it returns")
            else:
                await self._send_heartbeat()
            await self._pause()

    async def _pause(self) -> None:
        """Wait until the next heartbeat is due; a stop ends the wait."""
        pause_ms = self._config.broker_heartbeat_interval_ms
        if self._stopping or (self.fenced and self.broker_epoch >= 0):
            pause_ms = min(TRANSITION_HEARTBEAT_MS, pause_ms)
        timer = asyncio.get_running_loop().call_later(pause_ms / 1000, self._heartbeat_now.set)
        await self._heartbeat_now.wait()
        self._heartbeat_now.clear()
        timer.cancel()

    def metadata_advanced(self) -> None:
        """The image advanced: activate the replicas once it holds this broker's registration."""
        if 0 <= self.broker_epoch <= self._replicas.image.offset:
            self._replicas.activate()

    async def stop(self, timeout_ms: float) -> bool:
        """Ask for a controlled shutdown; true if the controller moved every leadership away.

        It gives up after `timeout_ms`, or as soon as so many voters have stopped that the others
        are no majority (as when a whole cluster stops): then no controller can allow it.
        """
        self._stopping = True
        self._heartbeat_now.set()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while not self._may_stop.is_set():
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(PROBE_INTERVAL_MS / 1000):
                            await self._may_stop.wait()
                    if not self._may_stop.is_set() and await self._majority_has_stopped():
                        return False
        except TimeoutError:
            return False
        return True

    async def _majority_has_stopped(self) -> bool:
        """Whether so many voters refuse connections that the others are no majority."""
        voters = self._config.voters
        others = [address for node, address in voters.items() if node != self._config.node_id]
        stopped = sum(await asyncio.gather(*(self._refuses(*address) for address in others)))
        return len(voters) - stopped <= len(voters) // 2

    async def _refuses(self, host: str, port: int) -> bool:
        channel = self._connect(host, port)
        try:
            await channel.request(fill(ApiVersionsRequest), timeout_s=PROBE_TIMEOUT_MS / 1000)
        except ChannelError as error:
            return isinstance(error.__cause__, ConnectionRefusedError)
        finally:
            channel.close()
        return False

    def _disk_hangs(self) -> bool:
        limit = self._config.broker_session_timeout_ms / 2
        return self._disk.oldest_sync_age_ms(self._now_ms()) > limit

    async def _send(self, request: Any) -> Any | None:
        timeout_s = self._config.broker_session_timeout_ms / 2000
        try:
            response = await self._controller.request(request, timeout_s=timeout_s)
        except ChannelError as error:
            if str(error) != self._last_failure:
                log.info("the controller did not respond: %s", error)
            self._last_failure = str(error)
            return None
        self._last_failure = ""
        return response

    async def _register(self) -> None:
        listeners = [
            {
                "name": endpoint.listener,
                "host": endpoint.host,
                "port": endpoint.port,
                "security_protocol": self._config.protocols[endpoint.listener],
            }
            for endpoint in self._config.advertised
            if endpoint.listener != self._config.controller_listener
        ]
        response = await self._send(
            fill(
                BrokerRegistrationRequest,
                broker_id=self._config.node_id,
                cluster_id=self._config.cluster_id,
                incarnation_id=self._incarnation_id,
                listeners=listeners,
                rack=self._config.rack,
                log_dirs=(self._directory_id,),
                previous_broker_epoch=self.previous_broker_epoch,
            )
        )
        if response is None:
            return
        if response.error_code is not ErrorCode.none:
            log.info("registration refused: %s", response.error_code.name)
            return
        self.broker_epoch = BrokerEpoch(response.broker_epoch)
        log.info("registered with broker epoch %d", self.broker_epoch)
        self.metadata_advanced()

    async def _send_heartbeat(self) -> None:
        response = await self._send(
            fill(
                BrokerHeartbeatRequest,
                broker_id=self._config.node_id,
                broker_epoch=self.broker_epoch,
                current_metadata_offset=self._replicas.applied_offset,
                want_fence=not self._replicas.active,
                want_shut_down=self._stopping,
            )
        )
        if response is None:
            return
        if response.error_code is ErrorCode.stale_broker_epoch:
            log.info("broker epoch %d is stale: registering again", self.broker_epoch)
            self.broker_epoch = NO_EPOCH
        elif response.error_code is ErrorCode.none:
            if response.is_fenced != self.fenced:
                log.info("fenced" if response.is_fenced else "in service")
            self.fenced = response.is_fenced
            if response.should_shut_down:
                self._may_stop.set()
