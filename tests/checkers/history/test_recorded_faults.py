"""Which partitions a recorded fault took state from."""

import json
from typing import Any

import pytest

from checkers.frames.changed_logs import with_changed_bytes
from checkers.history.recorded_faults import Fault, read_fault

LOG = "log/orders-2/00000000000000000000.log"


def row(damaged: str | None, fault: str = "disk.bit-flip", nodes: tuple[int, ...] = (1, 3)) -> Any:
    """A row of schema FAULTS."""
    return {
        "fault_id": 4,
        "fault": fault,
        "label": None,
        "targets": json.dumps({"nodes": nodes, "details": {"file": "log"}}),
        "started_ns": 1,
        "effective_ns": 2,
        "healed_ns": 3,
        "damaged": damaged,
        "took_effect": True,
    }


def read(damaged: str | None, fault: str = "disk.bit-flip") -> Fault:
    """The fault of that row."""
    found = read_fault(row(damaged, fault))
    assert found is not None
    return found


def test_only_the_partitions_whose_files_changed_are_concerned() -> None:
    """Node 3 has no changed file: a copy that was restored had not changed."""
    fault = read(json.dumps({"1": [LOG], "3": []}))
    assert fault.losing("orders", 2) == {1}
    assert fault.losing("orders", 1) == fault.losing("ord", 2) == frozenset()
    assert fault.losing("orders", None) == {1}
    assert fault.losing(None, None) == {1, 3}


@pytest.mark.parametrize(
    "damaged",
    [
        None,
        "{",
        "[]",
        "{}",
        '{"1": 7, "x": []}',
        '{"1": null}',
        json.dumps({"2": [LOG]}),
        json.dumps({"1": ["a"], "3": [LOG, "log/x"]}),
    ],
)
def test_all_are_concerned_where_the_record_does_not_say(damaged: str | None) -> None:
    """Records of earlier versions, foreign records, and paths that name no partition's log."""
    assert read(damaged).losing("orders", 1) == {1, 3}


def test_a_fault_that_takes_no_state_concerns_none() -> None:
    """Whatever is recorded of its files."""
    assert read(json.dumps({"1": [LOG]}), "kill").losing("orders", 2) == frozenset()
    assert read(None, "kill").losing(None, None) == frozenset()


def test_logs_with_changed_bytes_are_named_where_they_are_known() -> None:
    """Of node 3 it is not known in which file the bit flipped."""
    changed = with_changed_bytes([row(json.dumps({"1": [LOG]}))])
    assert [changed.has(1, "orders", n) for n in (1, 2)] == [False, True]
    assert changed.has(3, "orders", 1)
    assert not changed.has(2, "orders", 2)
    assert not with_changed_bytes([row(json.dumps({"1": [], "3": []}))])
    assert not with_changed_bytes([row(None, "disk.cut-tail")])
