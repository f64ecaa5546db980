"""Selects the replica that a consumer should read from: one in its own rack (KIP-392).

It is the leader if the leader is in that rack, or if no follower in the rack qualifies. A follower
qualifies if it is in sync and has the requested offset. Otherwise a lagging follower would be
selected again and again, and the consumer would fall behind with it.
"""

from nodes.ids import NO_NODE, NodeId, Offset
from nodes.metadata.image import ClusterImage
from nodes.server.replicas.replica import Replica


class ReplicaSelector:
    """Kafka's RackAwareReplicaSelector (`replica.selector.class`)."""

    def select(
        self, replica: Replica, rack: str, listener: str, offset: Offset, image: ClusterImage
    ) -> NodeId:
        """Return the follower from which a consumer in `rack` should read `offset`.

        NO_NODE means the leader.
        """
        if not rack:
            return NO_NODE
        state = replica.state
        leader = image.brokers.get(state.local)
        if leader is not None and leader.rack == rack:
            return NO_NODE
        best, best_end = NO_NODE, offset - 1
        for node in state.replicas:
            progress = state.followers.get(node)
            broker = image.brokers.get(node)
            if progress is None or broker is None or node not in state.isr:
                continue
            reachable = not broker.fenced and broker.endpoint(listener) is not None
            if not reachable or broker.rack != rack or progress.log_start > offset:
                continue
            if progress.log_end > best_end:
                best, best_end = node, progress.log_end
        return best
