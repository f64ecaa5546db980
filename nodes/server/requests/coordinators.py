"""FindCoordinator: which broker is the coordinator of a group, or of a transactional id.

It is the leader of the key's partition in an internal topic. The topic is created when somebody
asks first; until the partition has a leader, the answer is COORDINATOR_NOT_AVAILABLE, and clients
ask again.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from kio.schema.errors import ErrorCode

from nodes.coordinators.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from nodes.coordinators.partitioning import partition_for
from nodes.ids import NO_NODE
from nodes.metadata.image import ClusterImage
from nodes.server.requests.auto_topics import AutoTopicCreation
from nodes.wire.server import RequestContext
from nodes.wire.versions import respond

BATCHED_SINCE = 4
"""From this version on, FindCoordinator asks for several keys."""

GROUP: Final = 0
TRANSACTION: Final = 1
TOPICS: Final[Mapping[int, str]] = {GROUP: OFFSETS_TOPIC, TRANSACTION: TRANSACTIONS_TOPIC}
"""The internal topic of each type of key that is served."""

Row = dict[str, Any]


class CoordinatorHandler:
    """Serves FindCoordinator."""

    def __init__(self, image: Callable[[], ClusterImage], auto_topics: AutoTopicCreation) -> None:
        self._image = image
        self._auto_topics = auto_topics

    def find_coordinator(self, request: Any, context: RequestContext) -> Any:
        """FindCoordinator."""
        key_type = getattr(request, "key_type", GROUP)
        if request.__version__ >= BATCHED_SINCE:
            rows = [
                {"key": key, **self._find(key, key_type, context)}
                for key in request.coordinator_keys
            ]
            return respond(request, coordinators=rows)
        return respond(request, **self._find(request.key, key_type, context))

    def _find(self, key: str, key_type: int, context: RequestContext) -> Row:
        topic = TOPICS.get(key_type)
        if topic is None:
            message = f"coordinators of key type {key_type} are not served"
            return _not_found(ErrorCode.invalid_request, message)
        image = self._image()
        found = image.topic(topic)
        if found is None:
            self._auto_topics.create_internal(topic)
            return _not_found(ErrorCode.coordinator_not_available, f"{topic} is being created")
        partition = found.partitions[partition_for(key, len(found.partitions))]
        broker = image.brokers.get(partition.leader)
        endpoint = None if broker is None or broker.fenced else broker.endpoint(context.listener)
        if endpoint is None:
            error = ErrorCode.coordinator_not_available
            return _not_found(error, "the partition of this key has no leader now")
        return {"node_id": partition.leader, "host": endpoint.host, "port": endpoint.port}


def _not_found(code: ErrorCode, message: str) -> Row:
    return {
        "node_id": NO_NODE,
        "host": "",
        "port": -1,
        "error_code": code,
        "error_message": message,
    }
