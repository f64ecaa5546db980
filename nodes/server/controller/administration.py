"""The handlers of administrative requests at the controller.

They translate between requests and the pure operations of `nodes.controller`. Brokers forward the
requests of clients (`forwarding`). If the client's timeout passes, the response is
REQUEST_TIMED_OUT, and the operation may have happened.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any, Protocol, TypeVar

from kio.schema.errors import ErrorCode

from nodes.controller.configs import ConfigChange, ConfigOperation, ResourceChanges, alter_configs
from nodes.controller.deletions import TopicRef, delete_topics
from nodes.controller.elections import LogsOf, elect_leaders
from nodes.controller.features import FeatureUpdate, update_features
from nodes.controller.partition_changes import Election
from nodes.controller.reassignments import (
    OngoingReassignment,
    Reassignment,
    alter_reassignments,
    list_reassignments,
)
from nodes.controller.recovery import LogQuery, logs_of_valid_reports
from nodes.controller.situation import ControllerResult, ControllerState
from nodes.controller.topics import (
    CreateTopicResult,
    NewPartitions,
    NewTopic,
    create_partitions,
    create_topics,
)
from nodes.ids import NodeId
from nodes.metadata.errors import ControlError
from nodes.metadata.image import ConfigResource
from nodes.server import error_responses
from nodes.server.controller.controller import QuorumController
from nodes.server.controller.recovery import UncleanRecoveryManager
from nodes.wire.server import Api, Handler, RequestContext
from nodes.wire.versions import respond

PREFERRED_ELECTION = 0
UNCLEAN_ELECTION = 1
UPGRADE = 1
"""The type of a feature's update; 2 and 3 are safe and unsafe downgrades."""

Row = dict[str, Any]
Operation = Callable[[Any, ControllerState], ControllerResult[Any]]


R = TypeVar("R")


class Decider(Protocol):
    """A controller: it decides operations on its state, one after another."""

    @property
    def state(self) -> ControllerState:
        """The state on which operations decide."""
        ...

    async def decide(self, operation: Callable[[], ControllerResult[R]]) -> R:
        """Run one operation; return its response when it is carried out. Raises ControlError."""
        ...


def operation_apis(decider: Decider) -> dict[int, Api]:
    """The requests that are one operation on the controller's state, by api key."""

    def serve(operation: Operation) -> Handler:
        async def handler(request: Any, context: RequestContext) -> Any:
            return await answer(decider, request, lambda: operation(request, decider.state))

        return handler

    return {
        error_responses.CREATE_TOPICS: Api(2, 7, serve(_create_topics)),
        error_responses.DELETE_TOPICS: Api(1, 6, serve(_delete_topics)),
        error_responses.ALTER_CONFIGS: Api(0, 2, serve(_alter_configs)),
        error_responses.CREATE_PARTITIONS: Api(0, 3, serve(_create_partitions)),
        error_responses.INCREMENTAL_ALTER_CONFIGS: Api(0, 1, serve(_alter_configs)),
        error_responses.ALTER_PARTITION_REASSIGNMENTS: Api(0, 1, serve(_reassign)),
        error_responses.LIST_PARTITION_REASSIGNMENTS: Api(0, 0, serve(_list_reassignments)),
        error_responses.UPDATE_FEATURES: Api(0, 2, serve(_update_features)),
    }


async def answer(
    decider: Decider, request: Any, operation: Callable[[], ControllerResult[Row]]
) -> Any:
    """The response to a request, within the request's own timeout."""
    timeout = getattr(request, "timeout", None)
    timeout_s = 0.0 if timeout is None else timeout.total_seconds()
    try:
        async with asyncio.timeout(timeout_s if timeout_s > 0 else None):
            return respond(request, **await decider.decide(operation))
    except ControlError as error:
        return error_responses.refuse(request, error.code, error.message)
    except TimeoutError:
        return error_responses.refuse(request, ErrorCode.request_timed_out, "not committed in time")


def wanted_partitions(request: Any) -> list[tuple[str, int]] | None:
    """The partitions that an ElectLeaders request names; None for all."""
    if request.topic_partitions is None:
        return None
    return [(t.topic, n) for t in request.topic_partitions for n in t.partitions]


