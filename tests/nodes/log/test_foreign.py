"""Other people's code as witness: kafka-python and aiokafka read our files, and write our input."""

import warnings
from pathlib import Path

import pytest
from aiokafka.record.memory_records import MemoryRecords as AiokafkaRecords

from nodes.ids import Epoch, Offset
from nodes.log.batch import (
    Record,
    check_crc,
    decode_records,
    encode_batch,
    iter_batches,
    read_header,
)
from nodes.log.log import Log, LogConfig
from nodes.storage.local import LocalDisk

with warnings.catch_warnings():
    # kafka-python loads its schemas through a deprecated part of importlib.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.default_records import DefaultRecordBatchBuilder
    from kafka.record.memory_records import MemoryRecords as KafkaPythonRecords

E4 = Epoch(4)
CONFIG = LogConfig(segment_bytes=2000, index_interval_bytes=300)
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def foreign_batch(codec: int, count: int, first: int) -> bytes:
    """A batch built by kafka-python."""
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=codec, is_transactional=0, producer_id=11, producer_epoch=2,
        base_sequence=first, batch_size=1 << 20,
    )  # fmt: skip
    for number in range(count):
        value = b"value %d " % (first + number) * 10
        builder.append(number, 5000 + first + number, b"key", value, [("h", b"x"), ("n", None)])
    return bytes(builder.build())


@pytest.mark.parametrize("codec", CODECS)
def test_foreign_batches_are_stored_byte_for_byte(tmp_path: Path, codec: str) -> None:
    """Every codec: what is read equals what was sent, but for base offset and leader epoch."""
    log = Log.open(LocalDisk(tmp_path), "t-0", CONFIG, clean=False)
    sent, first = [], 0
    for count in (1, 5, 20, 3, 7):
        data = foreign_batch(CODECS[codec], count, first)
        assert log.append_as_leader(data, E4) == (first, first + count - 1, False)
        sent.append((first, data))
        first += count
    for base, data in sent:
        stored = log.read(Offset(base), len(data), log.end_offset)
        assert stored == base.to_bytes(8, "big") + data[8:12] + b"\0\0\0\x04" + data[16:]
    log.close()
    files = b"".join(path.read_bytes() for path in sorted((tmp_path / "t-0").glob("*.log")))
    for reader in (KafkaPythonRecords(files), AiokafkaRecords(files)):
        values = []
        while (parsed := reader.next_batch()) is not None:
            assert parsed.validate_crc()
            values += [(r.offset, r.timestamp, r.key, r.value) for r in parsed]
        assert values == [(n, 5000 + n, b"key", b"value %d " % n * 10) for n in range(first)]


def test_our_batches_are_read_by_others() -> None:
    """The encoder's output, with nulls, headers and times that differ, parses elsewhere."""
    records = [
        Record(key=None, value=b"v", timestamp=7000, headers=(("h", b"1"), ("n", None))),
        Record(key=b"", value=None, timestamp=6000),
        Record(key=b"k" * 300, value=b"v" * 70000, timestamp=2**40),
    ]
    data = encode_batch(records, base_offset=Offset(2**33), leader_epoch=E4, timestamp_ms=0)
    for reader in (KafkaPythonRecords(data), AiokafkaRecords(data)):
        parsed = reader.next_batch()
        assert parsed.validate_crc()
        got = [(r.offset - 2**33, r.timestamp, r.key, r.value) for r in parsed]
        assert got == [(n, r.timestamp, r.key, r.value) for n, r in enumerate(records)]


def test_foreign_batches_are_decoded_here() -> None:
    """The decoder reads kafka-python's uncompressed batch."""
    data = foreign_batch(0, 3, 0)
    header = read_header(data)
    check_crc(data, 0, header)
    assert (header.producer_id, header.producer_epoch, header.last_sequence) == (11, 2, 2)
    assert [r.value for r in decode_records(data)] == [b"value %d " % n * 10 for n in range(3)]
    assert decode_records(data)[0].headers == (("h", b"x"), ("n", None))


def test_index_files_say_what_kafkas_dump_tool_checks(tmp_path: Path) -> None:
    """An offset entry gives a batch's last offset and position; a time entry its largest time."""
    log = Log.open(LocalDisk(tmp_path), "t-0", CONFIG, clean=False)
    for number in range(40):
        log.append_as_leader(foreign_batch(0, number % 3 + 1, sequence(number)), E4)
    log.close()
    entries = 0
    for path in sorted((tmp_path / "t-0").glob("*.log")):
        base, data = int(path.stem), path.read_bytes()
        headers = dict(iter_batches(data))
        index = path.with_suffix(".index").read_bytes()
        for at in range(0, len(index), 8):
            relative = int.from_bytes(index[at : at + 4], "big")
            position = int.from_bytes(index[at + 4 : at + 8], "big")
            assert headers[position].last_offset == base + relative
            entries += 1
        by_last = {header.last_offset: header for header in headers.values()}
        times = path.with_suffix(".timeindex").read_bytes()
        for at in range(0, len(times), 12):
            stamp = int.from_bytes(times[at : at + 8], "big")
            relative = int.from_bytes(times[at + 8 : at + 12], "big")
            assert by_last[Offset(base + relative)].max_timestamp == stamp
        assert stamp == max(header.max_timestamp for header in headers.values())
    assert entries > 10


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_of_every_codec_over_many_segments_is_read_by_others(
    tmp_path: Path, clean: bool
) -> None:
    """After rolls, a truncation, a trimmed start and a restart: the same records, the same CRCs."""
    log = Log.open(LocalDisk(tmp_path), "t-0", CONFIG, clean=False)
    codecs = list(CODECS.values())
    for number in range(60):
        log.append_as_leader(foreign_batch(codecs[number % 5], 3, number * 3), E4)
    log.truncate_to(Offset(150))
    log.advance_start(Offset(31))
    if clean:
        log.close()
    else:
        log.flush()
    log = Log.open(
        LocalDisk(tmp_path), "t-0", CONFIG, clean=clean, recovery_point=Offset(150),
        log_start=Offset(31),
    )  # fmt: skip
    for number in range(50, 70):
        log.append_as_leader(foreign_batch(codecs[number % 5], 3, number * 3), E4)
    log.close()
    paths = sorted((tmp_path / "t-0").glob("*.log"))
    assert len(paths) > 5
    for parser in (KafkaPythonRecords, AiokafkaRecords):
        expected = int(paths[0].stem)
        assert expected <= 31
        for path in paths:
            assert int(path.stem) == expected
            reader = parser(path.read_bytes())
            while (parsed := reader.next_batch()) is not None:
                assert parsed.validate_crc()
                for record in parsed:
                    assert record.offset == expected
                    assert record.value == b"value %d " % expected * 10
                    assert record.timestamp == 5000 + expected
                    expected += 1
        assert expected == 210


def sequence(number: int) -> int:
    """Records in the batches before batch `number`, of one, two, three, one... records."""
    return sum(n % 3 + 1 for n in range(number))
