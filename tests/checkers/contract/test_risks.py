"""What a plan's faults may do to acknowledged writes: asked of the contract, before a run."""

from typing import Any

import pytest

from checkers.contract.risks import risks

KILL: list[tuple[str, dict[str, str]]] = [("kill", {})]
POWER: list[tuple[str, dict[str, str]]] = [("power-loss", {})]
DISK: list[tuple[str, dict[str, str]]] = [("disk.lost", {})]


def plan(*topics: dict[str, Any], **more: Any) -> dict[str, Any]:
    defaults = {"acks": -1, "min_insync_replicas": 2, "replication_factor": 3}
    named = [{"name": f"t{n}", **defaults, **topic} for n, topic in enumerate(topics)]
    return {"topics": named, "system": "nodes", **more}


def permitted(found: dict[str, Any], faults: Any) -> list[str]:
    return [risk.permission.permitted_by for risk in risks(found, faults)]


ACKS_1 = "acks=1 (which waits for no follower)"
NO_FLUSH = "no flush before the acknowledgement (flush.messages)"
UNCLEAN = {"configs": {"unclean.leader.election.enable": "true"}}


@pytest.mark.parametrize(
    ("topic", "faults", "expected"),
    [
        ({}, KILL, []),
        ({"acks": 0}, KILL, []),
        ({"acks": 1}, KILL, [ACKS_1]),
        ({"acks": 1}, [("clock.jump", {}), ("cut.clients", {})], []),
        ({"acks": 1}, [], []),
        ({"min_insync_replicas": 1}, KILL, ["min.insync.replicas=1"]),
        (
            {"min_insync_replicas": 1, **UNCLEAN},
            KILL,
            ["unclean.leader.election.enable=true", "min.insync.replicas=1"],
        ),
        ({}, POWER, [NO_FLUSH]),
        ({"configs": {"flush.messages": "1"}}, POWER, []),
        (
            {"min_insync_replicas": 1},
            POWER,
            ["min.insync.replicas=1", f"min.insync.replicas=1 with {NO_FLUSH}"],
        ),
        (
            {"acks": 1},
            POWER,
            [ACKS_1, f"{ACKS_1} with {NO_FLUSH}"],
        ),
        ({}, [("elect", {"kind": "unclean"})], ["unclean.leader.election.enable=true"]),
        (
            {},
            [*KILL, ("config", {"name": "min.insync.replicas", "value": "1", "topic": "t0"})],
            ["min.insync.replicas=1"],
        ),
        (
            {},
            [*KILL, ("config", {"name": "min.insync.replicas", "value": "1", "topic": "other"})],
            [],
        ),
    ],
)
def test_what_settings_and_faults_permit_together(
    topic: dict[str, Any], faults: Any, expected: list[str]
) -> None:
    """Careful settings, or faults that take no leader, are no risk."""
    assert permitted(plan(topic), faults) == expected


def test_without_eligible_leader_replicas_the_last_one_standing_may_lose_it() -> None:
    """KIP-966 is off."""
    off = plan({}, broker={"eligible.leader.replicas.version": 0})
    assert permitted(off, POWER)[0].startswith("eligible.leader.replicas.version=0 with no flush")


def test_a_risk_is_one_line_whatever_the_topics() -> None:
    """Who, by what, and what prevents it."""
    (risk,) = risks(plan({"acks": 1}, {}, {"acks": 1}), KILL)
    assert risk.text == (
        f"{ACKS_1}: these faults can lose acknowledged writes of t0, t2, by a leader change; "
        "prevented by acks=all with min.insync.replicas=2 (and replication factor 3)"
    )


def test_lost_disks_are_a_risk_that_no_setting_takes() -> None:
    """Of the replicas, and of the controllers."""
    found = permitted(plan({}), DISK)
    assert len(found) == 2
    assert all("(no setting)" in each for each in found)
