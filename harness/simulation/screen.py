"""Finds in plain Python, at little cost, that most recordings are clean: there is nothing to judge.

Clean means: each record that was acknowledged with acks=1 or acks=all is in the final log once, in
order, at the acknowledged offset; the log has no other records except permitted ones; each read
agrees with that log, and so do the answers about leader epochs; all replicas are equal byte for
byte; the run is complete. Then no detector finds anything, and each assumption holds. The checkers
judge a recording that is not clean; "not clean" alone means nothing.

The screen must not call a recording clean that the contract would forbid. It knows no causes, and
permits only what acks=0 always permits: a loss with acks=1 that the contract permits is not clean.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from checkers.detectors import plugged
from checkers.history.history import HISTORY, PRODUCER_EPOCH, REFUSED_HEAD
from harness.recording.history import Row
from harness.simulation.recording import Recording

MAX_LAG_NS: Final = 5_000_000_000
"""How far behind a consumer may end."""
MAX_REASONS: Final = 5
"""How many reasons are collected; one would do."""

Partition = tuple[str, int]

(
    _OP, _CLIENT, _F, _TYPE, _INVOKE, _COMPLETE, _TOPIC, _PARTITION, _VALUE, _OFFSET, _EPOCH,
    _ACKS, _NODE, _TXN, _GROUP, _ERROR, _GENERATION, _TRANSACTIONAL_ID, _COPIES, _ISOLATION, _KEY,
) = range(len(HISTORY.names))  # fmt: skip

_KNOWN: Final = frozenset(
    {"start", "end", "send", "poll", "assign", "watermark", PRODUCER_EPOCH, "final-read"}
    | {"final-read-end"}
)
"""The kinds of rows that the screen judges."""


class FinalRecord(NamedTuple):
    """A record of the final log."""

    value: int
    epoch: int | None


@dataclass(slots=True)
class _RowIndex:
    """The rows of a recording by operation, and the final logs."""

    by_f: dict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))
    logs: dict[Partition, dict[int, FinalRecord]] = field(default_factory=lambda: defaultdict(dict))


def reasons(recording: Recording) -> list[str]:
    """Return why the checkers must judge the recording; an empty list if it is clean."""
    found: list[str] = []
    for reason in _reasons(recording):
        found.append(reason)
        if len(found) >= MAX_REASONS:
            break
    return found


def _reasons(recording: Recording) -> Iterator[str]:
    yield from _incomplete_run(recording)
    yield from _faults(recording)
    index = _RowIndex()
    for history in recording.histories:
        for row in history.rows:
            index.by_f[row[_F]].append(row)
    yield from _clients(index)
    yield from _final_log(recording, index)
    yield from _epochs(recording, index)
    yield from _sends(recording, index)
    yield from _reads(recording, index)
    yield from _watermarks(index)
    yield from _stuck(recording, index)
    yield from _leaders(recording)
    yield from _replicas(recording)


# -- is the run complete?


def _incomplete_run(recording: Recording) -> Iterator[str]:
    facts = recording.facts
    if recording.failure is not None:
        yield f"the run ended early: {recording.failure!r}"
    yield from (*recording.notes, *recording.troubles)
    if not facts.get("settled") or not facts.get("final_reads_complete"):
        yield "the run did not settle, or its final reads are incomplete"
    if facts.get("epoch_problems"):
        yield "the leaders' epochs are not known"
    if recording.prepared.plan.expect:
        yield "the plan has expectations"
    if recording.prepared.plan.more_workloads:
        yield "the plan has workloads that only the checkers judge"
    if plugged.installed():
        yield "another package has detectors, which only the checkers ask"


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


def _clients(index: _RowIndex) -> Iterator[str]:
    if unknown := sorted(index.by_f.keys() - _KNOWN):
        yield f"there are rows of {', '.join(unknown)}, which the screen does not judge"
    started = Counter(row[_CLIENT] for row in index.by_f["start"])
    if started != Counter(row[_CLIENT] for row in index.by_f["end"]):
        yield "a client did not end in order"
    for row in index.by_f[PRODUCER_EPOCH]:
        if row[_ERROR].startswith(REFUSED_HEAD):
            yield f"{row[_TOPIC]}-{row[_PARTITION]} refused the next batch in order"
    for rows in index.by_f.values():
        if any(row[_COMPLETE] is not None and row[_COMPLETE] < row[_INVOKE] for row in rows):
            yield "an operation ended before it began"


# -- the final log


def _final_log(recording: Recording, index: _RowIndex) -> Iterator[str]:
    plan = recording.prepared.plan
    for row in index.by_f["final-read"]:
        at = row[_TOPIC], row[_PARTITION]
        log, offset = index.logs[at], row[_OFFSET]
        if row[_TYPE] != "ok" or row[_ERROR] is not None or row[_VALUE] is None:
            yield f"{at} has a record at {offset} that the workload did not send"
        if offset != len(log):
            yield f"{at} was read at {offset} after {len(log)} records"
        log[offset] = FinalRecord(row[_VALUE], row[_EPOCH])
    ends = {(row[_TOPIC], row[_PARTITION]): row for row in index.by_f["final-read-end"]}
    for topic in plan.topics:
        for partition in range(topic.partitions):
            end = ends.get((topic.name, partition))
            length = len(index.logs[topic.name, partition])
            if end is None or end[_TYPE] != "ok" or end[_OFFSET] != length:
                yield f"{topic.name}-{partition} was not read to its end"
    yield from _order(index.logs)


def _order(logs: Mapping[Partition, Mapping[int, FinalRecord]]) -> Iterator[str]:
    """Each value occurs once, a client's values are in the order of their sending,
    epochs ascend.
    """
    seen: set[int] = set()
    for at, log in logs.items():
        last: dict[int, int] = {}
        epoch = -1
        for record in log.values():
            client = (record.value or 0) >> 32
            if record.value in seen:
                yield f"{at} has {record.value} twice"
            if last.get(client, -1) > record.value:
                yield f"{at} has {record.value} out of order"
            if record.epoch is None or record.epoch < epoch:
                yield f"{at} goes back from epoch {epoch} to {record.epoch}"
            else:
                epoch = record.epoch
            seen.add(record.value)
            last[client] = record.value


def _epochs(recording: Recording, index: _RowIndex) -> Iterator[str]:
    """The leaders' answers give each record the leader epoch that it has."""
    answered: dict[Partition, list[int]] = defaultdict(list)
    for row in recording.cluster.named():
        if row["kind"] == "epoch":
            length = row["end_offset"] - row["start_offset"]
            answered[row["topic"], row["partition"]] += [row["leader_epoch"]] * length
    for at in sorted(index.logs.keys() | answered.keys()):
        if answered[at] != [record.epoch for record in index.logs[at].values()]:
            yield f"{at} has records of other epochs than its leader answered"


