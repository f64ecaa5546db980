"""Seeded histories: valid runs of any shape, and runs in which known anomalies are planted.

A story is a function of its seed. It has the plan and the fault of the healthy run, so that
hundreds can be judged as one; everything else differs: how many records, when, by whom, which
leaders, how they were read. What is planted is known by its kind, aspect and topic.
"""

import copy
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.support.histories.story import (
    ACKS,
    ALL,
    CONSUMER,
    NONE,
    ONE,
    PLAN,
    PRODUCER,
    READER,
    TOPICS,
    S,
    Story,
    healthy,
    v,
    value,
)

Plant = tuple[str, str | None, str]
"""(kind, aspect, topic)"""

MOVED = ("inconsistent-offset", "acknowledged")

NEEDS_THE_END = (
    ("lost-write", None), ("truncated-read", None), MOVED, ("contradicted-evidence", None),
)  # fmt: skip
"""What is judged only where the final read reached the end, or where somebody led in the end."""

OTHER = 50
"""Added to a client's number: the second one."""


@dataclass(slots=True)
class Log:
    """A topic while it is told: its records by offset, when each was sent and acknowledged, and its
    leaders by epoch: (since when, who, from which offset on)."""

    topic: str
    values: list[int] = field(default_factory=list)
    sent_ns: list[int] = field(default_factory=list)
    acked_ns: list[int] = field(default_factory=list)
    elected: list[tuple[int, int, int]] = field(default_factory=list)
    free: set[int] = field(default_factory=set)
    """Offsets of acknowledged records to which nothing was done yet."""


def generate(seed: int) -> tuple[Story, list[Plant]]:
    """A run, and what was planted in it; every third has nothing planted."""
    rng = random.Random(seed)
    story = Story(plan=copy.deepcopy(PLAN), faults=healthy().faults)
    clients = [c for each in (PRODUCER, CONSUMER) for number in each.values()
               for c in (number, number + OTHER)]  # fmt: skip
    for client in (*clients, READER):
        story.row("start", client, 0)
    logs = {topic: _told(story, rng, topic) for topic in TOPICS}
    planted: list[Plant] = []
    for plant in rng.sample(PLANTS, 0 if seed % 3 == 0 else rng.randint(1, 3)):
        planted += plant(story, rng, logs[rng.choice(TOPICS)])
    unread = {topic for kind, _, topic in planted if kind == "unseen"}
    planted = [p for p in planted if p[2] not in unread or not _needs_the_end(p)]
    for client in (*clients, READER):
        story.row("end", client, 61)
    return story, planted


def _needs_the_end(plant: Plant) -> bool:
    kind, aspect, _ = plant
    return (kind, None) in NEEDS_THE_END or (kind, aspect) in NEEDS_THE_END


def _told(story: Story, rng: random.Random, topic: str) -> Log:
    log = Log(topic)
    _lead(story, rng, log)
    last = rng.randint(8, 40)
    for number in range(1, last):
        _write(story, rng, log, number, round((0.5 + number * 0.35 + rng.random() * 0.3) * S))
    # Both get on in the end: whether a client was stuck is for `_stick` to say.
    for number, client in enumerate((PRODUCER[topic], PRODUCER[topic] + OTHER), last):
        _write(story, rng, log, number, round((0.5 + number * 0.35) * S), client=client)
    log.elected = [
        (at_ns, leader, sum(sent_ns < at_ns for sent_ns in log.sent_ns))
        for at_ns, leader, _ in log.elected
    ]
    for at, (_, _, start) in enumerate(log.elected):
        columns = {"topic": topic, "partition": 0, "leader_epoch": at, "start_offset": start}
        story.cluster.append({"at_ns": 59 * S, "kind": "epoch", **columns})
    _read(story, rng, log)
    _keep(story, rng, log)
    return log


