"""Administrative requests to a cluster under faults, with a time limit.

The brokers that most likely know the answer are asked first. Without an answer in time it is
unknown whether a request was carried out.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar

from harness.admin.client import Address, AdminClient
from harness.admin.errors import Unreachable
from harness.systems.base import ClusterNodes

T = TypeVar("T")

GIVE_UP_S: Final = 1.5
"""How long a call may take."""
REQUEST_S: Final = 0.6
"""How long one broker may take to answer one request."""


class BrokerStatus(Protocol):
    """Says which brokers are worth asking."""

    def controller(self) -> int | None:
        """Return the active controller, if it is known."""
        ...

    def answers(self, node: int) -> bool | None:
        """Return whether the node answered when it was last asked."""
        ...


class AdminCall(Protocol):
    """Does work with an administrative client, within a time limit. Raises AdminError."""

    def __call__(self, work: Callable[[AdminClient], Awaitable[T]]) -> T:
        """Return what `work` returns."""
        ...


class BoundedAdmin:
    """Implements `AdminCall` from the clients' machine. Any task may call."""

    def __init__(self, nodes: ClusterNodes, status: BrokerStatus) -> None:
        self._nodes, self._status = nodes, status

    def __call__(self, work: Callable[[AdminClient], Awaitable[T]]) -> T:
        """Return what `work` returns. Raises Unreachable at the time limit."""
        addresses = self._addresses()

        async def bounded() -> T:
            client = AdminClient(addresses, timeout_s=GIVE_UP_S, request_timeout_s=REQUEST_S)
            async with client as admin, asyncio.timeout(GIVE_UP_S):
                return await work(admin)

        try:
            return self._nodes.call(bounded)
        except TimeoutError as error:
            text = f"the cluster did not answer within {GIVE_UP_S:g} s"
            raise Unreachable(text) from error

    def _addresses(self) -> list[Address]:
        """Return the addresses: the controller first, brokers that did not answer lately last."""
        active = self._status.controller()

        def rank(node: int) -> tuple[bool, bool, int]:
            return self._status.answers(node) is False, node != active, node

        known = self._nodes.brokers
        return [known[node] for node in sorted(known, key=rank)]
