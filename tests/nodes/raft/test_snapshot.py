"""The snapshot file: Kafka's form, whole or not at all."""

from uuid import UUID

import pytest

from nodes.ids import Epoch, NodeId, Offset
from nodes.log.batch import decode_records, iter_batches
from nodes.raft.errors import SnapshotCorrupt
from nodes.raft.positions import SnapshotId
from nodes.raft.snapshot import SnapshotEncoder, file_name, id_of, read
from nodes.raft.voters import Voter, VoterEndpoint, VoterSet

ID = SnapshotId(Offset(42), Epoch(3))
VOTERS = VoterSet.of(
    [
        Voter(
            node_id=NodeId(1),
            directory_id=UUID(int=1),
            endpoints=(VoterEndpoint("CONTROLLER", "h", 9),),
        )
    ]
)


def written(voters: VoterSet = VOTERS) -> bytes:
    """A small snapshot."""
    encoder = SnapshotEncoder(ID, 7)
    parts = [encoder.header(5, voters), encoder.batch([b"a", b"b"]), encoder.batch([b"c"])]
    return b"".join([*parts, encoder.footer()])


def test_a_snapshot_has_kafkas_name_and_layout() -> None:
    """Header, version and voters in one control batch, the state, the footer; offsets from 0."""
    assert file_name(ID) == "00000000000000000042-0000000003.checkpoint"
    assert id_of(file_name(ID)) == ID
    assert id_of(file_name(ID) + ".part") is None
    data = written()
    batches = list(iter_batches(data))
    assert [header.is_control for _, header in batches] == [True, False, False, True]
    assert [header.base_offset for _, header in batches] == [0, 3, 5, 6]
    assert {header.partition_leader_epoch for _, header in batches} == {3}
    keys = [
        record.key for at, _ in (batches[0], batches[-1]) for record in decode_records(data, at)
    ]
    assert keys == [bytes([0, 0, 0, kind]) for kind in (3, 5, 6, 4)]


def test_a_written_snapshot_is_read_back() -> None:
    """The state, the time of its last record, and the voters, unless they are configured only."""
    snapshot = read(ID, written())
    assert snapshot.records == (b"a", b"b", b"c")
    assert (snapshot.last_timestamp_ms, snapshot.voters) == (5, VOTERS)
    assert read(ID, written(VoterSet.static([NodeId(1)]))).voters is None


@pytest.mark.parametrize("position", range(0, len(written()), 7))
def test_a_flipped_bit_is_detected(position: int) -> None:
    """Wherever it is, but in what a batch's CRC leaves out and nobody reads."""
    data = bytearray(written())
    data[position] ^= 1
    with pytest.raises(SnapshotCorrupt):
        read(ID, bytes(data))


@pytest.mark.parametrize("length", range(0, len(written()), 13))
def test_an_incomplete_snapshot_is_refused(length: int) -> None:
    """Not even one that ends with a whole batch."""
    with pytest.raises(SnapshotCorrupt):
        read(ID, written()[:length])


def test_extra_bytes_and_snapshots_of_another_epoch_are_refused() -> None:
    """More bytes, or the snapshot of another epoch."""
    data = written()
    footer = list(iter_batches(data))[-1][0]
    for wrong in (data + b"\0", data + data, data[:footer] + data[:100]):
        with pytest.raises(SnapshotCorrupt):
            read(ID, wrong)
    with pytest.raises(SnapshotCorrupt):
        read(SnapshotId(Offset(42), Epoch(4)), data)
