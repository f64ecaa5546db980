"""ListGroups and DeleteGroups. The groups of a request may belong to different shards."""

import asyncio
from typing import Any

from kio.schema.errors import ErrorCode

from nodes.coordinators.groups.coordinator import GroupCoordinator
from nodes.coordinators.machine import Answer
from nodes.server.coordinators.errors import CoordinatorError
from nodes.server.coordinators.shard import Access, Shard
from nodes.server.coordinators.shards import Shards
from nodes.server.requests.groups.many import side_by_side
from nodes.wire.server import RequestContext
from nodes.wire.versions import respond


class GroupAdministrationHandler:
    """Serves the administrative requests about groups of every kind."""

    def __init__(self, shards: Shards[GroupCoordinator]) -> None:
        self._shards = shards

    async def list_groups(self, request: Any, context: RequestContext) -> Any:
        """ListGroups: the groups of every shard; an error as long as one of them is loading."""
        states = getattr(request, "states_filter", ())
        types = getattr(request, "types_filter", ())

        async def groups_of(shard: Shard[GroupCoordinator]) -> list[dict[str, Any]]:
            answer = await shard.perform(
                lambda coordinator, token, now: coordinator.list_groups(states, types, token, now),
                Access.READ,
            )
            rows: list[dict[str, Any]] = answer["groups"]
            return rows

        found = await asyncio.gather(
            *(groups_of(shard) for shard in self._shards.all()), return_exceptions=True
        )
        rows: list[dict[str, Any]] = []
        for result in found:
            if isinstance(result, CoordinatorError):
                if result.code is ErrorCode.not_coordinator:
                    continue  # the shard was lost meanwhile: its new broker lists its groups
                return respond(request, error_code=result.code)
            if isinstance(result, BaseException):
                raise result
            rows += result
        return respond(request, groups=rows)

    async def delete_groups(self, request: Any, context: RequestContext) -> Any:
        """DeleteGroups: each group by itself."""
        rows = await side_by_side(self._delete(name) for name in request.groups_names)
        return respond(request, results=rows)

    async def _delete(self, group_id: str) -> Answer:
        try:
            return await self._shards.perform(
                group_id,
                lambda coordinator, token, now: coordinator.delete_group(group_id, token, now),
                Access.WRITE,
            )
        except CoordinatorError as error:
            return {"group_id": group_id, "error_code": error.code}
