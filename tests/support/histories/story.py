"""A tiny run to be told in a few lines, and then bent: the base of all golden histories.

`healthy()` is a run of three topics with one partition each: `none` (acks=0), `one` (acks=1), `all`
(acks=all, min ISR 2, idempotent). Node 1 leads everything in epoch 0 and is killed from 9.5 s to
14 s; node 2 leads from 10 s on, in epoch 1, which starts at offset 10; node 1 knows of it at 15 s.
One producer per topic sends values 1..20 to offsets 0..19, ten before and ten after the kill; one
consumer per topic reads them all, ten at a time. Everything is as it should be.
"""

import copy
import itertools
import json
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pyarrow as pa

from checkers.history.history import (
    CLUSTER,
    FAULTS,
    HISTORY,
    METADATA_TOPIC,
    PRODUCER_EPOCH,
    REPLICA_ENDS,
    REPLICAS,
    RunSources,
    table,
)
from checkers.history.run_file import RunFile

S = 1_000_000_000
NONE, ONE, ALL = "none", "one", "all"
TOPICS = (NONE, ONE, ALL)
ACKS = {NONE: 0, ONE: 1, ALL: -1}
PRODUCER = {NONE: 1, ONE: 2, ALL: 3}
CONSUMER = {NONE: 11, ONE: 12, ALL: 13}
READER = 21
ASKER = 31
Row = dict[str, Any]
WHOLE = RunFile(
    finished=("settle", "final reads", "collect"),
    epoch_problems=(),
    settled=True,
    final_reads_complete=True,
    ended_ns=62 * S,
)
"""A run that came to its end."""


def value(client: int, sequence: int) -> int:
    """The value that a client sends as its `sequence`-th."""
    return client << 32 | sequence


def v(topic: str, sequence: int) -> int:
    """The value that the topic's usual producer sends as its `sequence`-th."""
    return value(PRODUCER[topic], sequence)


