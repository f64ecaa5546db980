"""Watches an ensemble during a run: its leader, the active controller, and the partitions' znodes.

Servers are asked by `srvr`, and znodes are read by one client, again and again. What is lost in
between is no loss: the history comes from the servers' logs after the run. All calls run in threads
that the watcher's own thread starts, so they are on its network.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.retry import KazooRetry

from harness.systems.ensemble import probe, znodes
from harness.systems.ensemble.probe import Address, ServerState
from harness.systems.ensemble.znodes import ZnodeError
from harness.systems.monitoring.cluster_view import PartitionView
from harness.systems.monitoring.quorum_times import QuorumTimes
from nodes.ids import TopicPartition

SESSION_S: Final = 6.0
READ_S: Final = 1.0
"""How long reads of znodes may take before nothing is known."""
RECONNECT_S: Final = 0.5

quiet = logging.getLogger("harness.systems.ensemble.client")
"""The log of ZooKeeper's client."""
quiet.setLevel(logging.CRITICAL)  # faults break connections all the time

Decided = Mapping[TopicPartition, PartitionView]


class EnsembleWatch:
    """The watching of one ensemble. `addresses` has its servers by node, `now_ns` the run's time.

    One event loop runs `work`; any thread may read the rest.
    """

    def __init__(self, addresses: Mapping[int, Address], now_ns: Callable[[], int]) -> None:
        self.nodes = tuple(sorted(addresses))
        self._addresses = dict(addresses)
        self._now_ns = now_ns
        self._states: dict[int, ServerState | None] = {}
        self._asked: frozenset[int] = frozenset()
        self._controller: int | None = None
        self._client: Any = None
        self._threads: ThreadPoolExecutor | None = None

    # -- what is known

    def answers(self, node: int) -> bool | None:
        """Return whether a server served clients when it was last asked."""
        return self._states.get(node) is not None if node in self._asked else None

    def leader(self) -> int | None:
        """Return the node whose server leads the ensemble, by the newest zxid."""
        leading = [
            (state.zxid, node)
            for node, state in list(self._states.items())
            if state is not None and state.leads
        ]
        return max(leading)[1] if leading else None

    def controller(self) -> int | None:
        """Return the broker that /controller names; None while there is none."""
        return self._controller

    def unsettled(self) -> list[str]:
        """Return the servers that serve nobody, in words."""
        return [
            f"ZooKeeper node {node} serves nobody"
            for node in self.nodes
            if self._states.get(node) is None
        ]

    # -- watching

    def work(
        self,
        times: QuorumTimes,
        partitions: Callable[[], Sequence[TopicPartition]],
        decided: Callable[[Decided], None],
    ) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        """Return what has to be done again and again.

        `times` learns how long the ensemble's log is, and what was read. `decided` gets the state
        of the partitions.
        """
        self._threads = ThreadPoolExecutor(len(self.nodes) + 1, thread_name_prefix="zookeeper")
        servers = [partial(self._ask, node, times) for node in self.nodes]
        return [*servers, partial(self._read, partitions, times, decided)]

    def close(self) -> None:
        """End the client and the threads."""
        if self._threads is not None:
            self._threads.shutdown(wait=True, cancel_futures=True)
        if self._client is not None:
            self._client.stop()
            self._client.close()

    async def _ask(self, node: int, times: QuorumTimes) -> None:
        asked_ns = self._now_ns()
        state = await self._in_thread(partial(probe.ask, self._addresses[node]))
        self._states[node] = state
        self._asked |= {node}
        if state is not None and state.leads:
            times.record(
                epoch=state.zxid >> 32,
                log_end=state.zxid + 1,
                high_watermark=state.zxid + 1,
                asked_ns=asked_ns,
                answered_ns=self._now_ns(),
            )

    async def _read(
        self,
        partitions: Callable[[], Sequence[TopicPartition]],
        times: QuorumTimes,
        decided: Callable[[Decided], None],
    ) -> None:
        found = await self._in_thread(partial(self._read_znodes, tuple(partitions()), times))
        decided(found)

    async def _in_thread(self, call: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    def _read_znodes(self, partitions: Sequence[TopicPartition], times: QuorumTimes) -> Decided:
        """Read /controller and the partitions' states; nothing of either while none answers."""
        try:
            client = self._connected()
            topics = sorted({each.topic for each in partitions})
            paths = [
                znodes.CONTROLLER,
                *map(znodes.topic_path, topics),
                *map(znodes.state_path, partitions),
            ]
            data = dict(zip(paths, self._get(client, paths, times), strict=True))
            controller = data.pop(znodes.CONTROLLER)
            self._controller = None if controller is None else znodes.read_controller(controller)
            return dict(_views(data))
        except (KazooException, KazooTimeoutError, ZnodeError):
            self._controller = None
            return {}

    def _connected(self) -> Any:
        """Return the client; it is made at the first call, so that its threads are on the network
        of the caller's thread."""
        if self._client is None:
            self._client = KazooClient(
                ",".join(f"{host}:{port}" for host, port in self._addresses.values()),
                timeout=SESSION_S,
                connection_retry=KazooRetry(max_tries=-1, delay=0.05, max_delay=RECONNECT_S),
                logger=quiet,
            )
            self._client.start_async()
        return self._client

    def _get(self, client: Any, paths: Sequence[str], times: QuorumTimes) -> Iterator[bytes | None]:
        for path, asked in [(path, client.get_async(path)) for path in paths]:
            try:
                data, stat = asked.get(timeout=READ_S)
            except NoNodeError:
                yield None
            else:
                times.read[stat.mzxid] = path
                yield bytes(data)


def _views(data: Mapping[str, bytes | None]) -> Iterator[tuple[TopicPartition, PartitionView]]:
    """Yield the partitions whose states are in the data of these paths. Raises ZnodeError."""
    for path, value in data.items():
        partition = znodes.partition_of(path)
        if partition is None or value is None:
            continue
        state = znodes.read_state(path, value)
        topic_path = znodes.topic_path(partition.topic)
        topic = data.get(topic_path)
        assigned = {} if topic is None else znodes.read_assignment(topic_path, topic)
        yield (
            partition,
            PartitionView(
                leader=state.leader,
                leader_epoch=state.leader_epoch,
                isr=state.isr,
                replicas=assigned.get(partition.partition, ()),
            ),
        )
