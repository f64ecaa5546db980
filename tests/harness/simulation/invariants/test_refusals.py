"""Answers that call a valid request wrong: which are false, and what a disk that fails excuses."""

from typing import Any

import pytest
from kio.index import load_response_schema
from kio.schema.errors import ErrorCode

from harness.simulation.invariants.broken import InvariantBroken
from harness.simulation.invariants.refusals import NEVER, UNLESS_DISKS_FAIL, Refusals
from nodes.wire.versions import fill

DISK_AT_5 = {"fault": "disk.error", "started_ns": 5}
NOT_BEGUN = {"fault": "disk.error", "started_ns": None}
KILL_AT_1 = {"fault": "kill", "started_ns": 1}


def answer(code: ErrorCode) -> Any:
    """The answer to a produce."""
    row = {"index": 0, "error_code": code, "base_offset": -1}
    responses = [{"name": "t", "partition_responses": [row]}]
    return fill(load_response_schema(0, 9), responses=responses)


def refusals(code: ErrorCode, at_ns: int = 3) -> Refusals:
    """What a client was told at that time."""
    made = Refusals(lambda: at_ns)
    made.answered("node-1:9092", "produce", answer(code))
    return made


@pytest.mark.parametrize("code", NEVER)
@pytest.mark.parametrize("faults", [[], [DISK_AT_5], [KILL_AT_1]])
def test_no_fault_excuses_that_a_form_is_called_wrong(code: ErrorCode, faults: list[Any]) -> None:
    """The bytes of a request are the client's, whatever else is broken."""
    with pytest.raises(InvariantBroken, match=f"produce request with {code.name.upper()}"):
        refusals(code, at_ns=9).check(faults)


@pytest.mark.parametrize("code", UNLESS_DISKS_FAIL)
def test_a_disk_that_failed_before_excuses_unexpected_errors(code: ErrorCode) -> None:
    """A disk that fails later does not, nor one that was not made to fail."""
    refusals(code, at_ns=9).check([KILL_AT_1, DISK_AT_5])
    for faults in ([], [KILL_AT_1], [NOT_BEGUN], [DISK_AT_5]):
        with pytest.raises(InvariantBroken):
            refusals(code, at_ns=3).check(faults)


@pytest.mark.parametrize(
    "code",
    [
        *(ErrorCode.none, ErrorCode.not_leader_or_follower, ErrorCode.not_enough_replicas),
        *(ErrorCode.out_of_order_sequence_number, ErrorCode.illegal_generation),
    ],
)
def test_what_the_cluster_is_like_at_the_moment_is_not_judged(code: ErrorCode) -> None:
    """A valid request may meet any state of the cluster."""
    refusals(code).check([])
