"""What becomes of consumer groups and transactions, of which this broker has none.

A client must stop at once with a clear error where it asks for them, and must read where it only
names a group. Clients look for a group's coordinator before all else, and ask it what the group has
committed, also for partitions that were assigned to them by hand. So any broker calls itself the
coordinator, and says what is true: nothing was ever committed. A client then begins where its
auto.offset.reset says. What would make a group a group is refused with UNSUPPORTED_VERSION, or not
advertised at all. The latter is clearer, but not every client takes it for final: aiokafka tries
JoinGroup again for ever, and OffsetCommit when it is closed; so does librdkafka with
ConsumerGroupHeartbeat; and DeleteGroups would end a process with librdkafka 2.16. These are served.

FindCoordinator is served in version 0 only, which has no coordinators of transactions: a client
that wants one sees that before it sends anything. (An error of the later versions would have to be
a lie: librdkafka tries again for ever after each but "not authorised".) Without version 0,
librdkafka would look for a coordinator for ever, and would not compress with LZ4.
"""

from collections.abc import Iterable
from typing import Any

from kio.schema.errors import ErrorCode

from nodes.config import NodeConfig
from nodes.ids import NO_EPOCH, NO_NODE, NO_OFFSET
from nodes.server.replicas.manager import ReplicaManager
from nodes.wire.server import RequestContext
from nodes.wire.versions import respond

GROUPS_SINCE = 8
"""OffsetFetch asks for several groups from this version on."""

Row = dict[str, Any]


class CoordinatorHandler:
    """Serves FindCoordinator, OffsetFetch, and what refuses groups."""

    def __init__(self, config: NodeConfig, replicas: ReplicaManager) -> None:
        self._node_id = config.node_id
        self._replicas = replicas

    def find_coordinator(self, request: Any, context: RequestContext) -> Any:
        """This broker, for any group."""
        broker = self._replicas.image.brokers.get(self._node_id)
        endpoint = None if broker is None else broker.endpoint(context.listener)
        if endpoint is None:
            error = ErrorCode.coordinator_not_available
            return respond(request, error_code=error, node_id=NO_NODE, host="", port=-1)
        return respond(request, node_id=self._node_id, host=endpoint.host, port=endpoint.port)

    def offset_fetch(self, request: Any, context: RequestContext) -> Any:
        """Nothing was committed of any partition asked for; asked for all (null), there is none."""
        if request.__version__ >= GROUPS_SINCE:
            groups = [
                {"group_id": group.group_id, "topics": _uncommitted(group.topics)}
                for group in request.groups
            ]
            return respond(request, groups=groups)
        return respond(request, topics=_uncommitted(request.topics))

    def delete_groups(self, request: Any, context: RequestContext) -> Any:
        """There is no such group."""
        error = ErrorCode.group_id_not_found
        rows = [{"group_id": name, "error_code": error} for name in request.groups_names]
        return respond(request, results=rows)

    def offset_commit(self, request: Any, context: RequestContext) -> Any:
        """Nothing is kept."""
        error = ErrorCode.unsupported_version
        topics = [
            {
                "name": topic.name,
                "partitions": [
                    {"partition_index": each.partition_index, "error_code": error}
                    for each in topic.partitions
                ],
            }
            for topic in request.topics
        ]
        return respond(request, topics=topics)

    def join(self, request: Any, context: RequestContext) -> Any:
        """Nobody joins a group: neither one of the classic protocol (JoinGroup), nor of the new one
        (ConsumerGroupHeartbeat; so answers Kafka, too, where group.version is 0).
        """
        message = "this cluster has no consumer groups yet: assign partitions instead"
        return respond(request, error_code=ErrorCode.unsupported_version, error_message=message)


def _uncommitted(topics: Iterable[Any] | None) -> list[Row]:
    nothing = {"committed_offset": NO_OFFSET, "committed_leader_epoch": NO_EPOCH, "metadata": ""}
    return [
        {
            "name": topic.name,
            "partitions": [{"partition_index": n, **nothing} for n in topic.partition_indexes],
        }
        for topic in topics or ()
    ]
