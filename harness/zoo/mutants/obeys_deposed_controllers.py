"""A broker with ZooKeeper does not compare the controller epoch of a request.

A request of a deposed controller that was under way for long is believed: brokers that are back by
then are gone again for whoever gets it, until the next change of the brokers.
"""

from typing import Any

from kio.schema.errors import ErrorCode

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.ids import BrokerEpoch
from nodes.server.zookeeper import controller_requests

BUG = "requests of a deposed controller are obeyed"
SOURCES = ("Kafka's controller epoch", "KIP-380")
SHOWS = ("unavailable",)


def refusal(request: Any, controller_epoch: int, broker_epoch: BrokerEpoch) -> ErrorCode:
    """Refuse only requests for an earlier registration."""
    stale = request.broker_epoch < broker_epoch
    return ErrorCode.stale_broker_epoch if stale else ErrorCode.none


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return patch(controller_requests, refusal=refusal)


if __name__ == "__main__":
    run(apply)
