"""Who the coordinator is: by one broker, and by all of them."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from harness.workloads.clients.own.coordinator import GROUP, Coordinator


class Brokers:
    """Brokers that name a coordinator each; None: no connection."""

    def __init__(self, named: dict[int, int | None]) -> None:
        self.named = named
        self.nodes = sorted(named)
        self.rng = SimpleNamespace(getrandbits=lambda bits: len(named) - 1)

    def connection(self, node: int) -> Any:
        """The connection to a broker, which answers every request alike."""
        named = self.named[node]
        if named is None:
            return None

        async def start(api: str, **values: Any) -> Any:
            return SimpleNamespace(node_id=named, error_code=ErrorCode.none)

        return SimpleNamespace(start=start)


@pytest.mark.parametrize(
    ("named", "agreed"),
    [
        ({1: 1, 2: 1, 3: 1}, True),
        ({1: 1, 2: 1, 3: None}, True),
        ({1: 1, 2: None, 3: None}, False),
        ({1: 1, 2: 3, 3: 3}, False),
        ({1: 1, 2: 1, 3: 3}, False),
        ({1: 2, 2: 2, 3: 2}, True),
    ],
)
def test_a_replaced_coordinator_that_does_not_know_it_is_not_agreed_on(
    named: dict[int, int | None], *, agreed: bool
) -> None:
    """All that answer name the one that was asked last, and they are the majority."""

    async def run() -> bool:
        coordinator = Coordinator(Brokers(named), "group", GROUP)  # type: ignore[arg-type]
        await coordinator.ask("offset_fetch")  # the first broker names it
        return await coordinator.is_agreed_on()

    assert asyncio.run(run()) is agreed