def _lead(story: Story, rng: random.Random, log: Log) -> None:
    leader, at_s = rng.randint(1, 3), 0.0
    for epoch in range(rng.randint(1, 4)):
        isr = [leader, *(node for node in (1, 2, 3) if node != leader)]
        story.leader(log.topic, at_s, leader, epoch, isr)
        log.elected.append((round(at_s * S), leader, 0))
        for node in (1, 2, 3):
            learned = at_s + 0.01 + (node != leader) * rng.random()
            story.cluster.append({"at_ns": round(learned * S), "kind": "view", "topic": log.topic,
                                  "partition": 0, "node": node, "leader": leader,
                                  "leader_epoch": epoch})  # fmt: skip
        leader = rng.choice([node for node in (1, 2, 3) if node != leader])
        at_s += 1.5 + rng.random() * 3


def _write(
    story: Story, rng: random.Random, log: Log, number: int, at_ns: int, client: int | None = None
) -> None:
    """A send by anybody, whatever becomes of it; by a certain client, a success."""
    took_ns = rng.choice((1, 30, 900)) * 1_000_000 + rng.randint(0, 999)
    kind = (
        rng.choices(("ok", "info", "never", "fail"), (20, 1, 1, 1))[0] if client is None else "ok"
    )
    client = client or PRODUCER[log.topic] + OTHER * (rng.random() < 0.3)
    row = story.send(log.topic, number, len(log.values), at_ns / S, client=client,
                     value=value(client, number))  # fmt: skip
    row.update(invoke_ns=at_ns, complete_ns=at_ns + took_ns)
    if kind != "ok":
        row.update(type="fail" if kind == "fail" else "info", offset=None)
        row["complete_ns"] = None if kind == "never" else at_ns + took_ns
    if kind == "fail" or (kind == "never" and rng.random() < 0.5):
        return
    if kind == "ok":
        log.free.add(len(log.values))
    log.values.append(row["value"])
    log.sent_ns.append(at_ns)
    log.acked_ns.append(at_ns + took_ns)


def _committed(log: Log, at_ns: int) -> int:
    """The high watermark at a moment: it is beyond all that was acknowledged."""
    acked = (offset for offset, acked_ns in enumerate(log.acked_ns) if acked_ns < at_ns)
    return max(acked, default=-1) + 1


def _read(story: Story, rng: random.Random, log: Log) -> None:
    story.assign(log.topic, 0.1, 0)
    position, at_s = 0, 0.6
    while position < len(log.values):
        at_s += 0.05 + rng.random() * 2 if at_s < 18 else 1
        end = min(_committed(log, round(at_s * S)), position + rng.randint(1, 12))
        story.poll(log.topic, at_s, {o: log.values[o] for o in range(position, end)})
        position = max(position, end)
    for _ in range(rng.randint(0, 5)):
        asked_s = rng.random() * 30
        story.watermark(log.topic, asked_s, _committed(log, round(asked_s * S) + 1_000_000),
                        client=CONSUMER[log.topic] + OTHER)  # fmt: skip
    for offset, held in enumerate(log.values):
        story.read_in_the_end(log.topic, offset, held)
    story.row("final-read-end", READER, 60, topic=log.topic, partition=0, offset=len(log.values))


def _keep(story: Story, rng: random.Random, log: Log) -> None:
    """The files: batches that end where an epoch does, the same on all nodes."""
    edges = {start for _, _, start in log.elected} | {len(log.values)}
    edges |= {rng.randint(0, len(log.values)) for _ in range(6)}
    ordered = sorted(edges | {0})
    for base, end in itertools.pairwise(ordered):
        epoch = max(e for e, (_, _, start) in enumerate(log.elected) if start <= base)
        for node in (1, 2, 3):
            story.replicas.append(
                {
                    "node": node,
                    "topic": log.topic,
                    "partition": 0,
                    "base_offset": base,
                    "last_offset": end - 1,
                    "crc": base,
                    "leader_epoch": epoch,
                    "digest": f"{base}",
                    "size": 9,
                }
            )
    size = len(log.values)
    for node in (1, 2, 3):
        story.replica_ends.append(
            {
                "node": node,
                "topic": log.topic,
                "partition": 0,
                "start_offset": 0,
                "end_offset": size,
                "high_watermark": size,
            }
        )


