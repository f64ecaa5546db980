"""Which offsets a reset of a group commits, as kafka-consumer-groups --reset-offsets. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum, auto

from harness.admin.errors import BadRequest
from harness.admin.groups.descriptions import CommittedOffset
from harness.plans.durations import seconds
from harness.plans.errors import PlanError
from nodes.ids import TopicPartition

_ISO_DURATION = re.compile(
    r"P(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE
)
_ISO_UNITS_S = (86_400, 3_600, 60, 1)


class Target(Enum):
    """Where a reset moves the committed offset of each partition."""

    EARLIEST = auto()
    LATEST = auto()
    CURRENT = auto()
    """It stays; a partition without a committed offset gets the log end."""
    OFFSET = auto()
    SHIFT = auto()
    TIME = auto()
    """The first record at or after a time; the log end if there is none."""


@dataclass(frozen=True, slots=True)
class Reset:
    """A target, and its value: an offset, a number of offsets to move by, or ms since 1970."""

    target: Target
    value: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOffsets:
    """What is known of one partition: its log's ends, the committed offset, and the offset of the
    first record at the time of the reset (-1: none, or not asked for)."""

    start: int
    end: int
    committed: CommittedOffset | None = None
    at_time: int = -1


def plan(
    reset: Reset, known: Mapping[TopicPartition, PartitionOffsets]
) -> tuple[dict[TopicPartition, int], list[str]]:
    """Return the new committed offset of each partition, and warnings about unexpected ones.

    An offset outside of the log is replaced by that end of the log that is nearer. Raises
    BadRequest when there is no committed offset to shift.
    """
    offsets, warnings = {}, []
    for name, each in sorted(known.items()):
        wanted = _wanted(reset, name, each)
        offsets[name] = min(max(wanted, each.start), each.end)
        if wanted > each.end:
            what = f"is higher than the log end offset {each.end}"
        elif wanted < each.start:
            what = f"is lower than the log start offset {each.start}"
        elif reset.target is Target.TIME and each.at_time < 0:
            warnings.append(
                f"{name} has no record that is new enough: its log end {each.end} is used"
            )
            continue
        else:
            continue
        warnings.append(f"new offset {wanted} of {name} {what}, which is used instead")
    return offsets, warnings


def _wanted(reset: Reset, name: TopicPartition, known: PartitionOffsets) -> int:
    match reset.target:
        case Target.EARLIEST:
            return known.start
        case Target.LATEST:
            return known.end
        case Target.CURRENT:
            return known.end if known.committed is None else known.committed.offset
        case Target.OFFSET:
            return reset.value
        case Target.SHIFT:
            if known.committed is None:
                raise BadRequest(
                    f"{name} has no committed offset that could be shifted; leave it out, or use "
                    "--to-offset, --to-earliest or --to-latest"
                )
            return known.committed.offset + reset.value
        case Target.TIME:
            return known.end if known.at_time < 0 else known.at_time


def parse_partitions(texts: Sequence[str]) -> dict[str, list[int] | None]:
    """Return the topics of "orders" and "orders:0,2"; None stands for all partitions.

    Raises BadRequest.
    """
    wanted: dict[str, list[int] | None] = {}
    for text in texts:
        name, colon, numbers = text.partition(":")
        parts = [part.strip() for part in numbers.split(",")]
        if not name or (colon and not all(part.isdigit() for part in parts)):
            raise BadRequest(f"--topic {text!r}: write a topic, or topic:0,1 for some partitions")
        if name in wanted:
            raise BadRequest(f"--topic: topic {name} is named twice")
        wanted[name] = sorted({int(part) for part in parts}) if colon else None
    return wanted


def parse_time_ms(text: str) -> int:
    """Return the ms since 1970 of an ISO 8601 time; UTC unless it names another zone.

    Raises BadRequest.
    """
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise BadRequest(
            f"--to-datetime {text!r}: write YYYY-MM-DDTHH:MM:SS.sss, in UTC or with a zone (+02:00)"
        ) from error
    return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)


def parse_duration_ms(text: str) -> int:
    """Return the ms of "P1DT2H", or of "90s", "10m", "12h", "7d". Raises BadRequest."""
    found = _ISO_DURATION.fullmatch(text)
    if found is not None and any(found.groups()):
        parts = [float(part or 0) for part in found.groups()]
        return round(sum(map(float.__mul__, parts, map(float, _ISO_UNITS_S))) * 1000)
    try:
        return round(seconds(text) * 1000)
    except PlanError as error:
        raise BadRequest(
            f"--by-duration {text!r}: write PnDTnHnMnS, or 90s, 10m, 12h, 7d"
        ) from error
