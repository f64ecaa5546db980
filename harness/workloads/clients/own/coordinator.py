"""The coordinator of one group or transactional id: finds it, asks it, and finds it again."""

import asyncio
import contextlib
from typing import Any, Final

from kio.schema.errors import ErrorCode

from harness.workloads.clients.own.cluster import Cluster
from nodes.wire.errors import ChannelError

GROUP: Final = 0
TRANSACTION: Final = 1
"""The key types of FindCoordinator."""

MOVED: Final = frozenset({ErrorCode.not_coordinator, ErrorCode.coordinator_not_available})
LATER: Final = frozenset({ErrorCode.coordinator_load_in_progress, ErrorCode.request_timed_out})


class Unavailable(Exception):
    """The coordinator gave no answer; ask again later. What was asked may have been done."""


class Coordinator:
    """Requests to the coordinator of `key`; `kind` is GROUP or TRANSACTION."""

    def __init__(self, cluster: Cluster, key: str, kind: int) -> None:
        self._cluster = cluster
        self._key = key
        self._kind = kind
        self._node: int | None = None
        self._asked = cluster.rng.getrandbits(16)

    async def ask(
        self, api: str, *, timeout_s: float | None = None, newest: int | None = None, **values: Any
    ) -> Any:
        """Send a request (see `BrokerConnection.start`) and return its answer. Raises
        Unavailable.
        """
        if self._node is None:
            self._node = await self._find()
        connection = self._cluster.connection(self._node)
        if connection is None:
            self._node = None
            raise Unavailable("NO_CONNECTION")
        try:
            return await connection.start(api, timeout_s=timeout_s, newest=newest, **values)
        except ChannelError as error:
            self._node = None
            raise Unavailable(type(error).__name__) from error

    def check(self, code: ErrorCode) -> ErrorCode:
        """Return the error code of an answer; raise Unavailable if another broker, or the same one
        later, has to be asked.
        """
        if code in MOVED:
            self._node = None
        if code in MOVED or code in LATER:
            raise Unavailable(code.name.upper())
        return code

    async def pause(self, failures: int) -> None:
        """Wait before the next attempt after `failures` failures in a row, at least one."""
        await asyncio.sleep(self._cluster.timing.retry.pause_s(failures, self._cluster.rng))

    async def _find(self) -> int:
        nodes = self._cluster.nodes
        if not nodes:
            raise Unavailable("NO_BROKERS")
        self._asked += 1
        return await self._named_by(nodes[self._asked % len(nodes)])

    async def is_agreed_on(self) -> bool:
        """Whether more than half of the brokers answer, and all that answer name the coordinator
        that was asked last. One that was replaced may not know it: it names itself, and answers
        with what it knew.
        """
        answers = []
        for node in self._cluster.nodes:
            with contextlib.suppress(Unavailable):
                answers.append(await self._named_by(node))
        return 2 * len(answers) > len(self._cluster.nodes) and {*answers} == {self._node}

    async def _named_by(self, node: int) -> int:
        """Ask a broker for the coordinator. Raises Unavailable."""
        connection = self._cluster.connection(node)
        if connection is None:
            raise Unavailable("NO_CONNECTION")
        try:
            answer = await connection.start("find_coordinator", key=self._key, key_type=self._kind)
        except ChannelError as error:
            raise Unavailable(type(error).__name__) from error
        self.check(answer.error_code)
        if answer.error_code is not ErrorCode.none:
            raise Unavailable(answer.error_code.name.upper())
        return int(answer.node_id)