# --- what may be planted --------------------------------------------------------------------------


def _victim(rng: random.Random, log: Log) -> int | None:
    """An offset that nothing was done to yet."""
    if not log.free:
        return None
    offset = rng.choice(sorted(log.free))
    log.free.discard(offset)
    return offset


def _lose(story: Story, rng: random.Random, log: Log) -> list[Plant]:
    offset = _victim(rng, log)
    if offset is None:
        return []
    story.forget(topic=log.topic, values={log.values[offset]})
    return [("lost-write", None, log.topic)]


def _repeat(story: Story, rng: random.Random, log: Log) -> list[Plant]:
    offset = _victim(rng, log)
    if offset is None:
        return []
    story.read_in_the_end(log.topic, len(log.values) + offset, log.values[offset])
    return [("duplicate", None, log.topic)]


def _fail(story: Story, rng: random.Random, log: Log) -> list[Plant]:
    offset = _victim(rng, log)
    if offset is None:
        return []
    for row in story.rows("send", log.topic):
        if row["value"] == log.values[offset]:
            row.update(type="fail", offset=None)
    return [("aborted-read", None, log.topic)]


def _move(story: Story, rng: random.Random, log: Log) -> list[Plant]:
    offset = _victim(rng, log)
    if offset is None or log.topic == NONE:
        return []
    for row in story.rows("send", log.topic):
        if row["value"] == log.values[offset]:
            row["offset"] = 500 + offset
    return [(*MOVED, log.topic)]


def _swap(story: Story, rng: random.Random, log: Log) -> list[Plant]:
    """Two writes of one client change places everywhere."""
    offset = _victim(rng, log)
    if offset is None or offset + 1 not in log.free:
        return []
    log.free.discard(offset + 1)
    one, two = log.values[offset], log.values[offset + 1]
    if one >> 32 != two >> 32:
        return []
    for row in story.history:
        if row.get("topic") != log.topic or row.get("value") not in (one, two):
            continue
        if row["f"] == "send":
            row["offset"] = None if row["offset"] is None else 2 * offset + 1 - row["offset"]
        else:
            row["value"] = one + two - row["value"]
    return [("reordered-send", None, log.topic)]


def _invent(story: Story, rng: random.Random, log: Log) -> list[Plant]:
    story.read_in_the_end(log.topic, 200 + rng.randint(0, 1 << 20), v(log.topic, 5000))
    return [("phantom", "unsent", log.topic)]


def _corrupt(story: Story, rng: random.Random, log: Log) -> list[Plant]:
    story.read_in_the_end(log.topic, 200 + rng.randint(0, 1 << 20), None, error="checksum")
    return [("phantom", "checksum", log.topic)]


def _contradict(story: Story, rng: random.Random, log: Log) -> list[Plant]:
    offset = _victim(rng, log)
    if offset is None or offset - 1 not in log.free:
        return []
    log.free.discard(offset - 1)
    held: dict[int, int | None] = {offset: log.values[offset - 1]}
    story.poll(log.topic, 19, held, client=CONSUMER[log.topic] + OTHER)
    return [("inconsistent-offset", "read", log.topic), ("truncated-read", None, log.topic)]


def _skip(story: Story, rng: random.Random, log: Log) -> list[Plant]:
    offset = _victim(rng, log)
    if offset is None or offset + 1 >= len(log.values):
        return []
    story.history = [
        r
        for r in story.history
        if not (r["f"] == "poll" and (r["topic"], r["offset"]) == (log.topic, offset))
    ]
    return [("poll-skip", None, log.topic)]


def _go_back(story: Story, rng: random.Random, log: Log) -> list[Plant]:
    offset = _victim(rng, log)
    if offset is None:
        return []
    story.poll(log.topic, 57, {offset: log.values[offset]})
    return [("nonmonotonic-poll", None, log.topic)]