@dataclass(slots=True)
class Story:
    """A run in the making; the lists are rows of the run's tables, free to be edited."""

    plan: dict[str, Any]
    history: list[Row] = field(default_factory=list)
    cluster: list[Row] = field(default_factory=list)
    faults: list[Row] = field(default_factory=list)
    replicas: list[Row] = field(default_factory=list)
    replica_ends: list[Row] = field(default_factory=list)
    run_file: RunFile = WHOLE
    ops: int = 0

    def row(self, f: str, client: int, at_s: float, **columns: Any) -> Row:
        """Append a row that takes 1 ms from `at_s` on; returned to be bent further."""
        made = {
            "op": self.next_op(),
            "client": client,
            "f": f,
            "type": "ok",
            "invoke_ns": round(at_s * S),
            "complete_ns": round(at_s * S) + 1_000_000,
            **columns,
        }
        self.history.append(made)
        return made

    def next_op(self) -> int:
        """A new operation number."""
        self.ops += 1
        return self.ops

    def send(self, topic: str, sequence: int, offset: int | None, at_s: float, **more: Any) -> Row:
        """A send by the topic's producer, acknowledged unless `type` says otherwise."""
        columns = {
            "topic": topic,
            "partition": 0,
            "value": v(topic, sequence),
            "offset": None if topic == NONE else offset,
            "acks": ACKS[topic],
        }
        client = more.pop("client", PRODUCER[topic])
        return self.row("send", client, at_s, **(columns | more))

    def poll(self, topic: str, at_s: float, records: dict[int, int | None], **more: Any) -> None:
        """One poll that returns {offset: value}."""
        op = self.next_op()
        client = more.pop("client", CONSUMER[topic])
        for offset, held in records.items():
            columns = {"op": op, "topic": topic, "partition": 0, "offset": offset, "value": held}
            self.row("poll", client, at_s, **(columns | more))

    def assign(self, topic: str, at_s: float, offset: int, **more: Any) -> None:
        """The topic's consumer goes to an offset."""
        columns = {"topic": topic, "partition": 0, "offset": offset}
        self.row("assign", CONSUMER[topic], at_s, **(columns | more))

    def watermark(self, topic: str, at_s: float, offset: int, **more: Any) -> Row:
        """A client asks for the end offset."""
        columns = {"topic": topic, "partition": 0, "offset": offset}
        return self.row("watermark", more.pop("client", ASKER), at_s, **(columns | more))

    def new_epoch(
        self, client: int, from_s: float, to_s: float, *reasons: str, **more: Any
    ) -> None:
        """The client left its producer epoch, for reasons in partition 1 of ALL."""
        op = self.next_op()
        for error in reasons:
            columns = {"op": op, "topic": ALL, "partition": 1, "error": error}
            columns["complete_ns"] = round(to_s * S)
            self.row(PRODUCER_EPOCH, client, from_s, **(columns | more))

    def final(self, topic: str) -> dict[int, Row]:
        """The final read of a topic by offset, to be edited in place."""
        return {r["offset"]: r for r in self.rows("final-read", topic)}

    def rows(self, f: str, topic: str | None = None) -> list[Row]:
        """The history's rows of a kind."""
        return [r for r in self.history if r["f"] == f and topic in (None, r.get("topic"))]

    def read_in_the_end(self, topic: str, offset: int, held: int | None, **more: Any) -> None:
        """One more record in the final log."""
        columns = {"topic": topic, "partition": 0, "offset": offset, "value": held}
        self.row("final-read", READER, 60, **(columns | more))

    def forget(self, *, topic: str, values: set[int], but_polls: bool = False) -> None:
        """Take values out of the final log, and out of all polls unless `but_polls`."""
        where = {"final-read"} if but_polls else {"final-read", "poll"}
        self.history = [
            r
            for r in self.history
            if not (r["f"] in where and r["topic"] == topic and r["value"] in values)
        ]

    def leader(self, topic: str, at_s: float, leader: int, epoch: int, isr: list[int]) -> None:
        """The controller's record of a partition's leader and ISR."""
        self.cluster.append(
            {
                "at_ns": round(at_s * S),
                "kind": "leader",
                "topic": topic,
                "partition": 0,
                "leader": leader,
                "leader_epoch": epoch,
                "partition_epoch": len(self.cluster),
                "isr": isr,
                "source": "story",
            }
        )

    def file_by_epochs(self, topic: str) -> None:
        """Cut the batches in the topic's files anew: each belongs to the epoch that the leader's
        answers, as they are now, give its offsets to."""
        told = [r for r in self.cluster if (r["kind"], r["topic"]) == ("epoch", topic)]
        starts = sorted((r["start_offset"], r["leader_epoch"]) for r in told)
        mine = [r for r in self.replicas if r["topic"] == topic]
        end = max(r["last_offset"] for r in mine) + 1
        cuts = {r["base_offset"] for r in mine} | {at for at, _ in starts if at < end} | {end}
        self.replicas = [r for r in self.replicas if r["topic"] != topic]
        for base, after in itertools.pairwise(sorted(cuts)):
            epoch = max(epoch for at, epoch in starts if at <= base)
            where = {"base_offset": base, "last_offset": after - 1, "leader_epoch": epoch}
            made = {"crc": base, "digest": f"{topic}-{base}", "size": 100 * (after - base)}
            for node in sorted({r["node"] for r in mine}):
                row = {"node": node, "topic": topic, "partition": 0}
                self.replicas.append(row | where | made)

    def set_topic(self, topic: str, **settings: Any) -> None:
        """Change the plan of a topic."""
        for planned in self.plan["topics"]:
            if planned["name"] == topic:
                planned.update(settings)

    def sources(self) -> RunSources:
        """The run as the checker takes it."""
        return RunSources(
            history=(table(HISTORY, self.history),),
            cluster=(table(CLUSTER, self.cluster),),
            faults=(table(FAULTS, self.faults),),
            replicas=(table(REPLICAS, self.replicas),),
            replica_ends=(table(REPLICA_ENDS, [*self.replica_ends, *self._metadata_logs()]),),
            run_file=self.run_file,
        )

    def _metadata_logs(self) -> list[Row]:
        """The nodes' copies of the metadata log, where the story does not tell of them."""
        if any(row["topic"] == METADATA_TOPIC for row in self.replica_ends):
            return []
        copy_ = {"topic": METADATA_TOPIC, "partition": 0, "start_offset": 0, "end_offset": 0}
        copy_ |= {"high_watermark": 0}
        return [copy_ | {"node": node} for node in sorted({r["node"] for r in self.replica_ends})]

    def tables(self) -> dict[str, pa.Table]:
        """The run's tables by name."""
        found = self.sources()
        return {
            "history": found.history[0],
            "cluster": found.cluster[0],
            "faults": found.faults[0],
            "replicas": found.replicas[0],
            "replica_ends": found.replica_ends[0],
        }


