"""How fast a broker cleans a compacted log: the log's bytes, by the time of one cleaning.

A topic of one replica is filled while its min.cleanable.dirty.ratio keeps the cleaner away. Then
the ratio is set to 0. The time runs until the broker's cleaner-offset-checkpoint says that all but
the active segment is clean: Kafka's cleaner and ours keep that file. The cleaner looks for work
every BACKOFF_MS, which the time includes. The files have to be on this machine.
"""

import os
import time
from pathlib import Path
from typing import Final, NamedTuple

from harness.bench import measurement
from harness.bench.clients.workers import MeasureError, Stop, Stopped, run_together
from harness.bench.measurement import Values
from harness.bench.options import Options
from harness.bench.points import Point
from harness.bench.systems import RunningSystem

BACKOFF_MS: Final = 100
PROPERTIES: Final = {"log.cleaner.backoff.ms": str(BACKOFF_MS)}
"""Server properties of the measured clusters."""
LOG_BYTES: Final = 128 << 20
SEGMENT_BYTES: Final = 16 << 20
KEYS_SHARE: Final = 0.5
"""The number of keys, as a share of the number of messages: 43 % of the messages stay."""
NEVER, AT_ONCE = "1.0", "0.0"
"""Dirty ratios: more than 1.0 of a log is never dirty."""
CHECKPOINT: Final = "cleaner-offset-checkpoint"
LOOK_S: Final = 0.005
CLEANED_S: Final = 120.0
WRITTEN_S: Final = 60.0


class Dirty(NamedTuple):
    """What can be cleaned: the bytes of all segments but the active one, and where that begins."""

    size: int
    end_offset: int


def measure(
    point: Point, system: RunningSystem, topic: str, options: Options, stop: Stop
) -> Values:
    """Create the topic, fill it, and measure its cleaning. Raises MeasureError, Stopped."""
    log = filled(point, system, topic, options, stop)
    size = dirty_part(log).size
    taken_s = clean(log, system, topic, stop)
    return {"mb_per_s": size / 1e6 / taken_s, "seconds": taken_s, "bytes": float(LOG_BYTES)}


def filled(point: Point, system: RunningSystem, topic: str, options: Options, stop: Stop) -> Path:
    """Create and fill the topic; return its directory. Raises MeasureError, Stopped."""
    assert system.files is not None
    system.admin.create(
        topic,
        partitions=1,
        replicas=1,
        settings={
            "cleanup.policy": "compact",
            "segment.bytes": str(SEGMENT_BYTES),
            "min.cleanable.dirty.ratio": NEVER,
        },
    )
    leader, address = system.admin.leader(topic)
    messages = LOG_BYTES // options.size
    job = {
        **measurement.job_fields(options),
        "kind": "keyed-writer",
        "address": address,
        "topic": topic,
        "size": options.size,
        "messages_per_send": point.messages_per_send,
        "sends": messages // point.messages_per_send,
        "keys": int(messages * KEYS_SHARE),
        "in_flight": measurement.WRITES_IN_FLIGHT,
    }
    run_together([(job, ())], stop, margin_s=WRITTEN_S)
    os.sync()  # a log that is cleaned is on the disk for long; what was written just now is not
    return system.files(leader) / f"{topic}-0"


def clean(log: Path, system: RunningSystem, topic: str, stop: Stop) -> float:
    """Let the broker clean the topic; return the seconds. Raises MeasureError, Stopped.

    `log` is the directory that `filled` returned.
    """
    end_offset = dirty_part(log).end_offset
    begun_s = time.monotonic()
    system.admin.configure(topic, {"min.cleanable.dirty.ratio": AT_ONCE})
    while clean_up_to(log.with_name(CHECKPOINT), topic) < end_offset:
        if stop():
            raise Stopped
        if time.monotonic() > begun_s + CLEANED_S:
            raise MeasureError(f"{system.name}: {topic} is not clean after {CLEANED_S:g} s")
        time.sleep(LOOK_S)
    return time.monotonic() - begun_s


def dirty_part(log: Path) -> Dirty:
    """Return what a cleaner can clean in a partition's directory. Raises MeasureError."""
    segments = sorted(log.glob("*.log"))
    if len(segments) < 2:
        raise MeasureError(f"{log} has no segment besides the active one")
    size = sum(each.stat().st_size for each in segments[:-1])
    return Dirty(size, int(segments[-1].stem))


def clean_up_to(checkpoint: Path, topic: str) -> int:
    """Return the offset up to which partition 0 of a topic is clean, by the broker's file.

    0 if the file does not name it yet. The lines of the file: its version, the number of entries,
    and for each entry topic, partition and offset.
    """
    try:
        lines = checkpoint.read_text().splitlines()
    except FileNotFoundError:
        return 0
    for line in lines[2:]:
        name, partition, offset = line.split()
        if (name, partition) == (topic, "0"):
            return int(offset)
    return 0
