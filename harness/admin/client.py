"""The client for administrative requests: finds brokers, agrees on versions, repeats, gives up.

The client learns the brokers from Metadata. It agrees with each broker on the highest version of a
request that both know (ApiVersions). It sends a request to any broker, to one broker, or to the
controller. In KRaft every broker forwards requests that only the controller decides. After
NOT_CONTROLLER the client asks the controller that Metadata names, as ZooKeeper clusters need it.

Every request here can be repeated without harm: by its nature, or because its caller knows how to
read the second answer. So a request without an answer is sent again, to another broker if possible,
until `timeout_s` is over.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from kio.index import load_request_schema
from kio.schema.api_versions.v0.request import ApiVersionsRequest
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map

from harness.admin.codes import check
from harness.admin.errors import BadRequest, TransientError, Unreachable
from nodes.wire.client import Channel
from nodes.wire.errors import ChannelError
from nodes.wire.security import PLAINTEXT_CLIENT, ClientSecurity
from nodes.wire.versions import fill

T = TypeVar("T")

Address = tuple[str, int]

TIMEOUT_S: Final = 60.0
"""How long one operation may take, retries included."""
REQUEST_TIMEOUT_S: Final = 10.0
"""How long one request may take; long enough for the election of a controller."""
FIRST_RETRY_S: Final = 0.1
LAST_RETRY_S: Final = 1.0
CLIENT_ID: Final = "highwater-admin"
MAX_VERSION: Final = (1 << 15) - 1

ANY: Final = None
"""The request goes to any broker."""
CONTROLLER: Final = -1
"""The request goes to the controller, or to a broker that forwards it."""

_API_KEYS: Final = {name: key for key, name in api_key_map.items()}


def parse_bootstrap(text: str) -> tuple[Address, ...]:
    """Return the addresses of "host:port,host:port". Raises BadRequest."""
    addresses = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        host, _, port = item.rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise BadRequest(f"bootstrap servers {text!r}: {item!r} is no host:port")
        addresses.append((host.strip("[]"), int(port)))
    if not addresses:
        raise BadRequest("no bootstrap servers were given: write host:port[,host:port...]")
    return tuple(addresses)


class AdminClient:
    """A client for one event loop, as the module describes. `async with` closes its connections."""

    def __init__(
        self,
        bootstrap: Sequence[Address],
        *,
        timeout_s: float = TIMEOUT_S,
        request_timeout_s: float = REQUEST_TIMEOUT_S,
        security: ClientSecurity = PLAINTEXT_CLIENT,
    ) -> None:
        self.timeout_s = timeout_s
        self._request_timeout_s = request_timeout_s
        self._security = security
        self._bootstrap = tuple(bootstrap)
        self._channels: dict[Address, Channel] = {}
        self._versions: dict[Address, dict[int, tuple[int, int]]] = {}
        self._brokers: dict[int, Address] = {}
        self._controller: int | None = None
        self._answering: Address | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        for channel in self._channels.values():
            channel.close()

    async def request(
        self,
        api: str,
        *,
        to: int | Address | None = ANY,
        at_least: int = 0,
        at_most: int = MAX_VERSION,
        **values: Any,
    ) -> Any:
        """Send one request; return the response with whatever error codes it has.

        `api` is kio's name of the request ("create_topics"). `values` are its fields (see `fill`).
        Fields that the agreed version lacks are left out; `at_least` and `at_most` are the versions
        from which and up to which the request has them. `to` is a broker's number or address,
        CONTROLLER, or ANY: then one broker after the other is asked until one answers. Raises
        Unreachable, and BadRequest when no such version is agreed or `to` is no broker of the
        cluster.
        """
        failures = []
        for address in await self._candidates(to):
            try:
                response = await self._ask(address, api, range(at_least, at_most + 1), values)
            except ChannelError as error:
                failures.append(str(error))
                continue
            self._answering = address
            return response
        raise Unreachable(f"no broker answers: {'; '.join(dict.fromkeys(failures))}")

    async def repeat(
        self, attempt: Callable[[], Awaitable[T]], *, longest_pause_s: float = LAST_RETRY_S
    ) -> T:
        """Call `attempt` until it raises neither TransientError nor Unreachable; return its result.

        The pauses between attempts grow up to `longest_pause_s`. Raises Unreachable, with the
        message of the last attempt, when `timeout_s` is over.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.timeout_s
        pause_s = min(FIRST_RETRY_S, longest_pause_s)
        while True:
            try:
                return await attempt()
            except (TransientError, Unreachable) as error:
                if loop.time() + pause_s > deadline:
                    text = f"gave up after {self.timeout_s:g} s: {error}"
                    raise Unreachable(text) from error
                if isinstance(error, TransientError) and error.code is ErrorCode.not_controller:
                    self._controller = None
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, longest_pause_s)

    async def serves(self, api: str) -> bool:
        """Return whether the cluster (the first broker that answers) serves this request."""
        key = _API_KEYS[api]
        for address in await self._candidates(ANY):
            try:
                return key in await self._agreed(address)
            except ChannelError:
                continue
        raise Unreachable(f"none of {_listed(self._bootstrap)} answers")

    @property
    def request_timeout(self) -> timedelta:
        """The value for a request's own timeout field: shorter than the wait for its answer."""
        return timedelta(seconds=self._request_timeout_s * 0.8)

    async def refresh(self) -> Any:
        """Learn the brokers and the controller from Metadata; return its response."""
        answer = await self.request("metadata", topics=(), allow_auto_topic_creation=False)
        self._brokers = {int(b.node_id): (str(b.host), int(b.port)) for b in answer.brokers}
        controller = int(answer.controller_id)
        self._controller = controller if controller in self._brokers else None
        return answer

    async def _candidates(self, to: int | Address | None) -> list[Address]:
        if isinstance(to, tuple):
            return [to]
        if to is ANY:
            known = [self._answering] if self._answering else []
            return list(dict.fromkeys([*known, *self._brokers.values(), *self._bootstrap]))
        if not self._brokers or (to == CONTROLLER and self._controller is None):
            await self.refresh()
        if to == CONTROLLER:
            first = [] if self._controller is None else [self._brokers[self._controller]]
            return list(dict.fromkeys([*first, *self._brokers.values(), *self._bootstrap]))
        if to not in self._brokers:
            await self.refresh()
        if to not in self._brokers:
            raise BadRequest(
                f"broker {to} is not in service; those that are: {_listed(sorted(self._brokers))}"
            )
        return [self._brokers[to]]

    async def _ask(self, address: Address, api: str, wanted: range, values: dict[str, Any]) -> Any:
        key = _API_KEYS[api]
        agreed = await self._agreed(address)
        if key not in agreed:
            raise BadRequest(f"{address[0]}:{address[1]} does not serve {api} (api key {key})")
        low, high = agreed[key]
        served = range(low, high + 1)
        usable = [v for v in schema_name_map[api] if v in served and v in wanted]
        if not usable:
            raise BadRequest(
                f"{address[0]}:{address[1]} serves {api} only in versions {low} to {high}, which "
                "lack a field of this request"
            )
        schema: Any = load_request_schema(key, max(usable))
        return await self._channel(address).request(fill(schema, **values))

    async def _agreed(self, address: Address) -> dict[int, tuple[int, int]]:
        """Return the versions that the broker at `address` serves: api key -> least, greatest."""
        agreed = self._versions.get(address)
        if agreed is None:
            # Version 0: the only version that every broker understands, however old.
            answer = await self._channel(address).request(ApiVersionsRequest())
            check(answer.error_code, f"{address[0]}:{address[1]}")
            agreed = {int(a.api_key): (a.min_version, a.max_version) for a in answer.api_keys}
            self._versions[address] = agreed
        return agreed

    def _channel(self, address: Address) -> Channel:
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = Channel(
                *address,
                client_id=CLIENT_ID,
                request_timeout_s=self._request_timeout_s,
                security=self._security,
            )
        return channel


def _listed(items: Sequence[object]) -> str:
    return ", ".join(map(str, items)) or "none"
