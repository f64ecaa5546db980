"""A cluster of two nodes with scripted answers, and an administrative client that asks them."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from kio.schema.errors import ErrorCode

from harness.admin.client import AdminClient
from tests.support.clusters.fake_node import Answer, FakeNode, serving

T = TypeVar("T")

METADATA: Final = 3
FIND_COORDINATOR: Final = 10


class FakeBrokers:
    """Two fake brokers in one cluster."""

    def __init__(self) -> None:
        self.controller = 1
        self.topics: list[dict[str, Any]] = []
        self.coordinators: dict[str, int] = {}
        answers: dict[int, Answer] = {
            METADATA: self.metadata,
            FIND_COORDINATOR: self.find_coordinators,
        }
        self.nodes = {node: FakeNode(answers) for node in (1, 2)}

    def metadata(self, _: Any) -> dict[str, Any]:
        """Answer with both nodes and the topics."""
        brokers = [
            {"node_id": number, "host": "127.0.0.1", "port": node.port}
            for number, node in self.nodes.items()
        ]
        return {"brokers": brokers, "controller_id": self.controller, "topics": self.topics}

    def find_coordinators(self, request: Any) -> dict[str, Any]:
        """Answer with the nodes of `coordinators`; a key that is not there has none yet."""
        rows = []
        for key in request.coordinator_keys:
            node = self.coordinators.get(key)
            if node is None:
                rows.append({"key": key, "error_code": ErrorCode.coordinator_not_available})
            else:
                port = self.nodes[node].port
                rows.append({"key": key, "node_id": node, "host": "127.0.0.1", "port": port})
        return {"coordinators": rows}

    def answer(self, key: int, answer: Answer, *nodes: int) -> None:
        """Let these nodes, or all, answer requests with this API key."""
        for node in nodes or tuple(self.nodes):
            self.nodes[node].answers[key] = answer

    def seen(self, node: int, key: int) -> list[Any]:
        """Return the requests with this API key that a broker got."""
        return [each for each in self.nodes[node].seen if int(each.__api_key__) == key]

    def run(self, work: Callable[[AdminClient], Awaitable[T]], timeout_s: float = 5.0) -> T:
        """Run `work` with a client whose bootstrap server is broker 2."""

        async def connected() -> T:
            addresses = [("127.0.0.1", self.nodes[2].port)]
            async with AdminClient(addresses, timeout_s=timeout_s) as admin:
                return await work(admin)

        with serving(*self.nodes.values()):
            return asyncio.run(connected())
