"""What the operations on consumer groups share: settings, topics, deadlines, patterns."""

from collections.abc import Callable, Iterable
from typing import Final, Literal, NamedTuple

from kio.schema.errors import ErrorCode

from nodes.coordinators.groups.consumer.patterns.matching import Pattern
from nodes.coordinators.groups.consumer.patterns.syntax import PatternError
from nodes.coordinators.groups.consumer.requests import Refusal
from nodes.coordinators.groups.settings import ConsumerSettings
from nodes.coordinators.groups.topics import TopicHashes, TopicsView
from nodes.coordinators.machine import Now
from nodes.coordinators.timers import Timers

MOST_PATTERNS: Final = 1_000
"""Patterns that are kept ready."""


class TimerKey(NamedTuple):
    """What ends: a member's session, or its time to revoke partitions."""

    kind: Literal["session", "rebalance"]
    group_id: str
    member_id: str


class Patterns:
    """Regular expressions that were read before."""

    def __init__(self) -> None:
        self._known: dict[str, Pattern] = {}

    def matching(self, regex: str, names: Iterable[str]) -> frozenset[str]:
        """The names that match. Raises Refusal if the expression is invalid, or costs too much."""
        try:
            return self._pattern(regex).matching(names)
        except PatternError as error:
            self._known.pop(regex, None)
            raise _invalid(regex, error) from error

    def _pattern(self, regex: str) -> Pattern:
        pattern = self._known.get(regex)
        if pattern is None:
            if len(self._known) >= MOST_PATTERNS:
                self._known.clear()
            pattern = self._known[regex] = Pattern(regex)
        return pattern


class Operation(NamedTuple):
    """One operation. What it does to timers happens at once."""

    now: Now
    settings: ConsumerSettings
    topics: TopicsView
    hashes: TopicHashes
    patterns: Patterns
    timers: Timers[TimerKey]
    new_id: Callable[[], str]

    def keep_session(self, group_id: str, member_id: str) -> None:
        """The member was heard: its session goes on."""
        self._schedule("session", group_id, member_id, self.settings.session_timeout_ms)

    def limit_revocation(self, group_id: str, member_id: str, timeout_ms: int) -> None:
        """The member has this long to revoke partitions."""
        self._schedule("rebalance", group_id, member_id, timeout_ms)

    def end_revocation(self, group_id: str, member_id: str) -> None:
        """The member has nothing to revoke."""
        self.timers.cancel(TimerKey("rebalance", group_id, member_id))

    def forget(self, group_id: str, member_id: str) -> None:
        """The member is gone."""
        self.timers.cancel(TimerKey("session", group_id, member_id))
        self.end_revocation(group_id, member_id)

    def _schedule(
        self, kind: Literal["session", "rebalance"], group_id: str, member_id: str, ms: int
    ) -> None:
        self.timers.schedule(TimerKey(kind, group_id, member_id), self.now.ms + max(ms, 0))


def _invalid(regex: str, error: PatternError) -> Refusal:
    return Refusal(
        ErrorCode.invalid_regular_expression,
        f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error}.",
    )
