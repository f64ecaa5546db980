"""The group coordinator: the machine of one partition of `__consumer_offsets`.

Operations about one protocol go to that kind of group, if the group id is not of another kind.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from random import Random
from typing import Final

from kio.schema.errors import ErrorCode

from nodes.coordinators.groups.classic import answers
from nodes.coordinators.groups.classic.group import ClassicGroup
from nodes.coordinators.groups.classic.groups import ClassicGroups
from nodes.coordinators.groups.classic.records import GROUP_METADATA
from nodes.coordinators.groups.classic.requests import Identity, Join, Leaver, Sync
from nodes.coordinators.groups.composition import Groups
from nodes.coordinators.groups.consumer.answers import refused as refused_heartbeat
from nodes.coordinators.groups.consumer.groups import RECORD_NUMBERS, ConsumerGroups
from nodes.coordinators.groups.consumer.operation import GroupConfigs
from nodes.coordinators.groups.consumer.requests import Heartbeat, Refusal
from nodes.coordinators.groups.settings import GroupSettings
from nodes.coordinators.groups.topics import TopicsView
from nodes.coordinators.machine import Answer, Effects, Now, Token
from nodes.coordinators.records import CoordinatorRecord

DESCRIBE_ERRORS_SINCE: Final = 6
"""From this version on, DescribeGroups says GROUP_ID_NOT_FOUND; before, such a group is "Dead"."""


class GroupCoordinator(Groups):
    """See the module."""

    def __init__(
        self,
        settings: GroupSettings,
        topics: Callable[[], TopicsView],
        random: Random,
        configs: GroupConfigs = lambda _: {},
    ) -> None:
        """`topics` returns the topics of the moment, `configs` what is configured for a group;
        member ids come from `random`.
        """
        self.classic = ClassicGroups(settings.classic, random)
        self.consumer = ConsumerGroups(
            settings.consumer, topics, random, self.classic.adopt, configs
        )
        kinds = ((self.classic, GROUP_METADATA.numbers), (self.consumer, RECORD_NUMBERS))
        super().__init__(settings, kinds)

    # -- the classic protocol

    def join(self, request: Join, token: Token, now: Now) -> Effects:
        """JoinGroup. A consumer group without members becomes a classic one, as in Kafka."""
        group_id = request.who.group_id
        if not self.consumer.has(group_id):
            return self.classic.join(request, token, now)
        if self._consumes(group_id):
            error = self.classic.refusal(request, now)
            if error is ErrorCode.none:
                return self.consumer.join(request, token, now)
            return Effects(answers=((token, answers.join_error(error, request.who.member_id)),))
        effects = self.classic.join(request, token, now)
        return _before(self.consumer.tombstones(group_id), effects) if effects.records else effects

    def sync(self, request: Sync, token: Token, now: Now) -> Effects:
        """SyncGroup."""
        if self._consumes(request.who.group_id):
            return self.consumer.sync(request, token, now)
        return self.classic.sync(request, token, now)

    def heartbeat(self, who: Identity, generation: int, token: Token, now: Now) -> Effects:
        """Heartbeat."""
        if self._consumes(who.group_id):
            return self.consumer.classic_heartbeat(who, generation, token, now)
        return self.classic.heartbeat(who, generation, token, now)

    def leave(self, group_id: str, leavers: Sequence[Leaver], token: Token, now: Now) -> Effects:
        """LeaveGroup."""
        if self._consumes(group_id):
            return self.consumer.leave(group_id, leavers, token, now)
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

    # -- the consumer protocol

    def consumer_heartbeat(self, request: Heartbeat, token: Token, now: Now) -> Effects:
        """ConsumerGroupHeartbeat. A classic group becomes a consumer group when a consumer joins.

        Its members are taken over, if the settings allow that. Who waits for the end of a rebalance
        is told to join again.
        """
        group_id = request.group_id
        if not self.classic.has(group_id):
            return self.consumer.heartbeat(request, token, now)
        if not request.joins:
            error = ErrorCode.group_id_not_found
            refused = Refusal(error, f"Group {group_id} is not a consumer group.")
            return Effects(answers=((token, refused_heartbeat(refused)),))
        empty = self.classic.check_delete(group_id) is ErrorCode.none
        group = None if empty else self.classic.groups[group_id]
        effects = self.consumer.heartbeat(request, token, now, group)
        if not effects.records:
            return effects
        told = self.classic.interrupted(group_id)
        effects = replace(effects, answers=(*told, *effects.answers))
        return _before(self.classic.tombstones(group_id), effects)

    def _consumes(self, group_id: str) -> bool:
        """Whether it is a consumer group with members."""
        has = self.consumer.has(group_id)
        return has and self.consumer.check_delete(group_id) is not ErrorCode.none

    def consumer_describe(self, group_id: str, token: Token, now: Now) -> Effects:
        """ConsumerGroupDescribe, of one group: the answer has the fields of the group's row."""
        return Effects(answers=((token, self.consumer.describe(group_id)),))


def _before(records: Iterable[CoordinatorRecord], effects: Effects) -> Effects:
    """The effects with some records before theirs."""
    return replace(effects, records=(*records, *effects.records))


def _not_found(group_id: str, version: int) -> Answer:
    error = ErrorCode.group_id_not_found
    failed = {"error_code": error, "error_message": f"Group {group_id} not found."}
    return {"group_id": group_id, "group_state": "Dead"} | (
        failed if version >= DESCRIBE_ERRORS_SINCE else {}
    )