class AdminRequestHandler:
    """Serves clients' administrative requests, at the controller."""

    def __init__(
        self, quorum_controller: QuorumController, recovery: UncleanRecoveryManager
    ) -> None:
        self._quorum_controller = quorum_controller
        self._recovery = recovery

    def apis(self) -> dict[int, Api]:
        """The requests served here, by api key."""
        return {
            **operation_apis(self._quorum_controller),
            error_responses.ELECT_LEADERS: Api(0, 2, self._elect_leaders),
            error_responses.UNREGISTER_BROKER: Api(0, 0, self._unregister_broker),
        }

    async def _unregister_broker(self, request: Any, context: RequestContext) -> Any:
        def decide() -> ControllerResult[Any]:
            result = self._quorum_controller.controller.unregister_broker(NodeId(request.broker_id))
            return ControllerResult(records=result.records, response={}, atomic=result.atomic)

        return await answer(self._quorum_controller, request, decide)

    async def _elect_leaders(self, request: Any, context: RequestContext) -> Any:
        """Before an unclean election, ask the live replicas which of them has the longest log."""
        wanted = wanted_partitions(request)
        unclean = getattr(request, "election_type", PREFERRED_ELECTION) == UNCLEAN_ELECTION
        asked: list[LogQuery] = []
        if unclean:
            leaderless = self._quorum_controller.controller.leaderless
            named = None if wanted is None else frozenset(wanted)
            asked = self._recovery.log_queries(
                [k for k in leaderless if named is None or (k.topic, k.partition) in named],
                Election.UNCLEAN,
            )
        reports = await self._recovery.ask(asked)

        def decide() -> ControllerResult[Row]:
            state = self._quorum_controller.state
            logs = logs_of_valid_reports(state.image, asked, reports)
            return election_rows(request, wanted, state, logs)

        return await answer(self._quorum_controller, request, decide)


def _error(error: ControlError | None) -> Row:
    if error is None:
        return {"error_code": ErrorCode.none, "error_message": None}
    return {"error_code": error.code, "error_message": error.message}


def _result(result: ControllerResult[Any], content: Row) -> ControllerResult[Row]:
    return ControllerResult(records=result.records, response=content, atomic=result.atomic)


def _create_topics(request: Any, state: ControllerState) -> ControllerResult[Row]:
    topics = [
        NewTopic(
            name=topic.name,
            partitions=topic.num_partitions,
            replication_factor=topic.replication_factor,
            assignments=tuple(
                (item.partition_index, tuple(NodeId(node) for node in item.broker_ids))
                for item in topic.assignments
            ),
            configs={config.name: config.value for config in topic.configs},
        )
        for topic in request.topics
    ]
    result = create_topics(state, topics, validate_only=request.validate_only)
    return _result(result, {"topics": [_topic_row(answer) for answer in result.response]})


def _topic_row(answer: CreateTopicResult) -> Row:
    row = {"name": answer.name, **_error(answer.error)}
    if answer.error is not None:
        return row
    configs = [
        {"name": name, "value": sourced.value, "config_source": sourced.source}
        for name, sourced in (answer.configs or {}).items()
    ]
    return row | {
        "topic_id": answer.topic_id,
        "num_partitions": answer.partitions,
        "replication_factor": answer.replication_factor,
        "configs": configs,
    }


def _delete_topics(request: Any, state: ControllerState) -> ControllerResult[Row]:
    names = getattr(request, "topic_names", None)
    wanted = (
        [TopicRef(name=topic.name, topic_id=topic.topic_id) for topic in request.topics]
        if names is None
        else [TopicRef(name=name) for name in names]
    )
    try:
        result = delete_topics(state, wanted)
    except ControlError as error:
        # The first versions of the request do not have TOPIC_DELETION_DISABLED.
        if request.__version__ >= 3:
            raise
        raise ControlError(ErrorCode.invalid_request, error.message) from error
    rows = [
        {"name": answer.name, "topic_id": answer.topic_id, **_error(answer.error)}
        for answer in result.response
    ]
    return _result(result, {"responses": rows})


def _create_partitions(request: Any, state: ControllerState) -> ControllerResult[Row]:
    topics = [
        NewPartitions(
            name=topic.name,
            count=topic.count,
            assignments=None
            if topic.assignments is None
            else tuple(tuple(map(NodeId, item.broker_ids)) for item in topic.assignments),
        )
        for topic in request.topics
    ]
    result = create_partitions(state, topics, validate_only=request.validate_only)
    rows = [{"name": answer.name, **_error(answer.error)} for answer in result.response]
    return _result(result, {"results": rows})


