"""The classic protocol of groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, DescribeGroups.

A join and a sync wait as long as the rebalance does. A client that goes away meanwhile waits no
more; its member stays until its session ends, as in Kafka.
"""

from datetime import timedelta
from typing import Any, Final

from kio.schema.errors import ErrorCode

from nodes.coordinators.groups.classic import answers
from nodes.coordinators.groups.classic.requests import (
    Client,
    Identity,
    Join,
    Leaver,
    MemberProtocol,
    Sync,
)
from nodes.coordinators.groups.coordinator import GroupCoordinator
from nodes.coordinators.machine import Answer
from nodes.server.coordinators.errors import CoordinatorError
from nodes.server.coordinators.shard import Access
from nodes.server.coordinators.shards import Shards
from nodes.server.requests.groups.many import side_by_side
from nodes.wire.server import RequestContext
from nodes.wire.versions import respond

JOIN_NULLABLE_PROTOCOL_SINCE = 7
LEAVE_BATCH_SINCE = 3

GROUP_OPERATIONS: Final = sum(1 << code for code in (3, 6, 8, 10, 11))
"""The allowed operations on a group as bits (KIP-430): all, because there is no authorization."""

_MS = timedelta(milliseconds=1)


class ClassicGroupHandler:
    """Serves the requests of the classic protocol."""

    def __init__(self, shards: Shards[GroupCoordinator]) -> None:
        self._shards = shards

    async def join(self, request: Any, context: RequestContext) -> Any:
        """JoinGroup."""
        session_ms = int(request.session_timeout / _MS)
        rebalance = getattr(request, "rebalance_timeout", request.session_timeout)
        join = Join(
            who=_identity(request),
            client=client_of(context),
            protocol_type=request.protocol_type,
            protocols=tuple(MemberProtocol(each.name, each.metadata) for each in request.protocols),
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=int(rebalance / _MS),
            version=request.__version__,
        )
        try:
            answer = await self._shards.perform(
                request.group_id,
                lambda coordinator, token, now: coordinator.join(join, token, now),
            )
        except CoordinatorError as error:
            answer = answers.join_error(protocol_error(error), request.member_id)
        if answer["protocol_name"] is None and request.__version__ < JOIN_NULLABLE_PROTOCOL_SINCE:
            answer = {**answer, "protocol_name": ""}
        return respond(request, **answer)

    async def sync(self, request: Any, context: RequestContext) -> Any:
        """SyncGroup."""
        sync = Sync(
            who=_identity(request),
            generation=request.generation_id,
            protocol_type=getattr(request, "protocol_type", None),
            protocol=getattr(request, "protocol_name", None),
            assignments=tuple((each.member_id, each.assignment) for each in request.assignments),
        )
        try:
            answer = await self._shards.perform(
                request.group_id,
                lambda coordinator, token, now: coordinator.sync(sync, token, now),
            )
        except CoordinatorError as error:
            answer = answers.sync_error(protocol_error(error))
        return respond(request, **answer)

    async def heartbeat(self, request: Any, context: RequestContext) -> Any:
        """Heartbeat. While the coordinator loads, members are told that all is well, as in Kafka:
        their sessions begin anew when it is done.
        """
        who = _identity(request)
        try:
            answer: Answer = await self._shards.perform(
                request.group_id,
                lambda m, token, now: m.heartbeat(who, request.generation_id, token, now),
                Access.READ,
            )
        except CoordinatorError as error:
            code = error.code
            loading = code is ErrorCode.coordinator_load_in_progress
            answer = {"error_code": ErrorCode.none if loading else code}
        return respond(request, **answer)

    async def leave(self, request: Any, context: RequestContext) -> Any:
        """LeaveGroup: of one member, or (from version 3 on) of several."""
        batch = request.__version__ >= LEAVE_BATCH_SINCE
        members = request.members if batch else (request,)
        leavers = tuple(
            Leaver(each.member_id, getattr(each, "group_instance_id", None)) for each in members
        )
        try:
            answer = await self._shards.perform(
                request.group_id,
                lambda m, token, now: m.leave(request.group_id, leavers, token, now),
            )
        except CoordinatorError as error:
            return respond(request, error_code=protocol_error(error))
        if not batch and answer["error_code"] is ErrorCode.none:
            return respond(request, error_code=answer["members"][0]["error_code"])
        return respond(request, **answer)

    async def describe(self, request: Any, context: RequestContext) -> Any:
        """DescribeGroups: each group by itself."""
        rows = await side_by_side(
            self._describe(group_id, request.__version__) for group_id in request.groups
        )
        if getattr(request, "include_authorized_operations", False):
            rows = [{**row, "authorized_operations": GROUP_OPERATIONS} for row in rows]
        return respond(request, groups=rows)

    async def _describe(self, group_id: str, version: int) -> Answer:
        try:
            return await self._shards.perform(
                group_id,
                lambda coordinator, token, now: coordinator.describe(group_id, version, token, now),
                Access.READ,
            )
        except CoordinatorError as error:
            return {"group_id": group_id, "error_code": error.code}


def client_of(context: RequestContext) -> Client:
    """The client of a request, as Kafka describes members."""
    return Client(context.client_id or "", f"/{context.peer_host}")


def protocol_error(error: CoordinatorError) -> ErrorCode:
    """The error of a group that does not fit into a record batch is unknown to clients."""
    too_large = error.code is ErrorCode.record_list_too_large
    return ErrorCode.unknown_server_error if too_large else error.code


def _identity(request: Any) -> Identity:
    return Identity(
        request.group_id, request.member_id, getattr(request, "group_instance_id", None)
    )
