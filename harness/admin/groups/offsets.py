"""Requests about the offsets that a group committed: read, set and delete them.

They name topics by their names, so the versions that name them by ids are not used: a group may
have offsets of a topic that does not exist any more.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from kio.schema.errors import ErrorCode

from harness.admin.client import AdminClient
from harness.admin.codes import TRANSIENT, check
from harness.admin.coordinators import Coordinator, KeyType, ask_each
from harness.admin.groups.descriptions import CommittedOffset
from harness.admin.reassignments import PartitionError, by_topic
from nodes.ids import TopicPartition

_MANY_GROUPS_SINCE: Final = 8
_NAMES_UP_TO: Final = 9
_NO_OFFSET: Final = -1
_NO_GENERATION: Final = -1
"""The generation of a commit by a client that is no member; only an empty group takes it."""

Offsets = dict[TopicPartition, CommittedOffset]


async def committed(admin: AdminClient, group_ids: Sequence[str]) -> dict[str, Offsets]:
    """Return the committed offsets of each group. Raises RequestRefused."""

    async def ask(coordinator: Coordinator, ids: Sequence[str]) -> Mapping[str, Offsets]:
        answer = await admin.request(
            "offset_fetch",
            to=coordinator.address,
            at_least=_MANY_GROUPS_SINCE,
            at_most=_NAMES_UP_TO,
            groups=[{"group_id": group_id, "topics": None} for group_id in ids],
            require_stable=False,
        )
        found: dict[str, Offsets] = {}
        for group in answer.groups:
            check(group.error_code, f"offsets of group {group.group_id}")
            offsets = found[str(group.group_id)] = {}
            for topic in group.topics:
                for each in topic.partitions:
                    name = TopicPartition(str(topic.name), int(each.partition_index))
                    check(each.error_code, f"offset of group {group.group_id} for {name}")
                    if each.committed_offset != _NO_OFFSET:
                        epoch = int(each.committed_leader_epoch)
                        offsets[name] = CommittedOffset(
                            offset=int(each.committed_offset),
                            leader_epoch=epoch if epoch >= 0 else None,
                            metadata=each.metadata or "",
                        )
        return found

    return await ask_each(admin, KeyType.group, group_ids, ask)


async def commit(admin: AdminClient, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Commit these offsets for a group without members; the group need not exist yet.

    Raises RequestRefused about the first partition whose offset is not committed; the offsets of
    others may be.
    """

    async def ask(coordinator: Coordinator, _: Sequence[str]) -> Mapping[str, None]:
        answer = await admin.request(
            "offset_commit",
            to=coordinator.address,
            at_most=_NAMES_UP_TO,
            group_id=group_id,
            generation_id_or_member_epoch=_NO_GENERATION,
            topics=[
                {
                    "name": topic,
                    "partitions": [
                        {
                            "partition_index": number,
                            "committed_offset": offsets[TopicPartition(topic, number)],
                            "committed_metadata": "",
                        }
                        for number in numbers
                    ],
                }
                for topic, numbers in by_topic(offsets).items()
            ],
        )
        for topic in answer.topics:
            for each in topic.partitions:
                name = TopicPartition(str(topic.name), int(each.partition_index))
                check(each.error_code, f"offset of group {group_id} for {name}")
        return {group_id: None}

    await ask_each(admin, KeyType.group, [group_id], ask)


async def delete(
    admin: AdminClient, group_id: str, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, PartitionError]:
    """Delete the committed offsets of these partitions (KIP-496); return those that stay.

    Kafka refuses GROUP_SUBSCRIBED_TO_TOPIC while a member of the group has subscribed to the topic.
    Raises RequestRefused about the group itself.
    """
    refused: dict[TopicPartition, PartitionError] = {}
    attempts = 0

    async def ask(coordinator: Coordinator, _: Sequence[str]) -> Mapping[str, None]:
        nonlocal attempts
        attempts += 1
        answer = await admin.request(
            "offset_delete",
            to=coordinator.address,
            group_id=group_id,
            topics=[
                {"name": topic, "partitions": [{"partition_index": each} for each in numbers]}
                for topic, numbers in by_topic(partitions).items()
            ],
        )
        # A group without members and offsets ends: an earlier attempt may have deleted the last.
        if attempts == 1 or answer.error_code is not ErrorCode.group_id_not_found:
            check(answer.error_code, f"group {group_id}")
        for topic in answer.topics:
            for each in topic.partitions:
                name = TopicPartition(str(topic.name), int(each.partition_index))
                if each.error_code in TRANSIENT:
                    check(each.error_code, str(name))
                elif each.error_code is not ErrorCode.none:
                    refused[name] = (each.error_code, None)
        return {group_id: None}

    await ask_each(admin, KeyType.group, [group_id], ask)
    return dict(sorted(refused.items()))
