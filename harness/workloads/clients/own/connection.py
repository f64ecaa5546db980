"""A connection to one broker that is ready before a request is sent.

`nodes.wire.client.Channel` connects with the first request. A producer must know the connection
before, because requests that wait for it together could be sent in another order. This connection
is opened, agrees on versions (ApiVersions), and then sends requests at once and in order. A broken
connection is not opened again; the caller makes a new one.
"""

import asyncio
from functools import cache, partial
from typing import Any, Final

from kio.index import load_request_schema
from kio.schema.api_versions.v0.request import ApiVersionsRequest
from kio.schema.index import api_key_map, schema_name_map

from harness.workloads.clients.own.answer_codes import OnAnswer
from nodes.wire.client import Channel
from nodes.wire.codec import request_pieces
from nodes.wire.errors import ConnectFailed
from nodes.wire.prompt import when_completed
from nodes.wire.security import ClientSecurity
from nodes.wire.versions import Draft

Address = tuple[str, int]

NEWEST: Final = {
    "api_versions": 3,
    "produce": 12,
    "fetch": 12,
    "list_offsets": 7,
    "metadata": 12,
    "init_producer_id": 4,
    "offset_for_leader_epoch": 4,
    "find_coordinator": 3,
    "join_group": 5,
    "sync_group": 3,
    "heartbeat": 3,
    "leave_group": 3,
    "offset_commit": 9,
    "offset_fetch": 7,
    "consumer_group_heartbeat": 0,
    "add_partitions_to_txn": 3,
    "add_offsets_to_txn": 3,
    "txn_offset_commit": 5,
    "end_txn": 5,
    "describe_producers": 0,
    "write_txn_markers": 2,
    "offset_delete": 0,
    "delete_groups": 2,
}
"""The newest version of each request that this client uses: topics by name, not by id."""

_KEYS: Final = {name: key for key, name in api_key_map.items() if name in NEWEST}


class BrokerConnection(Channel):
    """A connection that is opened before it is used."""

    def __init__(
        self,
        address: Address,
        *,
        client_id: str,
        timeout_s: float,
        security: ClientSecurity,
        on_answer: OnAnswer | None = None,
    ) -> None:
        super().__init__(
            *address, client_id=client_id, request_timeout_s=timeout_s, security=security
        )
        self._ranges: dict[int, tuple[int, int]] = {}
        self._on_answer = on_answer

    async def open(self, timeout_s: float) -> None:
        """Connect and learn the broker's versions. After a ChannelError, close it."""
        # Version 0: the only one that every broker of every age understands.
        answer = await self.request(ApiVersionsRequest(), timeout_s=timeout_s)
        self._ranges = {int(a.api_key): (a.min_version, a.max_version) for a in answer.api_keys}
        if not self.ready:
            raise ConnectFailed(f"{self.peer} does not say which versions it supports")

    @property
    def ready(self) -> bool:
        """Whether it is open."""
        connected = self._connection is not None and self._connection.transport is not None
        return connected and bool(self._ranges)

    @property
    def buffered_bytes(self) -> int:
        """How many bytes the kernel has not accepted yet."""
        if self._connection is None or self._connection.transport is None:
            return 0
        return self._connection.transport.get_write_buffer_size()

    def start(
        self, api: str, *, timeout_s: float | None = None, newest: int | None = None, **values: Any
    ) -> Any:
        """Send a request now; return a future of its answer, which may have error codes.

        `api` is kio's name, and `values` are the fields (see `nodes.wire.versions.fill`). `newest`
        is the newest version to use, if it is older than in NEWEST. Raises ConnectFailed; the
        future may raise Disconnected and RequestTimedOut.
        """
        if not self.ready:
            raise ConnectFailed(f"there is no connection to {self.peer}")
        assert self._connection is not None
        limit = self.request_timeout_s if timeout_s is None else timeout_s
        answer = self._send(self._connection, self._draft(api, values, newest), limit)
        if self._on_answer is not None:
            when_completed(answer, partial(self._completed, api))
        return answer

    def _completed(self, api: str, answer: "asyncio.Future[Any]") -> None:
        # Not `exception()`: then nobody would report an error that nobody else looks at.
        if self._on_answer is not None and answer._exception is None:
            self._on_answer(self.peer, api, answer.result())

    def post(self, api: str, **values: Any) -> None:
        """Send a request that gets no answer. Raises ConnectFailed."""
        if not self.ready:
            raise ConnectFailed(f"there is no connection to {self.peer}")
        assert self._connection is not None
        self._next_id = (self._next_id + 1) & 0x7FFFFFFF
        pieces = request_pieces(self._draft(api, values), self._next_id, self.client_id)
        self._connection.send(pieces)

    def _draft(self, api: str, values: dict[str, Any], newest: int | None = None) -> Draft:
        key = _KEYS[api]
        low, high = self._ranges.get(key, (0, -1))
        version = _version(api, low, high if newest is None else min(high, newest))
        if version is None:
            raise ConnectFailed(f"{self.peer} supports {api} only in versions {low} to {high}")
        return Draft(_schema(key, version), values)


@cache
def _version(api: str, low: int, high: int) -> int | None:
    """Return the newest version that both sides support."""
    both = (v for v in schema_name_map[api] if low <= v <= min(high, NEWEST[api]))
    return max(both, default=None)


@cache
def _schema(api_key: int, version: int) -> type[Any]:
    return load_request_schema(api_key, version)


async def open_connection(
    address: Address,
    *,
    client_id: str,
    timeout_s: float,
    open_s: float,
    security: ClientSecurity,
    on_answer: OnAnswer | None = None,
) -> BrokerConnection:
    """Return a connection that is ready. `on_answer` gets each answer. Raises ChannelError."""
    connection = BrokerConnection(
        address,
        client_id=client_id,
        timeout_s=timeout_s,
        security=security,
        on_answer=on_answer,
    )
    try:
        await connection.open(open_s)
    except (Exception, asyncio.CancelledError):
        connection.close()
        raise
    return connection