# -- operations compared with the final log


def _sends(recording: Recording, index: _RowIndex) -> Iterator[str]:
    acked: Counter[str] = Counter()
    places = {
        record.value: (at, offset)
        for at, log in index.logs.items()
        for offset, record in log.items()
    }
    known: set[int] = set()
    for row in index.by_f["send"]:
        value, at = row[_VALUE], (row[_TOPIC], row[_PARTITION])
        place = places.get(value)
        if value in known:
            yield f"{value} was sent twice"
        known.add(value)
        if place is not None and place[0] != at:
            yield f"{value} was sent to {at} and is in {place[0]}"
        if row[_TYPE] == "fail" and place is not None:
            yield f"{value} is in the log although its send failed"
        if row[_TYPE] == "ok":
            acked[at[0]] += 1
            if place is None and row[_ACKS] != 0:
                yield f"{value} was acknowledged and is lost"
            elif place is not None and row[_OFFSET] not in (None, place[1]):
                yield f"{value} was acknowledged at {row[_OFFSET]} and is at {place[1]}"
    if ghosts := places.keys() - known:
        yield f"{min(ghosts)} was never sent"
    if silent := [t.name for t in recording.prepared.plan.topics if not acked[t.name]]:
        yield f"nothing was acknowledged in {silent[0]}"
    yield from _real_time_order(index.by_f["send"])


def _real_time_order(sends: Iterable[Row]) -> Iterator[str]:
    """A record whose send began after an acknowledgement lies behind the acknowledged record."""
    by_place: dict[Partition, list[tuple[int, int, int]]] = defaultdict(list)
    for row in sends:
        if row[_TYPE] == "ok" and row[_OFFSET] is not None:
            key = row[_TOPIC], row[_PARTITION]
            by_place[key].append((row[_OFFSET], row[_INVOKE], row[_COMPLETE]))
    for at, placed in by_place.items():
        earliest_ns: int | None = None
        for offset, invoke_ns, complete_ns in sorted(placed, reverse=True):
            if earliest_ns is not None and earliest_ns < invoke_ns:
                yield f"{at} has at {offset} a send that began after a later record was acked"
            earliest_ns = complete_ns if earliest_ns is None else min(earliest_ns, complete_ns)