PLAN: dict[str, Any] = {
    "name": "golden",
    "system": "nodes",
    "topics": [
        {
            "name": topic,
            "acks": acks,
            "partitions": 1,
            "replication_factor": 3,
            "min_insync_replicas": 2,
            "idempotence": topic == ALL,
        }
        for topic, acks in ACKS.items()
    ],
    "workload": {"producers": 1, "consumers": 1, "max_in_flight": 5, "message_timeout_ms": 5000},
    "nemesis": {"faults": ["kill"]},
    "expect": [],
}


def healthy() -> Story:
    """The run of this module's description."""
    told = _healthy()
    return Story(
        plan=copy.deepcopy(told.plan),
        history=[row.copy() for row in told.history],
        cluster=copy.deepcopy(told.cluster),  # rows with lists
        faults=[row.copy() for row in told.faults],
        replicas=[row.copy() for row in told.replicas],
        replica_ends=[row.copy() for row in told.replica_ends],
        ops=told.ops,
    )


@cache
def _healthy() -> Story:
    """The same, told once: thousands of stories begin with it."""
    story = Story(plan=PLAN)
    clients = [*PRODUCER.values(), *CONSUMER.values(), READER, ASKER]
    for client in clients:
        story.row("start", client, 0)
    for topic in TOPICS:
        _traffic(story, topic)
        _cluster(story, topic)
        _files(story, topic)
    story.faults.append(
        {
            "fault_id": 0,
            "fault": "kill",
            "label": "kill node 1",
            "targets": json.dumps({"nodes": [1]}),
            "planned_ms": 9500,
            "started_ns": round(9.5 * S),
            "effective_ns": round(9.6 * S),
            "healed_ns": 14 * S,
            "effect": "process of node 1 gone",
            "took_effect": True,
        }
    )
    for client in clients:
        story.row("end", client, 61)
    return story


def _traffic(story: Story, topic: str) -> None:
    for sequence in range(1, 21):
        at_s = sequence * 0.5 if sequence <= 10 else 6 + sequence * 0.5
        story.send(topic, sequence, sequence - 1, at_s)
    story.assign(topic, 0.1, 0)
    for start, at_s in ((0, 6), (10, 17)):
        story.poll(topic, at_s, {o: v(topic, o + 1) for o in range(start, start + 10)})
    story.watermark(topic, 6, 10)
    story.watermark(topic, 17, 20)
    for offset in range(20):
        story.read_in_the_end(topic, offset, v(topic, offset + 1))
    story.row("final-read-end", READER, 60, topic=topic, partition=0, offset=20)


def _cluster(story: Story, topic: str) -> None:
    story.leader(topic, 0, 1, 0, [1, 2, 3])
    story.leader(topic, 10, 2, 1, [2, 3])
    story.leader(topic, 16, 2, 1, [2, 3, 1])
    common = {"topic": topic, "partition": 0, "source": "story"}
    for epoch, start_offset in ((0, 0), (1, 10)):
        story.cluster.append(
            common
            | {
                "at_ns": 59 * S,
                "kind": "epoch",
                "leader_epoch": epoch,
                "start_offset": start_offset,
            }
        )
    for at_s, epoch in ((1, 0), (15, 1)):
        story.cluster.append(
            common
            | {
                "at_ns": at_s * S,
                "kind": "view",
                "node": 1,
                "leader": epoch + 1,
                "leader_epoch": epoch,
            }
        )


def _files(story: Story, topic: str) -> None:
    for node in (1, 2, 3):
        for base in (0, 5, 10, 15):
            story.replicas.append(
                {
                    "node": node,
                    "topic": topic,
                    "partition": 0,
                    "base_offset": base,
                    "last_offset": base + 4,
                    "leader_epoch": base // 10,
                    "crc": base,
                    "digest": f"{topic}-{base}",
                    "size": 500,
                }
            )
        story.replica_ends.append(
            {
                "node": node,
                "topic": topic,
                "partition": 0,
                "start_offset": 0,
                "end_offset": 20,
                "high_watermark": 20,
            }
        )
