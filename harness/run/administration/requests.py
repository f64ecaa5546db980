"""Questions and orders to a cluster under faults, which often answers nobody: asked with a bound.

Those brokers are asked first that are likeliest to know best. Without an answer in time nobody
knows whether an order was taken.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar

from harness.admin.client import Address, AdminClient
from harness.admin.errors import Unreachable
from harness.systems.base import Members

T = TypeVar("T")

GIVE_UP_S: Final = 1.5
"""How long a question or an order may take."""
REQUEST_S: Final = 0.6
"""How long one broker may take to answer one request."""


class Knows(Protocol):
    """Who is worth asking."""

    def controller(self) -> int | None:
        """The active controller."""
        ...

    def answers(self, node: int) -> bool | None:
        """Whether the node answered lately."""
        ...


class Ask(Protocol):
    """Ask the cluster something, within a bound. Raises AdminError."""

    def __call__(self, work: Callable[[AdminClient], Awaitable[T]]) -> T:
        """What `work` returns."""
        ...


class Asker:
    """Asks from the clients' machine. Any strand may call."""

    def __init__(self, members: Members, knows: Knows) -> None:
        self._members, self._knows = members, knows

    def __call__(self, work: Callable[[AdminClient], Awaitable[T]]) -> T:
        """See `Ask`. Raises Unreachable at the bound."""
        addresses = self._addresses()

        async def asking() -> T:
            client = AdminClient(addresses, timeout_s=GIVE_UP_S, request_timeout_s=REQUEST_S)
            async with client as admin, asyncio.timeout(GIVE_UP_S):
                return await work(admin)

        try:
            return self._members.call(asking)
        except TimeoutError as error:
            text = f"the cluster did not answer within {GIVE_UP_S:g} s"
            raise Unreachable(text) from error

    def _addresses(self) -> list[Address]:
        """The controller knows best; those that did not answer lately come last."""
        active = self._knows.controller()

        def rank(node: int) -> tuple[bool, bool, int]:
            return self._knows.answers(node) is False, node != active, node

        known = self._members.brokers
        return [known[node] for node in sorted(known, key=rank)]
