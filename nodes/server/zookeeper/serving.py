"""The apis of a broker's listeners when ZooKeeper is its control plane.

Administrative requests are served by the broker that is the controller. Others forward a client's
request to it, and refuse what another broker has forwarded, with NOT_CONTROLLER: two brokers that
both think of the other as the controller must not send a request to and fro. The quorum's requests
are not served at all.

Listeners are open from the start, because the controller uses them, too. A client's request waits
until the broker knows its partitions, for SERVE_WAIT_S at the most; then the connection is closed,
and the client asks another broker.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from kio.schema.errors import ErrorCode

from nodes.controller.situation import ControllerResult
from nodes.ids import BrokerEpoch, NodeId, TopicPartition
from nodes.metadata.errors import ControlError
from nodes.server import error_responses
from nodes.server.controller.administration import (
    Decider,
    answer,
    election_rows,
    operation_apis,
    wanted_partitions,
)
from nodes.server.replicas.manager import ReplicaManager
from nodes.wire.controller_requests import CONTROLLED_SHUTDOWN, CONTROLLED_SHUTDOWN_VERSION
from nodes.wire.errors import Unanswerable
from nodes.wire.server import Api, ExclusiveResponse, Handler, RequestContext
from nodes.wire.versions import respond
from nodes.zookeeper.decisions import AnyLogs

SERVE_WAIT_S: Final = 2.0
QUORUM_ONLY: Final = frozenset(
    (
        error_responses.DESCRIBE_QUORUM,
        error_responses.UPDATE_FEATURES,
        error_responses.UNREGISTER_BROKER,
        80,  # AddRaftVoter
        81,  # RemoveRaftVoter
    )
)
"""Requests about the quorum and its log. Kafka's brokers with ZooKeeper do not serve them."""
FORWARDED_BY: Final = "node-"
"""How the client ids of brokers begin."""


class Term(Decider, Protocol):
    """What is asked of the controller on this broker."""

    async def controlled_shutdown(
        self, node: NodeId, broker_epoch: BrokerEpoch
    ) -> list[TopicPartition]:
        """Move a broker's leaderships away; return what it still leads. Raises ControlError."""
        ...


def served(
    apis: Mapping[int, Api],
    controllers: Mapping[int, Api],
    term: Callable[[], Term | None],
    replicas: ReplicaManager,
    inter_broker_listener: str,
) -> dict[int, Api]:
    """The table of apis. `apis` are every broker's, `controllers` serve what a controller asks.

    `term` returns the controller on this broker, if it is the controller.
    """
    found = {
        key: api._replace(handler=_when_ready(api.handler, replicas))
        for key, api in apis.items()
        if key not in QUORUM_ONLY
    }
    for key in _administration(None):
        if key in found:
            found[key] = found[key]._replace(
                handler=_routed(key, found[key].handler, term, inter_broker_listener)
            )
    shutdown = Api(
        CONTROLLED_SHUTDOWN_VERSION, CONTROLLED_SHUTDOWN_VERSION, _controlled_shutdown(term)
    )
    return {**found, **controllers, CONTROLLED_SHUTDOWN: shutdown}


def _administration(decider: Any) -> dict[int, Api]:
    return {
        **operation_apis(decider),
        error_responses.ELECT_LEADERS: Api(0, 2, _elect_leaders(decider)),
    }


def _elect_leaders(decider: Decider) -> Handler:
    async def handler(request: Any, context: RequestContext) -> Any:
        def elect() -> ControllerResult[Any]:
            state = decider.state
            return election_rows(request, wanted_partitions(request), state, AnyLogs(state.image))

        return await answer(decider, request, elect)

    return handler


def _routed(
    key: int, forward: Handler, term: Callable[[], Term | None], inter_broker_listener: str
) -> Handler:
    def handler(request: Any, context: RequestContext) -> Any:
        controller = term()
        if controller is not None:
            return _administration(controller)[key].handler(request, context)
        forwarded = (context.client_id or "").startswith(FORWARDED_BY)
        if forwarded and context.listener == inter_broker_listener:
            return error_responses.refuse(
                request, ErrorCode.not_controller, "this node is not the active controller"
            )
        return forward(request, context)

    return handler


def _controlled_shutdown(term: Callable[[], Term | None]) -> Handler:
    async def handler(request: Any, context: RequestContext) -> Any:
        controller = term()
        if controller is None:
            return respond(request, error_code=ErrorCode.not_controller)
        try:
            left = await controller.controlled_shutdown(
                NodeId(request.broker_id), BrokerEpoch(request.broker_epoch)
            )
        except ControlError as error:
            return respond(request, error_code=error.code)
        rows = [{"topic_name": each.topic, "partition_index": each.partition} for each in left]
        return respond(request, error_code=ErrorCode.none, remaining_partitions=rows)

    return handler


def _when_ready(handler: Handler, replicas: ReplicaManager) -> Handler:
    def ready(request: Any, context: RequestContext) -> Any:
        if replicas.active:
            return handler(request, context)
        return _later(handler, replicas, request, context)

    return ready


async def _later(
    handler: Handler, replicas: ReplicaManager, request: Any, context: RequestContext
) -> Any:
    try:
        async with asyncio.timeout(SERVE_WAIT_S):
            await replicas.wait_until_active()
    except TimeoutError as error:
        raise Unanswerable("this broker does not know its partitions yet") from error
    result = handler(request, context)
    if isinstance(result, ExclusiveResponse):
        return await result.response
    return await result if asyncio.iscoroutine(result) or asyncio.isfuture(result) else result
