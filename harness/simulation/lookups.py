"""A client that asks the leaders for offsets by time (ListOffsets).

During the run it asks at random moments for the first and last offset, for the largest timestamp,
and for times between the first and the last record's. The answers are judged where they are made
(`harness.simulation.invariants.lookups`), so nothing is recorded. In the end a client that has read
a whole partition knows the right answers itself.
"""

import asyncio
import random
from collections.abc import Sequence
from functools import partial
from typing import Final

from harness.plans.plan import Topic
from harness.simulation.committed_reads import answered_in_time
from harness.simulation.invariants.broken import InvariantBroken
from harness.workloads.clients.own.cluster import Cluster
from harness.workloads.clients.own.offsets import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    BoundsUnknown,
    Found,
    find,
)
from harness.workloads.environment import ClientEnvironment
from nodes.log.batch import Record

CLIENT: Final = 3
"""The number in this client's client id."""
MAX_PAUSE_S: Final = 2.0
SPECIAL: Final = (EARLIEST, LATEST, MAX_TIMESTAMP, 0)
MARGIN_MS: Final = 20
"""How far before the first and behind the last record's time a lookup may be."""
NAME: Final = "lookups-agree-with-reads"
AT_THE_END: Final = 12
"""Lookups of a partition that was read."""


class _Times:
    """The span of the timestamps that are known of a partition, in milliseconds since 1970."""

    def __init__(self) -> None:
        self._known: list[int] = []

    def choose(self, rng: random.Random) -> int:
        """Return what to ask for next."""
        if not self._known or rng.random() < 0.4:
            return rng.choice(SPECIAL)
        if rng.random() < 0.3:
            return rng.choice(self._known) + rng.randint(0, 1)  # a record's time, or just behind it
        return rng.randint(min(self._known) - MARGIN_MS, max(self._known) + MARGIN_MS)

    def learn(self, timestamp_ms: int) -> None:
        """Remember the timestamp of a record; -1 is none."""
        if timestamp_ms >= 0 and timestamp_ms not in self._known:
            self._known.append(timestamp_ms)


async def ask_by_time(
    bootstrap: str,
    topics: Sequence[Topic],
    lookups_per_s: float,
    world: ClientEnvironment,
    stop: asyncio.Event,
) -> None:
    """Ask for random times of random partitions until `stop` is set."""
    rng = world.rng
    clusters: dict[str, Cluster] = {
        topic.name: world.connect(bootstrap, topic.name, CLIENT) for topic in topics
    }
    times: dict[tuple[str, int], _Times] = {
        (topic.name, partition): _Times()
        for topic in topics
        for partition in range(topic.partitions)
    }
    partitions = list(times)
    while not stop.is_set():
        await asyncio.sleep(min(rng.expovariate(lookups_per_s), MAX_PAUSE_S))
        topic, partition = rng.choice(partitions)
        known = times[topic, partition]
        try:
            found = await find(clusters[topic], partition, known.choose(rng))
        except BoundsUnknown:
            continue
        known.learn(found.timestamp_ms)
    for cluster in clusters.values():
        await cluster.close()


async def check_lookups(
    cluster: Cluster, partition: int, records: Sequence[Record], rng: random.Random
) -> None:
    """Ask for times around those of a partition's records, which are all of its committed ones, and
    for the largest timestamp. Raises InvariantBroken.
    """
    answers = _all_answers(records)
    if not answers:
        return
    times = [rng.choice(answers).timestamp_ms + rng.randint(-1, 1) for _ in range(AT_THE_END)]
    for wanted_ms in (MAX_TIMESTAMP, *times):
        later = (each for each in answers if each.timestamp_ms >= wanted_ms)
        right = answers[-1] if wanted_ms == MAX_TIMESTAMP else next(later, Found(-1, -1))
        ask = partial(find, cluster, partition, wanted_ms)
        found = await answered_in_time(ask, BoundsUnknown)  # None is for others to judge
        if found not in (None, right):
            raise InvariantBroken(NAME, f"{found} is the answer for {wanted_ms}, and not {right}")


def _all_answers(records: Sequence[Record]) -> Sequence[Found]:
    """Return the records that are the first ones at or after some time: those that are later than
    all before. The last of them has the largest timestamp.
    """
    answers: list[Found] = []
    for record in records:
        if not answers or record.timestamp > answers[-1].timestamp_ms:
            answers.append(Found(record.offset, record.timestamp))
    return answers
