"""Requests to a Kafka cluster as an administrator makes them: found, negotiated, repeated, bounded.

The client knows the brokers by Metadata, agrees with each on the highest version of a request that
both have (ApiVersions), and asks whoever may answer: any broker, one broker, or the controller. In
KRaft every broker passes on what only the controller decides; NOT_CONTROLLER sends us to the one
that Metadata names, as a ZooKeeper cluster wants it.

Every request made here can be repeated without harm, by its nature or because its caller knows how
to read the second answer; so a request without an answer is asked again, elsewhere where that is
possible, until `timeout_s` is over.
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
from harness.admin.errors import BadRequest, Passing, Unreachable
from nodes.wire.client import Channel
from nodes.wire.errors import ChannelError
from nodes.wire.security import PLAINTEXT_CLIENT, ClientSecurity
from nodes.wire.versions import fill

T = TypeVar("T")

Address = tuple[str, int]

TIMEOUT_S: Final = 60.0
"""How long one operation may take, retries included."""
REQUEST_TIMEOUT_S: Final = 10.0
"""How long one request may take: long enough for a controller's election on the other side."""
FIRST_RETRY_S: Final = 0.1
LAST_RETRY_S: Final = 1.0
CLIENT_ID: Final = "highwater-admin"

ANY: Final = None
"""Any broker will do."""
CONTROLLER: Final = -1
"""The controller, or a broker that passes the request on to it."""

_API_KEYS: Final = {name: key for key, name in api_key_map.items()}


def parse_bootstrap(text: str) -> tuple[Address, ...]:
    """The addresses of "host:port,host:port". Raises BadRequest."""
    addresses = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        host, _, port = item.rpartition(":")
        if not host or not port.isdigit():
            raise BadRequest(f"bootstrap servers {text!r}: {item!r} is no host:port")
        addresses.append((host.strip("[]"), int(port)))
    if not addresses:
        raise BadRequest("no bootstrap servers were given: write host:port[,host:port...]")
    return tuple(addresses)


class AdminClient:
    """See the module. For one event loop; `async with` closes its connections."""

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
        self, api: str, *, to: int | Address | None = ANY, at_least: int = 0, **values: Any
    ) -> Any:
        """The response to one request, whatever error codes it holds.

        `api` is kio's name of it ("create_topics"), `values` its fields (see `fill`); fields that
        the agreed version lacks are left out, so name the version from which they matter
        (`at_least`). With `to` a broker's number or address or CONTROLLER, only that broker is
        asked, else one after the other. Raises Unreachable, and BadRequest where the version is too
        old or `to` is no broker of the cluster.
        """
        failures = []
        for address in await self._candidates(to):
            try:
                response = await self._ask(address, api, at_least, values)
            except ChannelError as error:
                failures.append(str(error))
                continue
            self._answering = address
            return response
        raise Unreachable(f"no broker answers: {'; '.join(dict.fromkeys(failures))}")

    async def repeat(
        self, attempt: Callable[[], Awaitable[T]], *, longest_pause_s: float = LAST_RETRY_S
    ) -> T:
        """What `attempt` returns, which is made again while it raises Passing or Unreachable, after
        pauses that grow up to `longest_pause_s`.

        Raises Unreachable, with what the last attempt said, once `timeout_s` is over.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.timeout_s
        pause_s = min(FIRST_RETRY_S, longest_pause_s)
        while True:
            try:
                return await attempt()
            except (Passing, Unreachable) as error:
                if loop.time() + pause_s > deadline:
                    text = f"gave up after {self.timeout_s:g} s: {error}"
                    raise Unreachable(text) from error
                if isinstance(error, Passing) and error.code is ErrorCode.not_controller:
                    self._controller = None
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, longest_pause_s)

    async def serves(self, api: str) -> bool:
        """Whether the cluster (a broker that answers) knows this request."""
        key = _API_KEYS[api]
        for address in await self._candidates(ANY):
            try:
                return key in await self._agreed(address)
            except ChannelError:
                continue
        raise Unreachable(f"none of {_listed(self._bootstrap)} answers")

    @property
    def request_timeout(self) -> timedelta:
        """What to put in a request's own timeout field: less than we wait for its answer."""
        return timedelta(seconds=self._request_timeout_s * 0.8)

    async def refresh(self) -> Any:
        """Learn who the brokers and the controller are; returns the Metadata response."""
        answer = await self.request("metadata", topics=(), allow_auto_topic_creation=False)
        self._brokers = {int(b.node_id): (str(b.host), int(b.port)) for b in answer.brokers}
        controller = int(answer.controller_id)
        self._controller = controller if controller in self._brokers else None
        return answer

    # -- inside

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

    async def _ask(self, address: Address, api: str, at_least: int, values: dict[str, Any]) -> Any:
        key = _API_KEYS[api]
        agreed = await self._agreed(address)
        if key not in agreed:
            raise BadRequest(f"{address[0]}:{address[1]} does not serve {api} (api key {key})")
        low, high = agreed[key]
        version = next((v for v in sorted(schema_name_map[api], reverse=True) if v <= high), -1)
        if version < max(low, at_least):
            raise BadRequest(
                f"{address[0]}:{address[1]} serves {api} in versions {low} to {high} only, which "
                "cannot express this"
            )
        schema: Any = load_request_schema(key, version)
        return await self._channel(address).request(fill(schema, **values))

    async def _agreed(self, address: Address) -> dict[int, tuple[int, int]]:
        """api key -> least and greatest version that the broker at `address` serves."""
        agreed = self._versions.get(address)
        if agreed is None:
            # Version 0: the only one that every broker of every age understands.
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
