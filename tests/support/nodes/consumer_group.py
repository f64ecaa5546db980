"""Consumers for tests of consumer groups: each knows what it was told, and what it has revoked.

A consumer does what clients do: it revokes what it was told to give up before it says so, and joins
again without partitions when it is fenced.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from types import MappingProxyType
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from nodes.coordinators.groups.consumer.groups import ConsumerGroups
from nodes.coordinators.groups.consumer.requests import Heartbeat
from nodes.coordinators.groups.settings import ConsumerSettings
from nodes.coordinators.machine import Answer, Position, ProducerStamp
from nodes.coordinators.records import CoordinatorRecord
from tests.support.nodes.group_topics import FakeTopics
from tests.support.nodes.machine_driver import Appended, MachineDriver

GROUP = "group"


class ConsumerGroupsMachine(ConsumerGroups):
    """The consumer groups as a machine of their own: nothing in them is transactional."""

    def end_transaction(self, producer: ProducerStamp, position: Position, *, commit: bool) -> None:
        """See Machine."""
        raise AssertionError("consumer groups have no transactions")


Driver = MachineDriver[ConsumerGroupsMachine]


KAFKAS = ConsumerSettings()


def driver_of(
    topics: FakeTopics,
    settings: ConsumerSettings = KAFKAS,
    configs: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> Driver:
    """A machine that sees these topics, whose log is a list. `configs`: by group id."""
    return MachineDriver(
        lambda: ConsumerGroupsMachine(
            settings,
            lambda: topics,
            Random(7),
            configs=lambda group_id: configs.get(group_id, {}),
        )
    )


def records_of(driver: Driver) -> list[CoordinatorRecord]:
    """The records of the log."""
    return [each.record for each in driver.log if isinstance(each, Appended)]


@dataclass
class Consumer:
    """One consumer. `has`: the partitions that it may read by now."""

    driver: Driver
    member_id: str
    topics: tuple[str, ...] | None = None
    regex: str | None = None
    instance_id: str | None = None
    assignor: str | None = None
    group_id: str = GROUP
    rebalance_timeout_ms: int = 60_000
    epoch: int = 0
    has: set[tuple[UUID, int]] = field(default_factory=set)
    revokes_at_once: bool = True
    _sent: set[tuple[UUID, int]] | None = None

    def join(self) -> Answer:
        """Join, or join again, without partitions."""
        self.has.clear()
        self.epoch = 0
        return self.beat(full=True)

    def beat(self, *, full: bool = False, lose_answer: bool = False, **changes: Any) -> Answer:
        """Send a heartbeat and do what the answer says, unless it is lost on its way.

        What did not change since the last heartbeat that was answered is not sent.
        """
        request = self._request(full or self.epoch == 0 or self._sent is None)._replace(**changes)
        answer = self.driver.ask(lambda m, token, now: m.heartbeat(request, token, now))
        if lose_answer:
            self._sent = None
        else:
            self._sent = None if request.owned is None and self._sent is None else set(self.has)
            self._take(answer)
        return answer

    def leave(self, epoch: int = -1) -> Answer:
        """Leave the group."""
        self.has.clear()
        request = Heartbeat(self.group_id, self.member_id, epoch, instance_id=self.instance_id)
        return self.driver.ask(lambda m, token, now: m.heartbeat(request, token, now))

    def _request(self, full: bool) -> Heartbeat:
        request = Heartbeat(
            self.group_id, self.member_id, self.epoch, self.instance_id, client_id="client"
        )
        if full:
            request = request._replace(
                rebalance_timeout_ms=self.rebalance_timeout_ms,
                topic_names=self.topics,
                topic_regex=self.regex,
                assignor=self.assignor,
            )
        if full or self._sent != self.has:
            request = request._replace(owned=by_topic(self.has))
        return request

    def _take(self, answer: Answer) -> None:
        if answer["error_code"] is not ErrorCode.none:
            if answer["error_code"] in (ErrorCode.fenced_member_epoch, ErrorCode.unknown_member_id):
                self.has.clear()
                self.epoch = 0
                self._sent = None
            return
        self.epoch = answer["member_epoch"]
        self.member_id = answer["member_id"]
        if answer["assignment"] is None:
            return
        told = pairs(answer["assignment"]["topic_partitions"])
        if self.revokes_at_once:
            self.has &= told
        self.has |= told - self.has


def by_topic(partitions: Iterable[tuple[UUID, int]]) -> dict[UUID, frozenset[int]]:
    """Partitions by topic."""
    result: dict[UUID, frozenset[int]] = {}
    for topic, partition in partitions:
        result[topic] = result.get(topic, frozenset()) | {partition}
    return result


def pairs(rows: Iterable[dict[str, Any]]) -> set[tuple[UUID, int]]:
    """Partitions of the rows of an answer."""
    return {(row["topic_id"], partition) for row in rows for partition in row["partitions"]}


def settle(consumers: Iterable[Consumer], rounds: int = 6) -> None:
    """Let all consumers send heartbeats in turn."""
    members = list(consumers)
    for _ in range(rounds):
        for each in members:
            each.beat()
