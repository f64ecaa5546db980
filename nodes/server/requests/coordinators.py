"""The requests about consumer groups and transactions, which this broker does not support.

A client that needs a group or a transaction must fail at once with a clear error. A client that
only names a group must still be able to read. Clients look for a group's coordinator first, and ask
it for the committed offsets, even for partitions that were assigned by hand. So every broker calls
itself the coordinator and responds that nothing was committed, which is true. The client then
starts where its auto.offset.reset says.

Requests that would use a group as a group are refused with UNSUPPORTED_VERSION, or are not
advertised. Not advertising is clearer, but some clients do not accept it as final: aiokafka retries
JoinGroup for ever, and OffsetCommit when it is closed; librdkafka does the same with
ConsumerGroupHeartbeat; and DeleteGroups would end a process with librdkafka 2.16. So these are
served.

FindCoordinator is served in version 0 only, which has no transaction coordinators: a client that
wants one sees that before it sends anything. (An error of a later version would have to be a lie:
librdkafka retries for ever after each error except "not authorised".) Without version 0, librdkafka
would look for a coordinator for ever, and would not compress with LZ4.
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
"""From this version on, OffsetFetch asks for several groups."""

Row = dict[str, Any]


class CoordinatorHandler:
    """Serves FindCoordinator and OffsetFetch, and refuses the other requests about groups."""

    def __init__(self, config: NodeConfig, replicas: ReplicaManager) -> None:
        self._node_id = config.node_id
        self._replicas = replicas

    def find_coordinator(self, request: Any, context: RequestContext) -> Any:
        """FindCoordinator: this broker, for any group."""
        broker = self._replicas.image.brokers.get(self._node_id)
        endpoint = None if broker is None else broker.endpoint(context.listener)
        if endpoint is None:
            error = ErrorCode.coordinator_not_available
            return respond(request, error_code=error, node_id=NO_NODE, host="", port=-1)
        return respond(request, node_id=self._node_id, host=endpoint.host, port=endpoint.port)

    def offset_fetch(self, request: Any, context: RequestContext) -> Any:
        """OffsetFetch: no committed offset for each requested partition; none at all for null."""
        if request.__version__ >= GROUPS_SINCE:
            groups = [
                {"group_id": group.group_id, "topics": _uncommitted(group.topics)}
                for group in request.groups
            ]
            return respond(request, groups=groups)
        return respond(request, topics=_uncommitted(request.topics))

    def delete_groups(self, request: Any, context: RequestContext) -> Any:
        """DeleteGroups: there is no such group."""
        error = ErrorCode.group_id_not_found
        rows = [{"group_id": name, "error_code": error} for name in request.groups_names]
        return respond(request, results=rows)

    def offset_commit(self, request: Any, context: RequestContext) -> Any:
        """OffsetCommit: refused, because no offsets are stored."""
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
        """JoinGroup (classic protocol) and ConsumerGroupHeartbeat (new protocol): refused.

        Kafka responds to ConsumerGroupHeartbeat in the same way if group.version is 0.
        """
        message = "this cluster has no consumer groups yet: assign partitions instead"
        return respond(request, error_code=ErrorCode.unsupported_version, error_message=message)


def _uncommitted(topics: Iterable[Any] | None) -> list[Row]:
    no_offset = {"committed_offset": NO_OFFSET, "committed_leader_epoch": NO_EPOCH, "metadata": ""}
    return [
        {
            "name": topic.name,
            "partitions": [{"partition_index": n, **no_offset} for n in topic.partition_indexes],
        }
        for topic in topics or ()
    ]
