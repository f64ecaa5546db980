"""Batches and logs for tests."""

from nodes.ids import Epoch, Offset
from nodes.log.batch import Record, encode_batch, iter_batches, read_header
from nodes.log.log import Log, LogAppendInfo, LogConfig
from nodes.log.transactions.markers import Marker
from nodes.storage.disk import Disk

DIRECTORY = "t-0"
SMALL = LogConfig(segment_bytes=400, index_interval_bytes=100, max_message_bytes=1000)


def batch(
    count: int = 1,
    *,
    base_offset: int = 0,
    epoch: int = -1,
    timestamp_ms: int = 1000,
    value: bytes = b"value",
    producer: tuple[int, int, int] = (-1, -1, -1),
    transactional: bool = False,
) -> bytes:
    """A batch of `count` records; `producer` is id, epoch and base sequence."""
    producer_id, producer_epoch, base_sequence = producer
    return encode_batch(
        [Record(value=value + b"%d" % number) for number in range(count)],
        base_offset=Offset(base_offset),
        leader_epoch=Epoch(epoch),
        timestamp_ms=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
    )


def open_log(
    disk: Disk, *, clean: bool = False, recovery_point: int = 0, config: LogConfig = SMALL
) -> Log:
    """The test log of a disk."""
    return Log.open(disk, DIRECTORY, config, clean=clean, recovery_point=Offset(recovery_point))


def content(log: Log) -> list[bytes]:
    """Every batch of a log, read as a consumer would."""
    batches: list[bytes] = []
    offset = log.start_offset
    while offset < log.end_offset:
        data = log.read(offset, 1 << 20, log.end_offset)
        assert data, f"nothing at {offset}, below the end {log.end_offset}"
        for pos, header in iter_batches(data):
            batches.append(data[pos : pos + header.size])
            offset = header.next_offset
    return batches


def write_in_transaction(
    log: Log,
    producer: tuple[int, int, int],
    count: int = 1,
    *,
    value: bytes = b"value",
    timestamp_ms: int = 1000,
) -> LogAppendInfo:
    """Append a transactional batch, verified if it has to be; `producer` as in `batch`."""
    sent = batch(
        count, producer=producer, value=value, transactional=True, timestamp_ms=timestamp_ms
    )
    guard = log.producers.start_verification(read_header(sent), 0, supports_epoch_bump=False)
    return log.append_as_leader(sent, Epoch(max(log.last_epoch, 0)), guard=guard)


def end_transaction(
    log: Log,
    producer_id: int,
    epoch: int = 0,
    *,
    committed: bool = False,
    coordinator_epoch: int = 0,
    transaction_version: int = 0,
) -> LogAppendInfo:
    """Append a marker; an abort by default."""
    marker = Marker(producer_id, epoch, coordinator_epoch, committed)
    leader_epoch = Epoch(max(log.last_epoch, 0))
    return log.append_marker(marker, leader_epoch, 1000, transaction_version=transaction_version)