def _update_features(request: Any, state: ControllerState) -> ControllerResult[Row]:
    updates = [
        FeatureUpdate(
            each.feature,
            each.max_version_level,
            # The first version has a flag, the others a type.
            getattr(each, "allow_downgrade", False) or getattr(each, "upgrade_type", 1) > UPGRADE,
        )
        for each in request.feature_updates
    ]
    records = update_features(state.image.features, updates)
    rows = [{"feature": each.name} for each in updates]
    validate_only = getattr(request, "validate_only", False)
    return ControllerResult(records=[] if validate_only else records, response={"results": rows})


def _alter_configs(request: Any, state: ControllerState) -> ControllerResult[Row]:
    replaces = request.__api_key__ == error_responses.ALTER_CONFIGS
    changes = [
        ResourceChanges(
            resource=ConfigResource(resource.resource_type, resource.resource_name),
            changes=tuple(
                ConfigChange(
                    name=config.name,
                    operation=ConfigOperation.SET if replaces else config.config_operation,
                    value=config.value,
                )
                for config in resource.configs
            ),
            replaces=replaces,
        )
        for resource in request.resources
    ]
    result = alter_configs(state, changes, validate_only=request.validate_only)
    rows = [
        {
            "resource_type": answer.resource.resource_type,
            "resource_name": answer.resource.name,
            **_error(answer.error),
        }
        for answer in result.response
    ]
    return _result(result, {"responses": rows})


def election_rows(
    request: Any,
    wanted: Sequence[tuple[str, int]] | None,
    state: ControllerState,
    logs: LogsOf,
) -> ControllerResult[Row]:
    """ElectLeaders, with the known ends of the replicas' logs. Raises ControlError."""
    kind = getattr(request, "election_type", PREFERRED_ELECTION)
    if kind not in (PREFERRED_ELECTION, UNCLEAN_ELECTION):
        raise ControlError(ErrorCode.invalid_request, f"Unknown election type {kind}")
    result = elect_leaders(
        state.image,
        wanted,
        state.policy,
        unclean=kind == UNCLEAN_ELECTION,
        logs=logs,
    )
    rows = [
        {
            "topic": topic,
            "partition_result": [
                {"partition_id": number, **_error(error)} for _, number, error in group
            ],
        }
        for topic, group in groupby(result.answers, key=lambda answer: answer[0])
    ]
    return ControllerResult(
        records=result.records, response={"replica_election_results": rows}, atomic=False
    )


def _reassign(request: Any, state: ControllerState) -> ControllerResult[Row]:
    wanted = [
        Reassignment(
            topic=topic.name,
            partition=partition.partition_index,
            replicas=None if partition.replicas is None else tuple(map(NodeId, partition.replicas)),
        )
        for topic in request.topics
        for partition in topic.partitions
    ]
    allowed = getattr(request, "allow_replication_factor_change", True)
    result = alter_reassignments(state, wanted, allow_factor_change=allowed)
    left = iter(result.response)
    rows = [
        {
            "name": topic.name,
            "partitions": [
                {"partition_index": partition.partition_index, **_error(next(left).error)}
                for partition in topic.partitions
            ],
        }
        for topic in request.topics
    ]
    return _result(result, {"responses": rows, "allow_replication_factor_change": allowed})


def _list_reassignments(request: Any, state: ControllerState) -> ControllerResult[Row]:
    wanted = None
    if request.topics is not None:
        wanted = {topic.name: topic.partition_indexes for topic in request.topics}
    found = list_reassignments(state.image, wanted)
    return ControllerResult(response={"topics": _ongoing_rows(found)})


def _ongoing_rows(found: Iterable[OngoingReassignment]) -> list[Row]:
    return [
        {
            "name": topic,
            "partitions": [
                {
                    "partition_index": each.partition,
                    "replicas": each.replicas,
                    "adding_replicas": each.adding,
                    "removing_replicas": each.removing,
                }
                for each in group
            ],
        }
        for topic, group in groupby(found, key=lambda each: each.topic)
    ]