def _reads(recording: Recording, index: _RowIndex) -> Iterator[str]:
    """Consumers read the whole final log in order, and never go back."""
    position: dict[tuple[int, str, int], int] = {}
    for history in recording.histories:
        for row in history.rows:
            key = row[_CLIENT], row[_TOPIC], row[_PARTITION]
            if row[_F] == "assign":
                if key in position or row[_ERROR] is not None or row[_OFFSET] != 0:
                    yield f"client {key[0]} jumped in {key[1]}-{key[2]}"
                position[key] = row[_OFFSET] or 0
            elif row[_F] == "poll":
                yield from _poll(row, index.logs[key[1], key[2]], position.get(key))
                position[key] = (row[_OFFSET] or 0) + 1
    if recording.prepared.plan.workload.consumers and not index.by_f["poll"]:
        yield "no consumer read anything"


def _poll(row: Row, log: Mapping[int, FinalRecord], expected: int | None) -> Iterator[str]:
    offset = row[_OFFSET]
    record = log.get(offset)
    if row[_TYPE] != "ok" or row[_ERROR] is not None or record is None:
        yield f"client {row[_CLIENT]} read a record at {offset} that is not in the log"
    elif record.value != row[_VALUE] or row[_EPOCH] not in (None, record.epoch):
        yield f"client {row[_CLIENT]} read something else at {offset}"
    if offset != expected:
        yield f"client {row[_CLIENT]} read offset {offset} instead of {expected}"


def _watermarks(index: _RowIndex) -> Iterator[str]:
    """A later question gets no lower end, and an end beyond everything that was known before."""
    events: list[tuple[int, int, Partition, int]] = []
    for row in index.by_f["watermark"]:
        at = row[_TOPIC], row[_PARTITION]
        events.append((row[_INVOKE], 0, at, row[_OFFSET]))
        events.append((row[_COMPLETE], 1, at, row[_OFFSET]))
    for row in (*index.by_f["poll"], *index.by_f["send"]):
        reported = row[_F] == "poll" or (row[_TYPE] == "ok" and row[_ACKS] == -1)
        if reported and row[_OFFSET] is not None:
            at = row[_TOPIC], row[_PARTITION]
            events.append((row[_COMPLETE], 1, at, row[_OFFSET] + 1))
    known: dict[Partition, int] = {}
    for _, over, at, end in sorted(events):
        if over:
            known[at] = max(known.get(at, 0), end)
        elif end < known.get(at, 0):
            yield f"{at} was reported to end at {end} after {known[at]} was known"
    for at, end in known.items():
        if end > len(index.logs[at]):
            yield f"{at} was reported to reach {end} and ends at {len(index.logs[at])}"


def _stuck(recording: Recording, index: _RowIndex) -> Iterator[str]:
    """After the last heal each sending client got an answer, and each reading client
    made progress.
    """
    healed = [row["healed_ns"] for row in recording.faults.named() if row["healed_ns"]]
    healed_ns = max(healed, default=0)
    answered: dict[tuple[int, str, int], bool] = {}
    latest: dict[Partition, int] = {}
    ended = {row[_CLIENT]: row[_INVOKE] for row in index.by_f["end"]}
    for row in index.by_f["send"]:
        key = row[_CLIENT], row[_TOPIC], row[_PARTITION]
        if row[_COMPLETE] is None or row[_COMPLETE] > healed_ns:
            answered[key] = answered.get(key, False) or row[_TYPE] == "ok"
    for client, topic, partition in (key for key, ok in answered.items() if not ok):
        yield f"client {client} got no answer from {topic}-{partition} after the last heal"
    reached: dict[tuple[int, str, int], int] = {}
    for row in (*index.by_f["assign"], *index.by_f["poll"]):
        key = row[_CLIENT], row[_TOPIC], row[_PARTITION]
        reached[key] = max(reached.get(key, 0), (row[_OFFSET] or 0) + (row[_F] == "poll"))
    until_ns = min((ended[client] for client, _, _ in reached), default=0) - MAX_LAG_NS
    for row in index.by_f["send"]:
        if row[_TYPE] == "ok" and row[_OFFSET] is not None and row[_COMPLETE] < until_ns:
            at = row[_TOPIC], row[_PARTITION]
            latest[at] = max(latest.get(at, 0), row[_OFFSET] + 1)
    for (client, topic, partition), end in reached.items():
        if end < latest.get((topic, partition), 0):
            yield f"client {client} stopped at {end} of {topic}-{partition}"


def _leaders(recording: Recording) -> Iterator[str]:
    """Each epoch has one leader, whichever node was asked."""
    leaders: dict[tuple[Any, ...], int] = {}
    for row in recording.cluster.named():
        if row["leader"] is not None and row["kind"] in ("view", "leader"):
            key = row["topic"], row["partition"], row["leader_epoch"]
            if leaders.setdefault(key, row["leader"]) != row["leader"]:
                yield f"{key} has two leaders"


def _replicas(recording: Recording) -> Iterator[str]:
    """All replicas have the same bytes, and there are as many replicas as the plan asks for."""
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
