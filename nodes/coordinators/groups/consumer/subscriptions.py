"""What a group subscribes to: regular expressions, the group epoch, and the hash of its topics.

Kafka resolves regular expressions on another thread, and bumps the group epoch when that is done.
Here the work is bounded (`patterns`), so a heartbeat resolves them itself.
"""

from typing import Final

from nodes.coordinators.groups.consumer.draft import Draft
from nodes.coordinators.groups.consumer.group import ResolvedRegex
from nodes.coordinators.groups.consumer.operation import Operation
from nodes.coordinators.groups.consumer.requests import Refusal

MIN_REFRESH_INTERVAL_MS: Final = 10_000
"""Regular expressions of a group are not refreshed more often (Kafka's number)."""


def update_regexes(draft: Draft, op: Operation) -> bool:
    """Remove the regular expressions without subscribers, resolve new ones, refresh old ones.

    Returns whether one of those that stay has other topics than before. Raises Refusal if a new one
    is invalid.
    """
    remove_unused_regexes(draft)
    wanted = draft.group.subscribed_regexes()
    before = {regex: each.topics for regex, each in draft.group.regexes.items()}
    for regex in wanted:
        if regex not in before:
            _resolve(draft, regex, op)
    if _refresh_is_due(draft, op):
        for regex in wanted:
            _refresh(draft, regex, op)
    return any(draft.group.regexes[regex].topics != before.get(regex) for regex in wanted)


def remove_unused_regexes(draft: Draft) -> None:
    """Remove the regular expressions without subscribers."""
    wanted = draft.group.subscribed_regexes()
    for regex in [each for each in draft.group.regexes if each not in wanted]:
        draft.put_regex(regex, None)


def _refresh_is_due(draft: Draft, op: Operation) -> bool:
    """Whether topics were created since, or the last refresh is old."""
    resolved = draft.group.regexes.values()
    if not resolved:
        return False
    age = op.now.wall_ms - max(each.wall_ms for each in resolved)
    if age <= MIN_REFRESH_INTERVAL_MS:
        return False
    older = min(each.version for each in resolved) < op.topics.names_version
    return older or age > op.settings.regex_refresh_interval_ms


def _resolve(draft: Draft, regex: str, op: Operation) -> None:
    topics = op.patterns.matching(regex, op.topics.names())
    draft.put_regex(regex, ResolvedRegex(topics, op.topics.version, op.now.wall_ms))


def _refresh(draft: Draft, regex: str, op: Operation) -> None:
    """Resolve again. If that costs too much by now, the expression keeps the topics that it had."""
    try:
        _resolve(draft, regex, op)
    except Refusal:
        kept = draft.group.regexes[regex].topics
        draft.put_regex(regex, ResolvedRegex(kept, op.topics.version, op.now.wall_ms))


def update_epoch(draft: Draft, op: Operation, *, changed: bool) -> None:
    """Begin a new group epoch if members, subscriptions, or the subscribed topics changed.

    Every group epoch gets a target assignment of its own.
    """
    group = draft.group
    if not changed and group.checked_version == op.topics.version:
        return
    metadata_hash = op.hashes.group_hash(group.subscribed_names(), op.topics)
    if changed or metadata_hash != group.metadata_hash:
        draft.put_epoch(group.epoch + 1, metadata_hash)
    if draft.group.has_partition_metadata:
        draft.remove_partition_metadata()
