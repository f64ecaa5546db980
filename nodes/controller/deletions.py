"""DeleteTopics: topics are deleted by name or by id; their names are free at once. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from kio.schema.errors import ErrorCode

from nodes.controller.situation import ControllerResult, ControllerState
from nodes.metadata.errors import ControlError
from nodes.metadata.image import ClusterImage
from nodes.metadata.records import MetadataRecord, RemoveTopicRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRef:
    """A topic by name or by id; both or neither is an error of the request."""

    name: str | None = None
    topic_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicResult:
    """The result for one topic; name and id are None if they must not be disclosed."""

    name: str | None
    topic_id: UUID | None
    error: ControlError | None = None


def delete_topics(
    state: ControllerState, topics: Sequence[TopicRef]
) -> ControllerResult[list[DeleteTopicResult]]:
    """Delete topics, with a result for each. Raises TOPIC_DELETION_DISABLED.

    A topic that is named twice (by name, by id or by both) is not deleted.
    """
    if not state.settings.delete_topics:
        raise ControlError(ErrorCode.topic_deletion_disabled, "Topic deletion is disabled.")
    image = state.image
    named = Counter(topics)
    found = Counter(_find(image, ref) for ref in named)
    records: list[MetadataRecord] = []
    answers = []
    for ref, times in named.items():
        try:
            _check(ref, times)
            topic_id = _find(image, ref)
            if topic_id is None:
                raise _unknown(ref)
            if found[topic_id] > 1 and ref.topic_id is None:
                raise ControlError(
                    ErrorCode.invalid_request,
                    "The provided topic name maps to an ID that was already supplied.",
                )
        except ControlError as error:
            answers.append(
                DeleteTopicResult(name=ref.name, topic_id=ref.topic_id, error=error.kept())
            )
            continue
        if found[topic_id] == 1:
            records.append(RemoveTopicRecord(topic_id=topic_id))
            answers.append(DeleteTopicResult(name=image.topics[topic_id].name, topic_id=topic_id))
    return ControllerResult(records=records, response=answers)


def _find(image: ClusterImage, ref: TopicRef) -> UUID | None:
    if ref.name is not None:
        return None if ref.topic_id is not None else image.topic_ids.get(ref.name)
    return ref.topic_id if ref.topic_id in image.topics else None


def _check(ref: TopicRef, times: int) -> None:
    complaint = None
    if ref.name is None and ref.topic_id is None:
        complaint = "Neither topic name nor id were specified."
    elif ref.name is not None and ref.topic_id is not None:
        complaint = "You may not specify both topic name and topic id."
    elif times > 1:
        complaint = f"Duplicate topic {'id' if ref.name is None else 'name'}."
    if complaint is not None:
        raise ControlError(ErrorCode.invalid_request, complaint)


def _unknown(ref: TopicRef) -> ControlError:
    if ref.name is None:
        return ControlError(ErrorCode.unknown_topic_id, "This server does not host this topic ID.")
    return ControlError(
        ErrorCode.unknown_topic_or_partition, "This server does not host this topic-partition."
    )
