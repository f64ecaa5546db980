"""The screen: clean is what nothing can be said against; every kind of doubt is one."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.detectors import plugged
from checkers.history.history import CLUSTER, HISTORY
from harness.simulation import screen
from harness.simulation.recording import History, Recording, Rows
from harness.simulation.run import Simulation
from tests.support.simulation.plans import KILLS, prepared, quiet

COLUMN = {name: number for number, name in enumerate(HISTORY.names)}
Change = Callable[[Recording], None]


def fresh() -> Recording:
    """The quiet run's recording, to be changed."""
    recording = copy.copy(quiet())
    recording.histories = [copy.copy(history) for history in recording.histories]
    for history in recording.histories:
        history.rows = list(history.rows)
    recording.facts, recording.notes = dict(recording.facts), []
    recording.disks = copy.deepcopy(recording.disks)
    return recording


def history_with(recording: Recording, f: str, nth: int, **wanted: Any) -> tuple[History, int]:
    """The nth row of a kind, in its history."""
    found = [
        (history, number)
        for history in recording.histories
        for number, row in enumerate(history.rows)
        if row[COLUMN["f"]] == f and all(row[COLUMN[name]] == v for name, v in wanted.items())
    ]
    return found[nth]


def put(f: str, nth: int = 5, *, where: dict[str, Any] | None = None, **columns: Any) -> Change:
    """Change columns of one row; a function is given what is there."""

    def change(recording: Recording) -> None:
        history, number = history_with(recording, f, nth, **(where or {}))
        row = list(history.rows[number])
        for name, value in columns.items():
            row[COLUMN[name]] = value(row[COLUMN[name]]) if callable(value) else value
        history.rows[number] = tuple(row)

    return change


def without(f: str, nth: int = 5) -> Change:
    """Remove one row."""

    def change(recording: Recording) -> None:
        history, number = history_with(recording, f, nth)
        del history.rows[number]

    return change


def swapped(f: str) -> Change:
    """Let two neighbouring records of one partition change their values."""

    def change(recording: Recording) -> None:
        rows = [history_with(recording, f, nth, topic="acks-all", partition=0) for nth in (3, 4)]
        values = [history.rows[number][COLUMN["value"]] for history, number in rows]
        for (history, number), value in zip(rows, reversed(values), strict=True):
            row = list(history.rows[number])
            row[COLUMN["value"]] = value
            history.rows[number] = tuple(row)

    return change


def committed_offset(recording: Recording) -> None:
    """A row of a kind that the screen does not judge."""
    history, number = history_with(recording, "watermark", 5)
    row = list(history.rows[number])
    row[COLUMN["f"]] = "offset-commit"
    history.rows[number] = tuple(row)


def bit_flipped(recording: Recording) -> None:
    """In one replica's log."""
    recording.disks[2].corrupt("acks-all-0/00000000000000000000.log", 100)


def epoch_moved(recording: Recording) -> None:
    """The first epoch is answered to begin at 1."""
    columns = list(CLUSTER.names)
    rows = [dict(zip(columns, row, strict=True)) for row in recording.cluster.rows]
    next(row for row in rows if row["kind"] == "epoch")["start_offset"] = 1
    recording.cluster = Rows(columns)
    recording.cluster.rows = [tuple(row.values()) for row in rows]


def replica_gone(recording: Recording) -> None:
    """One of three, in all partitions."""
    del recording.disks[2]


def fact(**facts: Any) -> Change:
    """Another fact in run.json."""
    return lambda recording: recording.facts.update(facts)


def noted(recording: Recording) -> None:
    """Something was not as it should be."""
    recording.notes.append("the clients did not end and were killed")


ACKED = {"acks": -1, "type": "ok"}

