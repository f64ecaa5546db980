"""The target assignment of a group: what its members shall have in a group epoch."""

from collections import Counter
from uuid import UUID

from nodes.coordinators.groups.consumer.assignors import ASSIGNORS
from nodes.coordinators.groups.consumer.assignors.spec import MemberSpec
from nodes.coordinators.groups.consumer.draft import Draft
from nodes.coordinators.groups.consumer.group import ConsumerGroup
from nodes.coordinators.groups.settings import ConsumerSettings
from nodes.coordinators.groups.topics import TopicsView


def assignor_of(group: ConsumerGroup, settings: ConsumerSettings) -> str:
    """The assignor that most members ask for; of equals the first configured.

    A name that is configured no more has no votes.
    """
    votes = Counter(each.metadata.server_assignor for each in group.members.values())
    return max(settings.assignors, key=lambda name: votes[name])


def update_targets(draft: Draft, settings: ConsumerSettings, topics: TopicsView) -> None:
    """Make the target assignment for the group epoch. Only what changed is written."""
    group = draft.group
    counts: dict[UUID, int] = {}
    ids: dict[str, UUID] = {}
    for name in sorted(group.subscribed_names()):
        topic = topics.topic(name)
        if topic is not None:
            ids[name] = topic.topic_id
            counts[topic.topic_id] = topic.partitions
    same: dict[frozenset[str], frozenset[UUID]] = {}
    members = []
    for member in group.members.values():
        names = group.topic_names(member)
        if names not in same:
            same[names] = frozenset(ids[name] for name in names if name in ids)
        instance_id = member.metadata.instance_id
        target = group.target(member.member_id)
        members.append(MemberSpec(member.member_id, instance_id, same[names], target))
    assigned = ASSIGNORS[assignor_of(group, settings)](members, counts)
    for member_id, target in assigned.items():
        if group.targets.get(member_id) != target:
            draft.put_target(member_id, target)
    draft.put_assignment_epoch(group.epoch)
