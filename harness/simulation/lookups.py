"""A client that asks the leaders for offsets by time, at random moments (ListOffsets).

It asks for the first and last offset, for the largest timestamp, and for times between the first
and the last record's. The answers are judged where they are made
(`harness.simulation.invariants.lookups`), so nothing is recorded.
"""

import asyncio
import random
from collections.abc import Sequence
from typing import Final

from harness.plans.plan import Topic
from harness.workloads.clients.own.cluster import Cluster
from harness.workloads.clients.own.offsets import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    BoundsUnknown,
    find,
)
from harness.workloads.environment import ClientEnvironment

CLIENT: Final = 3
"""The number in this client's client id."""
MAX_PAUSE_S: Final = 2.0
SPECIAL: Final = (EARLIEST, LATEST, MAX_TIMESTAMP, 0)
MARGIN_MS: Final = 20
"""How far before the first and behind the last record's time a lookup may be."""


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
