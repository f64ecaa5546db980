"""What a ZooKeeper server says of itself."""

from harness.systems.ensemble.probe import ServerState, parse

ANSWER = b"""Zookeeper version: 3.8.4, built on 2024-02-12
Latency min/avg/max: 0/0.0/0
Received: 7
Sent: 6
Connections: 1
Outstanding: 0
Zxid: 0x20000001f
Mode: %s
Node count: 5
"""


def test_mode_and_zxid_are_read() -> None:
    """The zxid has the epoch of the leader in its upper half."""
    found = parse(ANSWER % b"leader")
    assert found == ServerState(mode="leader", zxid=(2 << 32) + 0x1F)
    assert found is not None
    assert found.leads


def test_follower_does_not_lead_and_a_server_on_its_own_does() -> None:
    """Only what orders the transactions may date them."""
    found = [parse(ANSWER % mode) for mode in (b"follower", b"standalone")]
    assert [each is not None and each.leads for each in found] == [False, True]


def test_server_without_a_quorum_serves_nobody() -> None:
    """Its process runs, but it answers with a sentence."""
    assert parse(b"This ZooKeeper instance is not currently serving requests\n") is None
    assert parse(b"") is None
