"""A producer id is given once, over all brokers, their restarts and all controllers (KIP-98).

Two producers with one id would take each other's records for repetitions. Brokers take ids from
blocks that the controller gives them, so two equal blocks show at their first id.
"""

from collections.abc import Callable

from harness.simulation.invariants.broken import InvariantBroken
from nodes.server.coordinators.producer_ids import ProducerIds as BrokersIds


class ProducerIds:
    """The producer ids that brokers have given to clients so far."""

    def __init__(self) -> None:
        self._givers: dict[int, int] = {}

    def given(self, producer_id: int, node: int) -> None:
        """Record that the node gives the id. Raises InvariantBroken if it was given before."""
        earlier = self._givers.get(producer_id)
        self._givers[producer_id] = node
        if earlier is not None:
            raise InvariantBroken(
                "producer-ids-once",
                f"node {node} gives the producer id {producer_id}, as node {earlier} did before",
            )


def watch_producer_ids(ids: BrokersIds, note: Callable[[int], None]) -> None:
    """Call `note` with each producer id that the broker gives from now on."""
    take = ids._take

    def watched() -> int | None:
        producer_id = take()
        if producer_id is not None:
            note(producer_id)
        return producer_id

    vars(ids)["_take"] = watched
