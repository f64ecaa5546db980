"""What the operations on consumer groups share: settings, topics, deadlines, patterns."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal, NamedTuple, get_args

from kio.schema.errors import ErrorCode

from nodes.coordinators.groups.consumer.member import Member
from nodes.coordinators.groups.consumer.requests import Refusal
from nodes.coordinators.groups.settings import ConsumerSettings
from nodes.coordinators.groups.topics import TopicHashes, TopicsView
from nodes.coordinators.machine import Now
from nodes.coordinators.patterns.matching import Pattern
from nodes.coordinators.patterns.syntax import PatternError
from nodes.coordinators.timers import Timers

MOST_PATTERNS: Final = 1_000
"""Patterns that are kept ready."""


GroupConfigs = Callable[[str], Mapping[str, str]]
"""What is configured for a group at the moment."""

Limit = Literal["session", "rebalance", "join", "sync"]
"""What a member has only so much time for: to be heard, to revoke partitions; by the classic
protocol also to join again when it was told to, and to ask for its assignment after that."""


class TimerKey(NamedTuple):
    """One limit of one member."""

    kind: Limit
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
    configs: GroupConfigs

    def keep_session(self, group_id: str, member: Member) -> None:
        """The member was heard: its session goes on."""
        classic = member.metadata.classic_member_metadata
        timeout_ms = self.settings.of_group(self.configs(group_id)).session_timeout_ms
        self.limit(
            "session",
            group_id,
            member.member_id,
            classic.session_timeout_ms if member.classic else timeout_ms,
        )

    def limit(self, kind: Limit, group_id: str, member_id: str, timeout_ms: int) -> None:
        """The member has this long from now on."""
        key = TimerKey(kind, group_id, member_id)
        self.timers.schedule(key, self.now.ms + max(timeout_ms, 0))

    def is_limited(self, kind: Limit, group_id: str, member_id: str) -> bool:
        """Whether the time of the member runs."""
        return TimerKey(kind, group_id, member_id) in self.timers

    def lift(self, kind: Limit, group_id: str, member_id: str) -> None:
        """The member did it in time."""
        self.timers.cancel(TimerKey(kind, group_id, member_id))

    def forget(self, group_id: str, member_id: str) -> None:
        """The member is gone."""
        for kind in get_args(Limit):
            self.lift(kind, group_id, member_id)


def _invalid(regex: str, error: PatternError) -> Refusal:
    return Refusal(
        ErrorCode.invalid_regular_expression,
        f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error}.",
    )
