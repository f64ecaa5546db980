"""A connection to one broker that is ready before anything is sent on it.

`nodes.wire.client.Channel` connects when it is asked something; a producer has to know before,
since what waits for a connection together might leave in another order. A link is opened, agrees on
versions (ApiVersions), and then takes requests at once, in order, without awaiting anything. One
that broke is not opened again: whoever wants one makes another.
"""

import asyncio
from functools import cache
from typing import Any, Final

from kio.index import load_request_schema
from kio.schema.api_versions.v0.request import ApiVersionsRequest
from kio.schema.index import api_key_map, schema_name_map

from nodes.wire.client import Channel
from nodes.wire.codec import request_pieces
from nodes.wire.errors import ConnectFailed
from nodes.wire.security import ClientSecurity
from nodes.wire.versions import Draft

Address = tuple[str, int]

NEWEST: Final = {
    "produce": 12,
    "fetch": 12,
    "list_offsets": 7,
    "metadata": 12,
    "init_producer_id": 4,
    "offset_for_leader_epoch": 4,
}
"""The newest version of each request that we speak: topics by name, not by id."""

_KEYS: Final = {name: key for key, name in api_key_map.items() if name in NEWEST}


class Link(Channel):
    """See the module."""

    def __init__(
        self, address: Address, *, client_id: str, timeout_s: float, security: ClientSecurity
    ) -> None:
        super().__init__(
            *address, client_id=client_id, request_timeout_s=timeout_s, security=security
        )
        self._ranges: dict[int, tuple[int, int]] = {}

    async def open(self, timeout_s: float) -> None:
        """Connect and learn what the broker speaks. Raises ChannelError; then close it."""
        # Version 0: the only one that every broker of every age understands.
        answer = await self.request(ApiVersionsRequest(), timeout_s=timeout_s)
        self._ranges = {int(a.api_key): (a.min_version, a.max_version) for a in answer.api_keys}
        if not self.ready:
            raise ConnectFailed(f"{self.peer} does not say which versions it speaks")

    @property
    def ready(self) -> bool:
        """Whether it was opened and has not broken."""
        connected = self._connection is not None and self._connection.transport is not None
        return connected and bool(self._ranges)

    @property
    def buffered_bytes(self) -> int:
        """What was sent and the kernel has not taken yet."""
        if self._connection is None or self._connection.transport is None:
            return 0
        return self._connection.transport.get_write_buffer_size()

    def start(self, api: str, *, timeout_s: float | None = None, **values: Any) -> Any:
        """Send a request now; a future of its answer, whatever error codes that holds.

        `api` is kio's name, `values` the fields (see `nodes.wire.versions.fill`). Raises
        ConnectFailed, as the future may Disconnected and RequestTimedOut.
        """
        if not self.ready:
            raise ConnectFailed(f"there is no connection to {self.peer}")
        assert self._connection is not None
        limit = self.request_timeout_s if timeout_s is None else timeout_s
        return self._send(self._connection, self._draft(api, values), limit)

    def post(self, api: str, **values: Any) -> None:
        """Send a request that gets no answer. Raises ConnectFailed."""
        if not self.ready:
            raise ConnectFailed(f"there is no connection to {self.peer}")
        assert self._connection is not None
        self._next_id = (self._next_id + 1) & 0x7FFFFFFF
        pieces = request_pieces(self._draft(api, values), self._next_id, self.client_id)
        self._connection.send(pieces)

    def _draft(self, api: str, values: dict[str, Any]) -> Draft:
        key = _KEYS[api]
        low, high = self._ranges.get(key, (0, -1))
        version = _version(api, low, high)
        if version is None:
            raise ConnectFailed(f"{self.peer} serves {api} in no version of ours: {low} to {high}")
        return Draft(_schema(key, version), values)


@cache
def _version(api: str, low: int, high: int) -> int | None:
    """The newest version that both sides speak."""
    both = (v for v in schema_name_map[api] if low <= v <= min(high, NEWEST[api]))
    return max(both, default=None)


@cache
def _schema(api_key: int, version: int) -> type[Any]:
    return load_request_schema(api_key, version)


async def opened(
    address: Address, *, client_id: str, timeout_s: float, open_s: float, security: ClientSecurity
) -> Link:
    """A link that is ready. Raises ChannelError."""
    link = Link(address, client_id=client_id, timeout_s=timeout_s, security=security)
    try:
        await link.open(open_s)
    except (Exception, asyncio.CancelledError):
        link.close()
        raise
    return link
