"""Kafka's own tool reads the records of our group coordinator."""

import json
import re
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest

from nodes.coordinators.groups.classic.requests import (
    Client,
    Identity,
    Join,
    Leaver,
    MemberProtocol,
    Sync,
)
from nodes.coordinators.groups.consumer.requests import Heartbeat
from nodes.coordinators.groups.coordinator import GroupCoordinator
from nodes.coordinators.groups.settings import ClassicSettings, GroupSettings
from nodes.ids import Epoch
from nodes.log.batch import Record, encode_batch
from nodes.log.config import LogConfig
from nodes.log.log import Log
from nodes.storage.local import LocalDisk
from tests.support.foreign import java
from tests.support.nodes.group_offsets import commit_of
from tests.support.nodes.group_topics import FakeTopics
from tests.support.nodes.machine_driver import Appended, MachineDriver
from tests.support.require import require

pytestmark = pytest.mark.slow

DUMP = "kafka.tools.DumpLogSegments"
SETTINGS = GroupSettings(classic=ClassicSettings(initial_rebalance_delay_ms=0))
SUBSCRIPTION = b"\0\0\0\0\0\1\0\5topic\xff\xff\xff\xff"


def life() -> MachineDriver[GroupCoordinator]:
    """Offsets in both versions, and a group of each kind that comes and goes."""
    topics = FakeTopics(topic=2)
    driver = MachineDriver(lambda: GroupCoordinator(SETTINGS, lambda: topics, Random(7)))
    for values in ({"topic_id": UUID(int=5)}, {"retention_ms": 1_000}):
        commit = commit_of("simple", {("topic", 0): 7}, metadata="note", **values)
        driver.ask(lambda m, t, now, commit=commit: m.commit_offsets(commit, t, now))
    driver.ask(lambda m, t, now: m.delete_group("simple", t, now))

    join = Join(
        Identity("classic"),
        Client("client", "/host"),
        "consumer",
        (MemberProtocol("range", SUBSCRIPTION),),
        10_000,
        10_000,
        3,
    )
    token = driver.perform(lambda m, t, now: m.join(join, t, now))
    driver.advance(0)
    joined = driver.answers[token]
    member, generation = joined["member_id"], joined["generation_id"]
    who = Identity("classic", member)
    sync = Sync(who, generation, "consumer", "range", ((member, b"mine"),))
    driver.ask(lambda m, t, now: m.sync(sync, t, now))
    driver.ask(lambda m, t, now: m.leave("classic", (Leaver(member),), t, now))
    driver.ask(lambda m, t, now: m.delete_group("classic", t, now))

    for epoch in (0, -1):
        beat = Heartbeat(
            "modern", "m", epoch, rebalance_timeout_ms=1_000, topic_names=("topic",), owned={}
        )
        driver.ask(lambda m, t, now, beat=beat: m.consumer_heartbeat(beat, t, now))
    driver.ask(lambda m, t, now: m.delete_group("modern", t, now))
    return driver


def dumped(text: str) -> list[tuple[int, dict[str, Any], dict[str, Any] | None]]:
    """Of each record that the tool prints: its type, its key, its value (None: removed)."""
    found = []
    for key, value in re.findall(r" key: (\{.*\}) payload: (.*)$", text, re.MULTILINE):
        decoded = json.loads(key)
        data = None if value == "<DELETE>" else json.loads(value)["data"]
        found.append((int(decoded["type"]), decoded["data"], data))
    return found


def test_kafka_dumps_the_records(tmp_path: Path) -> None:
    """Of every type that we write, and every tombstone."""
    require("kafka-tools")
    log = Log.open(LocalDisk(tmp_path), "__consumer_offsets-0", LogConfig(), clean=True)
    entries = life().log
    for entry in entries:
        assert isinstance(entry, Appended)
        batch = encode_batch(
            [Record(key=entry.record.key, value=entry.record.value)],
            timestamp_ms=entry.position.timestamp,
        )
        log.append_as_leader(batch, Epoch(1))
    log.close()
    segment = tmp_path / "__consumer_offsets-0" / f"{0:020}.log"
    done = java.run(DUMP, ("--offsets-decoder", "--files", str(segment)))
    found = dumped(done.stdout)
    assert len(found) == len(entries), done.stdout + done.stderr
    written = {kind for kind, _, value in found if value is not None}
    assert written == {1, 2, 3, 5, 6, 7, 8}
    assert {kind for kind, _, value in found if value is None} == {*written, 4}
    assert found[0][1] == {"group": "simple", "topic": "topic", "partition": 0}
    values = [value for kind, _, value in found if kind == 1 and value is not None]
    assert [(each["offset"], each["metadata"]) for each in values] == [(7, "note")] * 2
    assert values[0]["leaderEpoch"] == 3
    assert values[1]["expireTimestamp"] > values[1]["commitTimestamp"]
