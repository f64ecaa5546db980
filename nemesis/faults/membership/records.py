"""Records of an unused topic are written and deleted (DeleteRecords, KIP-107).

The topics of the run are left alone: the record of a run does not tell which of their records an
administrator deleted. The fault also asks for offsets by time, because a log that starts inside a
segment is searched in another way.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from nemesis.administration import PartitionKey
from nemesis.faults.fault import Fault, Injection, Measurement, Option
from nemesis.faults.membership.base import STEP_MS, AdminFault, count, draw, layer
from nemesis.faults.membership.topics import replicas_of_scratch_topics, scratch_topic
from nemesis.hosts import Hosts

EARLIEST: Final = -2
LATEST: Final = -1
MAX_TIMESTAMP: Final = -3
FIRST_MS: Final = 1_700_000_000_000
SPAN_MS: Final = 10_000
"""The records' timestamps are between `FIRST_MS` and so much later, in any order."""
CONFIGS: Final = {"retention.ms": "-1", "segment.bytes": "1000"}
"""Only DeleteRecords removes records, sometimes with whole segments."""
STEPS: Final = 4
"""How often a tick writes and deletes in one partition, if the cluster answers in time."""
TICK_MS: Final = STEP_MS // 2
"""A tick asks nothing more after this time: over slow links a request takes long, and the heal
waits for the tick."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete(AdminFault):
    """See the module; the heal deletes the topic."""

    name: str = "records.delete"
    about: str = "records of an unused topic are written and deleted; the heal deletes the topic"
    tick_ms: int | None = TICK_MS
    options: tuple[Option, ...] = (
        Option(
            name="partitions", default="2", about="how many partitions it has", read=count(1, 100)
        ),
    )

    def inject(self, hosts: Hosts, injection: Injection) -> None:
        """Create the topic, and delete the first records."""
        hosts.cluster.create_topic(
            layer(injection),
            scratch_topic(injection),
            partitions=int(injection.detail("partitions")),
            replicas=replicas_of_scratch_topics(hosts),
            configs=CONFIGS,
        )
        self._write_and_delete(hosts, injection, draw(injection))

    def tick(self, hosts: Hosts, injection: Injection, elapsed_ms: int) -> None:
        """Write and delete in one partition; go on with another one when nobody answers."""
        self._write_and_delete(hosts, injection, random.Random(f"{layer(injection)}/{elapsed_ms}"))

    def _write_and_delete(self, hosts: Hosts, injection: Injection, rng: random.Random) -> None:
        cluster, now_s = hosts.cluster, hosts.task_runner.now_s
        at = scratch_topic(injection), rng.randrange(int(injection.detail("partitions")))
        end_s = now_s() + TICK_MS / 1000
        for _ in range(STEPS):
            if not cluster.write_records(at, _times(rng)):
                return
            low, high = cluster.find_offset(at, EARLIEST), cluster.find_offset(at, LATEST)
            if low is None or high is None or low > high:
                return
            cluster.delete_records(at, rng.randint(low, high))
            for wanted in (MAX_TIMESTAMP, FIRST_MS, *_times(rng)):
                if now_s() > end_s:
                    return
                cluster.find_offset(at, wanted)

    def measure_effect(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if a log starts behind its first record."""
        topic = scratch_topic(injection)
        starts: dict[PartitionKey, int | None] = {
            (topic, number): hosts.cluster.find_offset((topic, number), EARLIEST)
            for number in range(int(injection.detail("partitions")))
        }
        return Measurement(
            confirmed=any(starts.values()),
            evidence=f"the logs of {topic} start at {', '.join(map(str, starts.values()))}",
        )


def _times(rng: random.Random) -> Sequence[int]:
    return [FIRST_MS + rng.randrange(SPAN_MS) for _ in range(rng.randint(1, 4))]


FAULTS: tuple[Fault, ...] = (Delete(),)
