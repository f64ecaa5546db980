"""The group coordinator: the machine of one partition of `__consumer_offsets`.

Operations about one protocol go to that kind of group, if the group id is not of another kind.
"""

from collections.abc import Sequence
from random import Random
from typing import Final

from kio.schema.errors import ErrorCode

from nodes.coordinators.groups.classic import answers
from nodes.coordinators.groups.classic.group import ClassicGroup
from nodes.coordinators.groups.classic.groups import ClassicGroups
from nodes.coordinators.groups.classic.records import GROUP_METADATA
from nodes.coordinators.groups.classic.requests import Identity, Join, Leaver, Sync
from nodes.coordinators.groups.composition import Groups
from nodes.coordinators.groups.settings import GroupSettings
from nodes.coordinators.machine import Answer, Effects, Now, Token

DESCRIBE_ERRORS_SINCE: Final = 6
"""From this version on, DescribeGroups says GROUP_ID_NOT_FOUND; before, such a group is "Dead"."""


class GroupCoordinator(Groups):
    """See the module."""

    def __init__(self, settings: GroupSettings, random: Random) -> None:
        """Member ids come from `random`."""
        self.classic = ClassicGroups(settings.classic, random)
        super().__init__(settings, ((self.classic, GROUP_METADATA.numbers),))

    # -- the classic protocol

    def join(self, request: Join, token: Token, now: Now) -> Effects:
        """JoinGroup."""
        return self.classic.join(request, token, now)

    def sync(self, request: Sync, token: Token, now: Now) -> Effects:
        """SyncGroup."""
        return self.classic.sync(request, token, now)

    def heartbeat(self, who: Identity, generation: int, token: Token, now: Now) -> Effects:
        """Heartbeat."""
        return self.classic.heartbeat(who, generation, token, now)

    def leave(self, group_id: str, leavers: Sequence[Leaver], token: Token, now: Now) -> Effects:
        """LeaveGroup."""
        return self.classic.leave(group_id, leavers, token, now)

    def describe(self, group_id: str, version: int, token: Token, now: Now) -> Effects:
        """DescribeGroups, of one group: the answer has the fields of the group's row."""
        if self.classic.has(group_id):
            row = self.classic.describe(group_id)
        elif self.kind_of(group_id) is None and self.offsets.has(group_id):
            row = answers.described(ClassicGroup(group_id, state_since_wall_ms=now.wall_ms))
        else:
            row = _not_found(group_id, version)
        return Effects(answers=((token, row),))


def _not_found(group_id: str, version: int) -> Answer:
    error = ErrorCode.group_id_not_found
    failed = {"error_code": error, "error_message": f"Group {group_id} not found."}
    return {"group_id": group_id, "group_state": "Dead"} | (
        failed if version >= DESCRIBE_ERRORS_SINCE else {}
    )
