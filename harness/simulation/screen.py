"""Tells at once, in plain Python, of most recordings that there is nothing in them to judge.

Clean means: everything that was acknowledged with acks=1 or all is in the final log once, in order
and where it was said to be; nothing else is there but what may be; every read agrees with that log;
all replicas are equal to the byte; the run was whole. Then no detector finds anything, and every
assumption holds. Whatever is not clean is judged by the checkers; that it is not says nothing.

The screen may call clean nothing that the contract would forbid. It knows no causes and permits
nothing but what acks=0 always does: a loss with acks=1 that the contract permits is not clean.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from checkers.history.history import HISTORY, PRODUCER_EPOCH, REFUSED_HEAD
from harness.recording.history import Row
from harness.simulation.recording import Recording

PATIENCE_NS: Final = 5_000_000_000
"""How far behind a consumer may end."""
SHOWN: Final = 5
"""How many reasons are looked for: one would do."""

Partition = tuple[str, int]

(
    _OP, _CLIENT, _F, _TYPE, _INVOKE, _COMPLETE, _TOPIC, _PARTITION, _VALUE, _OFFSET, _EPOCH,
    _ACKS, _NODE, _TXN, _GROUP, _ERROR,
) = range(len(HISTORY.names))  # fmt: skip


class Entry(NamedTuple):
    """A record of the final log."""

    value: int
    epoch: int | None


@dataclass(slots=True)
class _Story:
    """The rows of a recording by what they are."""

    by_f: dict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))
    logs: dict[Partition, dict[int, Entry]] = field(default_factory=lambda: defaultdict(dict))


def reasons(recording: Recording) -> list[str]:
    """Why the recording is to be judged by the checkers; empty when it is clean."""
    found: list[str] = []
    for reason in _reasons(recording):
        found.append(reason)
        if len(found) >= SHOWN:
            break
    return found


def _reasons(recording: Recording) -> Iterator[str]:
    yield from _cut_short(recording)
    yield from _faults(recording)
    story = _Story()
    for history in recording.histories:
        for row in history.rows:
            story.by_f[row[_F]].append(row)
    yield from _clients(story)
    yield from _final_log(recording, story)
    yield from _sends(recording, story)
    yield from _reads(recording, story)
    yield from _watermarks(story)
    yield from _stuck(recording, story)
    yield from _leaders(recording)
    yield from _replicas(recording)


# -- was the run whole?


def _cut_short(recording: Recording) -> Iterator[str]:
    facts = recording.facts
    if recording.failure is not None:
        yield f"the run ended early: {recording.failure!r}"
    yield from (*recording.notes, *recording.troubles)
    if not facts.get("settled") or not facts.get("final_reads_complete"):
        yield "the run has no end to be held against"
    if facts.get("epoch_problems"):
        yield "the leaders' epochs are not known"
    if recording.prepared.plan.expect:
        yield "the plan has expectations"


def _faults(recording: Recording) -> Iterator[str]:
    rows = recording.faults.named()
    nemesis = recording.prepared.plan.nemesis
    futile = [row for row in rows if not row["took_effect"]]
    if nemesis.events and futile:
        yield f"fault {futile[0]['label']} did nothing"
    if (nemesis.events or nemesis.faults or nemesis.mix) and len(futile) == len(rows):
        yield "no fault did anything"
    if len(rows) != len(recording.prepared.schedule.events):
        yield "not every fault has its row"
    for row in rows:
        if row["took_effect"] and row["healed_ns"] is None:
            yield f"fault {row['label']} was not healed"


def _clients(story: _Story) -> Iterator[str]:
    started = Counter(row[_CLIENT] for row in story.by_f["start"])
    if started != Counter(row[_CLIENT] for row in story.by_f["end"]):
        yield "a client did not end in order"
    for row in story.by_f[PRODUCER_EPOCH]:
        if row[_ERROR].startswith(REFUSED_HEAD):
            yield f"{row[_TOPIC]}-{row[_PARTITION]} refused what was next in line"
    for rows in story.by_f.values():
        if any(row[_COMPLETE] is not None and row[_COMPLETE] < row[_INVOKE] for row in rows):
            yield "an operation ended before it began"


# -- the final log


def _final_log(recording: Recording, story: _Story) -> Iterator[str]:
    plan = recording.prepared.plan
    for row in story.by_f["final-read"]:
        at = row[_TOPIC], row[_PARTITION]
        log, offset = story.logs[at], row[_OFFSET]
        if row[_TYPE] != "ok" or row[_ERROR] is not None or row[_VALUE] is None:
            yield f"{at} has a record at {offset} that is none of ours"
        if offset != len(log):
            yield f"{at} was read at {offset} after {len(log)} records"
        log[offset] = Entry(row[_VALUE], row[_EPOCH])
    ends = {(row[_TOPIC], row[_PARTITION]): row for row in story.by_f["final-read-end"]}
    for topic in plan.topics:
        for partition in range(topic.partitions):
            end = ends.get((topic.name, partition))
            length = len(story.logs[topic.name, partition])
            if end is None or end[_TYPE] != "ok" or end[_OFFSET] != length:
                yield f"{topic.name}-{partition} was not read to its end"
    yield from _order(story.logs)


def _order(logs: Mapping[Partition, Mapping[int, Entry]]) -> Iterator[str]:
    """Every value once, those of a client in the order of their sending, epochs ascending."""
    seen: set[int] = set()
    for at, log in logs.items():
        last: dict[int, int] = {}
        epoch = -1
        for entry in log.values():
            client = (entry.value or 0) >> 32
            if entry.value in seen:
                yield f"{at} has {entry.value} twice"
            if last.get(client, -1) > entry.value:
                yield f"{at} has {entry.value} out of order"
            if entry.epoch is None or entry.epoch < epoch:
                yield f"{at} goes back from epoch {epoch} to {entry.epoch}"
            else:
                epoch = entry.epoch
            seen.add(entry.value)
            last[client] = entry.value


# -- operations against it


def _sends(recording: Recording, story: _Story) -> Iterator[str]:
    acked: Counter[str] = Counter()
    places = {
        entry.value: (at, offset) for at, log in story.logs.items() for offset, entry in log.items()
    }
    known: set[int] = set()
    for row in story.by_f["send"]:
        value, at = row[_VALUE], (row[_TOPIC], row[_PARTITION])
        place = places.get(value)
        if value in known:
            yield f"{value} was sent twice"
        known.add(value)
        if place is not None and place[0] != at:
            yield f"{value} was sent to {at} and is in {place[0]}"
        if row[_TYPE] == "fail" and place is not None:
            yield f"{value} is there although its send failed"
        if row[_TYPE] == "ok":
            acked[at[0]] += 1
            if place is None and row[_ACKS] != 0:
                yield f"{value} was acknowledged and is gone"
            elif place is not None and row[_OFFSET] not in (None, place[1]):
                yield f"{value} was acknowledged at {row[_OFFSET]} and is at {place[1]}"
    if ghosts := places.keys() - known:
        yield f"{min(ghosts)} was never sent"
    if silent := [t.name for t in recording.prepared.plan.topics if not acked[t.name]]:
        yield f"nothing was acknowledged in {silent[0]}"
    yield from _against_time(story.by_f["send"])


def _against_time(sends: Iterable[Row]) -> Iterator[str]:
    """What began after an acknowledgement lies behind what was acknowledged."""
    by_place: dict[Partition, list[tuple[int, int, int]]] = defaultdict(list)
    for row in sends:
        if row[_TYPE] == "ok" and row[_OFFSET] is not None:
            key = row[_TOPIC], row[_PARTITION]
            by_place[key].append((row[_OFFSET], row[_INVOKE], row[_COMPLETE]))
    for at, placed in by_place.items():
        earliest_ns: int | None = None
        for offset, invoke_ns, complete_ns in sorted(placed, reverse=True):
            if earliest_ns is not None and earliest_ns < invoke_ns:
                yield f"{at} has at {offset} what began after a later record was acknowledged"
            earliest_ns = complete_ns if earliest_ns is None else min(earliest_ns, complete_ns)


def _reads(recording: Recording, story: _Story) -> Iterator[str]:
    """Consumers read the final log, all of it in order, and go back nowhere."""
    position: dict[tuple[int, str, int], int] = {}
    for history in recording.histories:
        for row in history.rows:
            key = row[_CLIENT], row[_TOPIC], row[_PARTITION]
            if row[_F] == "assign":
                if key in position or row[_ERROR] is not None or row[_OFFSET] != 0:
                    yield f"client {key[0]} jumped in {key[1]}-{key[2]}"
                position[key] = row[_OFFSET] or 0
            elif row[_F] == "poll":
                yield from _poll(row, story.logs[key[1], key[2]], position.get(key))
                position[key] = (row[_OFFSET] or 0) + 1
    if recording.prepared.plan.workload.consumers and not story.by_f["poll"]:
        yield "no consumer read anything"


def _poll(row: Row, log: Mapping[int, Entry], expected: int | None) -> Iterator[str]:
    offset = row[_OFFSET]
    entry = log.get(offset)
    if row[_TYPE] != "ok" or row[_ERROR] is not None or entry is None:
        yield f"client {row[_CLIENT]} read at {offset} what is not there"
    elif entry.value != row[_VALUE] or row[_EPOCH] not in (None, entry.epoch):
        yield f"client {row[_CLIENT]} read something else at {offset}"
    if offset != expected:
        yield f"client {row[_CLIENT]} was to read {expected} and read {offset}"


def _watermarks(story: _Story) -> Iterator[str]:
    """An end that is asked for later is no lower, and beyond all that was known before."""
    events: list[tuple[int, int, Partition, int]] = []
    for row in story.by_f["watermark"]:
        at = row[_TOPIC], row[_PARTITION]
        events.append((row[_INVOKE], 0, at, row[_OFFSET]))
        events.append((row[_COMPLETE], 1, at, row[_OFFSET]))
    for row in (*story.by_f["poll"], *story.by_f["send"]):
        told = row[_F] == "poll" or (row[_TYPE] == "ok" and row[_ACKS] == -1)
        if told and row[_OFFSET] is not None:
            at = row[_TOPIC], row[_PARTITION]
            events.append((row[_COMPLETE], 1, at, row[_OFFSET] + 1))
    known: dict[Partition, int] = {}
    for _, over, at, end in sorted(events):
        if over:
            known[at] = max(known.get(at, 0), end)
        elif end < known.get(at, 0):
            yield f"{at} was said to end at {end} after {known[at]} was known"
    for at, end in known.items():
        if end > len(story.logs[at]):
            yield f"{at} was said to reach {end} and ends at {len(story.logs[at])}"


def _stuck(recording: Recording, story: _Story) -> Iterator[str]:
    """Since the last heal everybody who sent was answered, and everybody who read got along."""
    healed = [row["healed_ns"] for row in recording.faults.named() if row["healed_ns"]]
    healed_ns = max(healed, default=0)
    answered: dict[tuple[int, str, int], bool] = {}
    latest: dict[Partition, int] = {}
    ended = {row[_CLIENT]: row[_INVOKE] for row in story.by_f["end"]}
    for row in story.by_f["send"]:
        key = row[_CLIENT], row[_TOPIC], row[_PARTITION]
        if row[_COMPLETE] is None or row[_COMPLETE] > healed_ns:
            answered[key] = answered.get(key, False) or row[_TYPE] == "ok"
    for client, topic, partition in (key for key, ok in answered.items() if not ok):
        yield f"client {client} got no answer from {topic}-{partition} after the last heal"
    reached: dict[tuple[int, str, int], int] = {}
    for row in (*story.by_f["assign"], *story.by_f["poll"]):
        key = row[_CLIENT], row[_TOPIC], row[_PARTITION]
        reached[key] = max(reached.get(key, 0), (row[_OFFSET] or 0) + (row[_F] == "poll"))
    until_ns = min((ended[client] for client, _, _ in reached), default=0) - PATIENCE_NS
    for row in story.by_f["send"]:
        if row[_TYPE] == "ok" and row[_OFFSET] is not None and row[_COMPLETE] < until_ns:
            at = row[_TOPIC], row[_PARTITION]
            latest[at] = max(latest.get(at, 0), row[_OFFSET] + 1)
    for (client, topic, partition), end in reached.items():
        if end < latest.get((topic, partition), 0):
            yield f"client {client} stopped at {end} of {topic}-{partition}"


def _leaders(recording: Recording) -> Iterator[str]:
    """One leader in an epoch, whoever was asked."""
    leaders: dict[tuple[Any, ...], int] = {}
    for row in recording.cluster.named():
        if row["leader"] is not None and row["kind"] in ("view", "leader"):
            key = row["topic"], row["partition"], row["leader_epoch"]
            if leaders.setdefault(key, row["leader"]) != row["leader"]:
                yield f"{key} has two leaders"


def _replicas(recording: Recording) -> Iterator[str]:
    """Every replica has the same bytes, and as many have them as were asked for."""
    for topic in recording.prepared.plan.topics:
        for partition in range(topic.partitions):
            directory = f"{topic.name}-{partition}"
            logs = [
                b"".join(
                    disk.read(f"{directory}/{name}")
                    for name in disk.listdir(directory)
                    if name.endswith(".log")
                )
                for disk in recording.disks.values()
                if disk.exists(directory)
            ]
            if len(logs) < topic.replication_factor:
                yield f"{directory} has {len(logs)} replicas"
            if len(set(logs)) > 1:
                yield f"{directory} has replicas that differ"
