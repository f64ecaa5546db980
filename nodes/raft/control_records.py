"""The control records of the metadata log: the records of the quorum itself, in Kafka's format.

The key of a control record is its version and its type, two bytes each; the value is a message of
Kafka's schema. Unknown types are ignored (a newer quorum may write them). A known type that cannot
be read raises ControlRecordError, because a voter that misreads the voter set could elect wrongly.
"""

import io
import struct
from collections.abc import Iterator
from typing import Any, Final

from kio.schema.k_raft_version_record.v0.data import KRaftVersionRecord
from kio.schema.leader_change_message.v0.data import LeaderChangeMessage
from kio.schema.leader_change_message.v0.data import Voter as LeaderChangeVoter
from kio.schema.snapshot_footer_record.v0.data import SnapshotFooterRecord
from kio.schema.snapshot_header_record.v0.data import SnapshotHeaderRecord
from kio.schema.types import BrokerId
from kio.schema.voters_record.v0.data import (
    Endpoint,
    KRaftVersionFeature,
    VotersRecord,
)
from kio.schema.voters_record.v0.data import Voter as WireVoter
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16, i64, u16

from nodes.ids import NodeId
from nodes.log.batch import BatchHeader, Record, decode_records
from nodes.raft.errors import ControlRecordError
from nodes.raft.messages import AppendLeaderChange
from nodes.raft.voters import Voter, VoterEndpoint, VoterSet

LEADER_CHANGE: Final = 2
SNAPSHOT_HEADER: Final = 3
SNAPSHOT_FOOTER: Final = 4
KRAFT_VERSION: Final = 5
KRAFT_VOTERS: Final = 6

DYNAMIC_KRAFT_VERSION: Final = 1
"""kraft.version 1: voters are identified by directory id, and may change (KIP-853)."""

_KEY: Final = struct.Struct(">hh")
_TYPES: Final[dict[int, Any]] = {
    LEADER_CHANGE: LeaderChangeMessage,
    SNAPSHOT_HEADER: SnapshotHeaderRecord,
    SNAPSHOT_FOOTER: SnapshotFooterRecord,
    KRAFT_VERSION: KRaftVersionRecord,
    KRAFT_VOTERS: VotersRecord,
}
_CODES: Final = {cls: code for code, cls in _TYPES.items()}

ControlMessage = (
    LeaderChangeMessage
    | SnapshotHeaderRecord
    | SnapshotFooterRecord
    | KRaftVersionRecord
    | VotersRecord
)


def record_of(message: ControlMessage) -> Record:
    """The control record that carries `message`."""
    buffer = io.BytesIO()
    entity_writer(type(message))(buffer, message)
    return Record(key=_KEY.pack(0, _CODES[type(message)]), value=buffer.getvalue())


def message_of(record: Record) -> ControlMessage | None:
    """The message in a control record; None for an unknown type."""
    key, value = record.key or b"", record.value or b""
    if len(key) < _KEY.size:
        raise ControlRecordError(f"a control record has the key {key!r}")
    _, code = _KEY.unpack_from(key)
    cls = _TYPES.get(code)
    if cls is None:
        return None
    try:
        message, _ = entity_reader(cls)(value, 0)
    except Exception as error:  # kio's readers raise unrelated types
        raise ControlRecordError(f"a {cls.__name__} cannot be read: {error!r}") from error
    return message  # type: ignore[no-any-return]


def control_messages(
    data: bytes, position: int, header: BatchHeader
) -> Iterator[tuple[int, ControlMessage]]:
    """Offset and message of each known control record; none if the batch is no control batch."""
    if header.is_control:
        for record in decode_records(data, position):
            message = message_of(record)
            if message is not None:
                yield record.offset, message


def leader_change(action: AppendLeaderChange) -> LeaderChangeMessage:
    """The first record of a new leader (KIP-595)."""
    return LeaderChangeMessage(
        version=i16(0),
        leader_id=BrokerId(action.leader_id),
        voters=tuple(LeaderChangeVoter(voter_id=BrokerId(voter)) for voter in action.voters),
        granting_voters=tuple(
            LeaderChangeVoter(voter_id=BrokerId(voter)) for voter in action.granting_voters
        ),
    )


def snapshot_header(last_timestamp_ms: int) -> SnapshotHeaderRecord:
    """The first record of a snapshot: the time of the last record that it contains."""
    return SnapshotHeaderRecord(
        version=i16(0), last_contained_log_timestamp=i64(max(last_timestamp_ms, 0))
    )


def snapshot_footer() -> SnapshotFooterRecord:
    """The last record of a complete snapshot."""
    return SnapshotFooterRecord(version=i16(0))


def kraft_version(level: int) -> KRaftVersionRecord:
    """The finalized kraft.version."""
    return KRaftVersionRecord(version=i16(0), k_raft_version=i16(level))


def voters_record(voters: VoterSet) -> VotersRecord:
    """The voter set as a record."""
    feature = KRaftVersionFeature(
        min_supported_version=i16(0), max_supported_version=i16(DYNAMIC_KRAFT_VERSION)
    )
    rows = tuple(
        WireVoter(
            voter_id=BrokerId(voter.node_id),
            voter_directory_id=voter.directory_id,
            endpoints=tuple(
                Endpoint(name=e.listener, host=e.host, port=u16(e.port)) for e in voter.endpoints
            ),
            k_raft_version_feature=feature,
        )
        for voter in voters.voters
    )
    return VotersRecord(version=i16(0), voters=rows)


def voter_set(record: VotersRecord) -> VoterSet:
    """The voter set in a record."""
    return VoterSet.of(
        Voter(
            node_id=NodeId(row.voter_id),
            directory_id=row.voter_directory_id,
            endpoints=tuple(VoterEndpoint(e.name, e.host, e.port) for e in row.endpoints),
        )
        for row in record.voters
    )
