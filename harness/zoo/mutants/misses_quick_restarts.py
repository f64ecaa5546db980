"""The controller with ZooKeeper looks at the ids of the live brokers, not at their sessions.

A broker that stopped and started again between two looks was never gone for the controller. So it
is told nothing, and waits for ever (KAFKA-1120; broker epochs of KIP-380 end this).
"""

from collections.abc import Mapping

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.ids import NodeId
from nodes.metadata.broker import BrokerImage
from nodes.metadata.image import ClusterImage
from nodes.zookeeper import decisions
from nodes.zookeeper.decisions import BrokerChanges

BUG = "a broker that restarts quickly is missed"
SOURCES = ("KAFKA-1120", "KIP-380")
SHOWS = ("unavailable",)


def broker_changes(image: ClusterImage, found: Mapping[NodeId, BrokerImage]) -> BrokerChanges:
    """The changes of the ids."""
    return BrokerChanges(
        gone=tuple(broker for node, broker in image.brokers.items() if node not in found),
        came=tuple(broker for node, broker in found.items() if node not in image.brokers),
    )


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return patch(decisions, broker_changes=broker_changes)


if __name__ == "__main__":
    run(apply)
