"""What a broker serves: one line for each api, with the versions that its handler knows.

A new api is a line here, and a part in `Parts` if no existing part serves it. Left to others: what
the controller's listener serves (`raft_io`, `controller_io`), and ApiVersions (the dispatcher
answers it from this table).
"""

from dataclasses import dataclass

from nodes.server.fetch import FetchHandler
from nodes.server.forwarding import Forwarding
from nodes.server.produce import ProduceHandler
from nodes.server.queries import Queries
from nodes.wire.server import Api

PRODUCE = 0
FETCH = 1
LIST_OFFSETS = 2
METADATA = 3
FIND_COORDINATOR = 10
CREATE_TOPICS = 19
INIT_PRODUCER_ID = 22
OFFSET_FOR_LEADER_EPOCH = 23
DESCRIBE_CLUSTER = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The broker's parts that answer requests."""

    produce: ProduceHandler
    fetch: FetchHandler
    queries: Queries
    forwarding: Forwarding


def broker_apis(parts: Parts) -> dict[int, Api]:
    """The requests served to clients and other brokers, by api key."""
    queries, forwarding = parts.queries, parts.forwarding
    return {
        PRODUCE: Api(3, 13, parts.produce.handle),
        FETCH: Api(4, 17, parts.fetch.handle),
        LIST_OFFSETS: Api(1, 9, queries.list_offsets),
        METADATA: Api(0, 13, queries.metadata),
        FIND_COORDINATOR: Api(0, 6, queries.find_coordinator),
        CREATE_TOPICS: Api(2, 7, forwarding.forward),
        INIT_PRODUCER_ID: Api(0, 5, forwarding.init_producer_id),
        OFFSET_FOR_LEADER_EPOCH: Api(2, 4, queries.offset_for_leader_epoch),
        DESCRIBE_CLUSTER: Api(0, 2, queries.describe_cluster),
    }