def _recede(story: Story, rng: random.Random, log: Log) -> list[Plant]:
    for at_s, end in ((58, len(log.values)), (59, rng.randrange(len(log.values) // 2))):
        story.watermark(log.topic, at_s, end, client=READER)
    return [("watermark-regression", None, log.topic), ("uncommitted-read", None, log.topic)]


def _two_leaders(story: Story, rng: random.Random, log: Log) -> list[Plant]:
    epoch, (_, leader, _) = rng.choice(list(enumerate(log.elected)))
    story.cluster.append(
        {
            "at_ns": 30 * S,
            "kind": "view",
            "topic": log.topic,
            "partition": 0,
            "node": 1,
            "leader": leader % 3 + 1,
            "leader_epoch": epoch,
        }
    )
    return [("two-leaders", "told", log.topic)]


def _answer_wrong(story: Story, rng: random.Random, log: Log) -> list[Plant]:
    """The leader answers that an epoch with records begins one later than it does."""
    ends = [*(start for _, _, start in log.elected[1:]), len(log.values)]
    told = [r for r in story.cluster if (r["kind"], r["topic"]) == ("epoch", log.topic)]
    full = [r for r, end in zip(told, ends, strict=False) if r["start_offset"] < end]
    if not full:
        return []
    rng.choice(full)["start_offset"] += 1
    return [("contradicted-evidence", "files", log.topic)]


def _write_apart(story: Story, rng: random.Random, log: Log) -> list[Plant]:
    mine = [r for r in story.replicas if (r["topic"], r["node"]) == (log.topic, 3)]
    rng.choice(mine).update(crc=-1, digest="another")
    kinds = (("two-leaders", "wrote"), ("divergent-replicas", "bytes"))
    return [(kind, aspect, log.topic) for kind, aspect in kinds]


def _lack(story: Story, rng: random.Random, log: Log) -> list[Plant]:
    mine = [r for r in story.replicas if (r["topic"], r["node"]) == (log.topic, 2)]
    gone = rng.choice(mine)
    story.replicas = [r for r in story.replicas if r is not gone]
    return [("divergent-replicas", "missing", log.topic)]


def _refuse(story: Story, rng: random.Random, log: Log) -> list[Plant]:
    head = "refused at the head of the line"
    story.new_epoch(PRODUCER[ALL], 30, 31, head, topic=log.topic, partition=0)
    return [("refused-head", None, log.topic)]


def _stick(story: Story, rng: random.Random, log: Log) -> list[Plant]:
    if log.topic == NONE:
        return []
    lone = 70 + PRODUCER[log.topic]
    if not any(row["client"] == lone for row in story.history):
        story.row("start", lone, 0)
        story.row("end", lone, 61)
    number = len(story.history)
    story.send(log.topic, 0, None, 20 + rng.random() * 20, client=lone, value=value(lone, number),
               type="info", complete_ns=None)  # fmt: skip
    return [("stuck", "producer", log.topic)]


def _unread(story: Story, rng: random.Random, log: Log) -> list[Plant]:
    """The final read stopped early, and a value was not seen."""
    offset = _victim(rng, log)
    if offset is None:
        return []
    story.forget(topic=log.topic, values={log.values[offset]})
    for row in story.rows("final-read-end", log.topic):
        row.update(type="info", error="timeout")
    return [("unseen", None, log.topic)]


def _lead_nobody(story: Story, rng: random.Random, log: Log) -> list[Plant]:
    """Nor did anybody lead then, so that no epoch was read; and the end went back before."""
    planted = _unread(story, rng, log)
    if planted:
        of = ("epoch", log.topic)
        story.cluster = [r for r in story.cluster if (r["kind"], r["topic"]) != of]
        planted += _recede(story, rng, log)
    return planted


PLANTS: tuple[Callable[[Story, random.Random, Log], list[Plant]], ...] = (
    _lose, _repeat, _fail, _move, _swap, _invent, _corrupt, _contradict, _skip, _go_back, _recede,
    _two_leaders, _answer_wrong, _write_apart, _lack, _refuse, _stick, _unread,
    _lead_nobody,
)  # fmt: skip

assert set(ACKS) == {NONE, ONE, ALL}
