"""Which node Metadata names as the controller."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from kio.index import load_request_schema

from nodes.ids import BrokerEpoch, NodeId
from nodes.metadata.broker import BrokerImage
from nodes.metadata.image import ClusterImage
from nodes.metadata.records import BrokerEndpoint
from nodes.server.requests.metadata import MetadataHandler
from nodes.wire.server import RequestContext
from nodes.wire.versions import fill

METADATA, DESCRIBE_CLUSTER = 3, 60
CLIENT = RequestContext(listener="PLAINTEXT", peer_host="h", client_id=None)


def image() -> ClusterImage:
    """Brokers 2 and 3 in service, 1 fenced."""
    brokers = {}
    for number in (1, 2, 3):
        node = NodeId(number)
        brokers[node] = BrokerImage(
            node_id=node,
            epoch=BrokerEpoch(number),
            incarnation_id=UUID(int=number),
            endpoints=(BrokerEndpoint(name="PLAINTEXT", host="h", port=9092),),
            fenced=number == 1,
        )
    return ClusterImage(brokers=brokers)


@pytest.mark.parametrize(
    ("leader", "named"),
    [
        (3, 3),  # controller and broker in one
        (1, 2),  # fenced
        (100, 2),  # a controller only: no client could find it among the brokers
        (None, 2),
    ],
)
def test_controller_in_metadata_is_a_reachable_broker(leader: int | None, named: int) -> None:
    """The active controller if it is a broker in service, else another broker, which forwards."""
    hosted = SimpleNamespace(image=image())
    config = SimpleNamespace(cluster_id="c")
    queries = MetadataHandler(
        cast(Any, config),
        cast(Any, hosted),
        lambda: None if leader is None else NodeId(leader),
        cast(Any, None),
    )
    asked = fill(load_request_schema(METADATA, 12), topics=())
    assert queries.metadata(asked, CLIENT).controller_id == named
    asked = fill(load_request_schema(DESCRIBE_CLUSTER, 0))
    assert queries.describe_cluster(asked, CLIENT).controller_id == named


def test_metadata_has_no_controller_without_brokers_in_service() -> None:
    """-1, which clients know as unknown."""
    fenced = {node: replace(broker, fenced=True) for node, broker in image().brokers.items()}
    hosted = SimpleNamespace(image=ClusterImage(brokers=fenced))
    config = SimpleNamespace(cluster_id="c")
    queries = MetadataHandler(
        cast(Any, config), cast(Any, hosted), lambda: NodeId(1), cast(Any, None)
    )
    asked = fill(load_request_schema(METADATA, 12), topics=())
    assert queries.metadata(asked, CLIENT).controller_id == -1
