"""Requests that describe the cluster on the controllers' listener (KIP-919), for tools that reach
no broker: the controllers, and the configuration of this one.
"""

from typing import Any

from nodes.ids import NO_NODE
from nodes.server.quorum.quorum_node import QuorumNode
from nodes.server.requests.describe_configs import DescribeConfigsHandler
from nodes.server.requests.metadata import (
    CONTROLLER_ENDPOINTS,
    authorized_operations,
    wrong_endpoint_type,
)
from nodes.wire.server import Api, RequestContext
from nodes.wire.versions import respond

DESCRIBE_CONFIGS, DESCRIBE_CLUSTER = 32, 60


class ControllerQueryHandler:
    """Serves DescribeCluster and DescribeConfigs on the controllers' listener."""

    def __init__(self, raft: QuorumNode, configs: DescribeConfigsHandler) -> None:
        self._raft = raft
        self._configs = configs

    def apis(self) -> dict[int, Api]:
        """The apis served here, by api key."""
        return {
            DESCRIBE_CONFIGS: Api(1, 4, self._configs.handle),
            DESCRIBE_CLUSTER: Api(0, 2, self.describe_cluster),
        }

    def describe_cluster(self, request: Any, context: RequestContext) -> Any:
        """DescribeCluster: the voters in place of brokers, and the active controller."""
        refusal = wrong_endpoint_type(request, CONTROLLER_ENDPOINTS)
        if refusal is not None:
            return refusal
        leader = self._raft.leader_id
        addresses = self._raft.voters
        nodes = [
            {"broker_id": node, "host": addresses[node][0], "port": addresses[node][1]}
            for node in self._raft.log.voters.ids
            if node in addresses
        ]
        return respond(
            request,
            endpoint_type=CONTROLLER_ENDPOINTS,
            cluster_id=self._raft.config.cluster_id,
            controller_id=NO_NODE if leader is None else leader,
            brokers=nodes,
            **authorized_operations(request),
        )