DOUBTS: dict[str, Change] = {
    "a record is not read any more": without("final-read", 7),
    "the last record is not read": without("final-read", -1),
    "a record is read twice": put("final-read", value=lambda value: value - 1),
    "an unknown record is read": put("final-read", value=(9 << 32) + 1),
    "rows of groups": committed_offset,
    "a record cannot be read": put("final-read", error="checksum"),
    "a record has another offset": put("send", where=ACKED, offset=lambda at: at + 1),
    "records are out of order": swapped("final-read"),
    "epochs go back": put("final-read", leader_epoch=7),
    "a failed send is there": put("send", type="fail"),
    "a value is sent twice": put("send", value=lambda value: value - 1),
    "a value is somewhere else": put(
        "send", where={"topic": "acks-all", "partition": 0}, partition=1
    ),
    "a consumer read something else": put("poll", value=lambda value: value + 1),
    "a consumer read another epoch": put("poll", leader_epoch=3),
    "a consumer left something out": without("poll", 7),
    "a consumer jumped": put("assign", nth=0, error="offset out of range"),
    "a consumer read what is not there": put("poll", nth=-1, offset=10_000),
    "a partition was not read to its end": put("final-read-end", nth=0, type="info"),
    "an end was lower later": put("watermark", nth=-1, offset=0),
    "an end was never reached": put("watermark", nth=0, offset=10_000),
    "a client did not end": without("end", 0),
    "an operation ended before it began": put("send", complete_ns=1),
    "a send began after a later one was over": put(
        "send",
        nth=3,
        where=ACKED,
        invoke_ns=lambda at: at + 4_000_000_000,
        complete_ns=lambda at: at + 4_000_000_000,
    ),
    "replicas differ": bit_flipped,
    "a replica is missing": replica_gone,
    "the cluster is not whole": fact(settled=False),
    "the final reads are not": fact(final_reads_complete=False),
    "the epochs are not known": fact(epoch_problems=["t-0 has no leader"]),
    "an epoch is answered to begin later": epoch_moved,
    "something was noted": noted,
}


def test_run_without_faults_is_clean() -> None:
    """A second screening changes nothing."""
    assert screen.reasons(fresh()) == screen.reasons(quiet()) == []


def test_run_with_kills_can_be_clean() -> None:
    """Kills lose no record that was acknowledged with acks=all."""
    recording = Simulation(
        prepared(nemesis=KILLS, topics=prepared().plan.to_json()["topics"][1:])
    ).run()
    assert screen.reasons(recording) == []


@pytest.mark.parametrize("doubt", DOUBTS)
def test_changed_recording_is_not_clean(doubt: str) -> None:
    """One change to a clean recording, and the checkers must judge it."""
    recording = fresh()
    DOUBTS[doubt](recording)
    assert screen.reasons(recording)


def test_detectors_of_other_packages_are_asked_by_the_checkers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The screen does not know what they look for."""
    monkeypatch.setattr(plugged, "installed", lambda: True)
    assert any("another package" in reason for reason in screen.reasons(fresh()))


def test_lost_acks_0_record_is_clean() -> None:
    """The checkers count it, and the contract always permits it."""
    topics = [{"name": "acks-0", "acks": 0, "partitions": 1}]
    recording = Simulation(prepared(topics=topics)).run()
    assert screen.reasons(recording) == []
    sends = next(each for each in recording.histories if each.name.startswith("acks-0"))
    row = next(row for row in sends.rows if row[COLUMN["f"]] == "send")
    lost = list(row)
    lost[COLUMN["value"]] += 1 << 20
    sends.rows.append(tuple(lost))
    assert screen.reasons(recording) == []


@settings(max_examples=60)
@given(st.data())
def test_any_change_of_the_final_log_is_noticed(data: st.DataObject) -> None:
    """A row is removed, moved or changed."""
    recording = fresh()
    [reads] = [each for each in recording.histories if each.name == "final-reads"]
    rows = [n for n, row in enumerate(reads.rows) if row[COLUMN["f"]] == "final-read"]
    number = data.draw(st.sampled_from(rows))
    what = data.draw(st.sampled_from(["gone", "value", "offset"]))
    row = list(reads.rows[number])
    if what == "gone":
        del reads.rows[number]
    else:
        row[COLUMN[what]] += data.draw(st.integers(1, 5) | st.integers(-5, -1))
        reads.rows[number] = tuple(row)
    assert screen.reasons(recording)
